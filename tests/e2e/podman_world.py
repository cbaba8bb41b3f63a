"""Podman for one test: mount and network namespaces of its own, its own storage and images, and nothing of it left.

A test calls `enter()` first: it starts the program again inside, and there Podman's usual places are the test's own, so that
the real programs run with their real settings.
"""
import ctypes
import fcntl
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

INSIDE = "BOLE_TEST_PODMAN_STORAGE"
IMAGE = "localhost/bole-test:1"
APPLETS = ("sh cat cp date dd df echo env false grep hostname id kill ln ls mkdir mknod mount nc ps rm seq setsid sleep sync tee touch "
           "tr tail true umount uname wget whoami")


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def enter():
    """Returns inside the namespaces; the outer process waits for the inner one, tidies up and exits as it did."""
    if INSIDE in os.environ:
        return settle(pathlib.Path(os.environ[INSIDE]))
    if os.geteuid() != 0:
        skip("only root has mount and network namespaces of its own")
    if not shutil.which("podman"):
        skip("podman is not installed (apt-get install podman runc)")
    if not os.path.exists("/bin/busybox"):
        skip("busybox-static is not installed")
    storage = tempfile.mkdtemp(prefix="bole-podman-")
    try:
        code = subprocess.call(["unshare", "--mount", "--net", "--propagation", "private", sys.executable, "-B",
                                *sys.argv], env={**os.environ, INSIDE: storage})
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    sys.exit(code)


def settle(storage):
    (storage / "graph").mkdir()
    os.makedirs("/var/lib/containers", exist_ok=True)
    subprocess.check_call(["mount", "--bind", storage / "graph", "/var/lib/containers"])
    for path in ("/run/containers", "/run/libpod", "/run/runc", "/run/crun", "/dev/shm"):
        os.makedirs(path, exist_ok=True)
        subprocess.check_call(["mount", "-t", "tmpfs", "-o", "mode=1777", "test", path])
    loopback_up()
    # What a daemon of the test leaves behind comes to it, and not to the machine's first process.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def loopback_up():
    request = struct.pack("16sh", b"lo", 1 | 64)  # IFF_UP | IFF_RUNNING
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def podman(*arguments, check=True, **options):
    return subprocess.run(["podman", "--events-backend", "none", "--cgroup-manager", "cgroupfs", *arguments], check=check,
                          capture_output=True, text=True, **options)


def make_image(name=IMAGE, files=(), changes=()):
    """Of busybox, and of `files` (path on this machine, path in the image)."""
    with tempfile.TemporaryDirectory() as top:
        root = pathlib.Path(top) / "root"
        for directory in ("bin", "dev", "etc", "home/other", "proc", "root", "run", "sys", "tmp", "usr/bin", "var/tmp"):
            (root / directory).mkdir(parents=True)
        (root / "root").chmod(0o700)
        for place in ("tmp", "var/tmp"):  # runc gives a tmpfs there the mode that the image has
            (root / place).chmod(0o1777)
        shutil.copy("/bin/busybox", root / "bin/busybox")
        for applet in APPLETS.split():
            (root / "bin" / applet).symlink_to("busybox")
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (root / "etc/group").write_text("root:x:0:\n")
        for source, target in files:
            place = root / target.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)
        archive = pathlib.Path(top) / "root.tar"
        subprocess.check_call(["tar", "-C", root, "--owner=0", "--group=0", "-cf", archive, "."])
        words = [word for change in changes for word in ("--change", change)]
        podman("import", *words, str(archive), name)


def with_libraries(program, target):
    """A dynamic program and what it needs, for `files` of make_image."""
    files = [(program, target)]
    for line in subprocess.check_output(["ldd", program], text=True).splitlines():
        words = line.split()
        path = words[2] if "=>" in words else words[0]
        if path.startswith("/"):
            files.append((path, path))
    return files


def containers():
    """Names of all that this storage has, also those that Podman itself would not list."""
    listed = podman("ps", "--all", "--external", "--format", "{{.Names}}").stdout.split()
    return sorted(listed)


def processes_called(program):
    """Pids by the name of their program, zombies left out."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (entry / "cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue
        if os.path.basename(name.decode(errors="replace")) == program:
            found.append(int(entry.name))
    return found


def tag_of(path):
    """As attempts are named to tell homes apart: FNV-1a of the attempt's directory."""
    number = 14695981039346656037
    for byte in os.path.realpath(path).encode():
        number = (number ^ byte) * 1099511628211 % 2 ** 64
    return f"{number:016x}"


def conmons(home):
    """Pids of the conmons of this home's containers, which are named after the directory of their attempt."""
    tags = {tag_of(path) for path in pathlib.Path(home, "attempts").glob("[0-9]*")}
    found = []
    for pid in processes_called("conmon"):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        name = words[words.index("-n") + 1] if "-n" in words else ""
        if any(name.startswith(f"bole-{tag}-") for tag in tags):
            found.append(pid)
    return found


def trust(registry):
    """Its images may be pulled without TLS. The file is seen in this mount namespace alone."""
    directory = pathlib.Path("/etc/containers/registries.conf.d")
    if not os.path.ismount(directory):
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.check_call(["mount", "-t", "tmpfs", "test", directory])
    with open(directory / "test.conf", "a") as file:
        file.write(f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n')


def groups_of(home):
    """Control groups of this home's attempts, in all hierarchies."""
    number = 0xCBF29CE484222325
    for byte in str(home).encode():  # as the engine names a home: FNV-1a, the last six digits
        number = (number ^ byte) * 0x100000001B3 % 2 ** 64
    top = pathlib.Path("/sys/fs/cgroup")
    return sorted(str(path) for pattern in ("*/bole-%06x*", "bole-%06x*") for path in top.glob(pattern % (number & 0xFFFFFF)))
