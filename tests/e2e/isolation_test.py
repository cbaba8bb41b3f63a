#!/usr/bin/env python3
"""What a job tries against the server, the machine and other jobs, with a real server: all of it is refused.

Every attack is a line of the attacker's program. It prints `DONE name` where it got what it wanted, and `tried name`
in any case, so that an attack that was never made is noticed.
"""
import contextlib
import ctypes
import hashlib
import io
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tarfile
import time
import traceback

from bole import SKIP, ApiError, Bole, UnixConnection

SECRET = "s3cret-of-the-victim"

# What every attacker begins with.
PRELUDE = r"""
import ctypes, errno, glob, os, signal, socket, struct, subprocess, sys, time
SECRET = "s3cret-of-the-victim"
HOME = os.environ["TARGET_HOME"]
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, attack):
    '''`attack` returns something true where it succeeded; it may raise.'''
    try:
        got = attack()
    except Exception:
        got = None
    if got:
        print("DONE", name, repr(got)[:200], flush=True)
    print("tried", name, flush=True)
def read(path, size=4096):
    with open(path, "rb") as f:
        return f.read(size)
def write(path, content=b"x"):
    with open(path, "wb") as f:
        f.write(content)
    return True
"""

FILES = PRELUDE + r"""
for name in ("ledger.db", "ledger.db-wal", "ledger.key", "ledger.pub", "token", "server.log", "reserve", "bole.sock"):
    attempt("read " + name, lambda: read(f"{HOME}/{name}"))
    attempt("write " + name, lambda: write(f"{HOME}/{name}"))
for name in ("", "attempts", "uploads", "work", os.environ["VICTIM_DIR"], os.environ["SIBLING_DIR"]):
    path = os.path.join(HOME, name)
    attempt("list " + name, lambda: [e for e in os.listdir(path) if e not in ("work", os.environ["MY_NAME"])])
for directory in (os.environ["VICTIM_DIR"], os.environ["SIBLING_DIR"]):
    attempt("read " + directory, lambda: read(directory + "/secret"))
    attempt("write " + directory, lambda: write(directory + "/planted"))
    attempt("checkpoint of " + directory, lambda: read(directory + "/ckpt/epoch-1"))
attempt("uploads", lambda: glob.glob(HOME + "/uploads/*"))
attempt("around", lambda: [p for p in glob.glob(os.path.dirname(HOME) + "/*") if os.path.basename(p) != os.path.basename(HOME)])
attempt("host tmp", lambda: read("/tmp/" + os.environ["HOST_FILE"]))
attempt("shadow", lambda: read("/etc/shadow"))
attempt("root's home", lambda: os.listdir("/root"))
for path in ("/usr/bin/planted", "/etc/planted", "/etc/passwd", "/opt/planted", "/planted", "/run/planted", "/dev/planted",
             "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/run/bole-init",
             "/proc/1/oom_score_adj", "/sys/fs/cgroup/cgroup.procs"):
    attempt("write " + path, lambda: write(path))
attempt("mknod", lambda: os.mknod("/tmp/null", 0o20666, os.makedev(1, 3)) is None)
attempt("mknod here", lambda: os.mknod("null", 0o20666, os.makedev(1, 3)) is None)
attempt("block device", lambda: os.mknod("disk", 0o60666, os.makedev(254, 0)) is None)
attempt("devices", lambda: [d for d in os.listdir("/dev") if d not in
        ("core console fd full null ptmx pts random shm stderr stdin stdout tty urandom zero " + os.environ.get("MY_DEVICES", "")).split()])
attempt("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0)
attempt("remount", lambda: libc.mount(b"none", b"/usr", None, 32 | 4096, None) == 0)
attempt("umount", lambda: libc.umount2(b"/tmp", 2) == 0)
attempt("chroot", lambda: os.chroot("/tmp") is None)
for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("net", 0x40000000), ("pid", 0x20000000)):
    attempt(name + " namespace", lambda: libc.unshare(flag) == 0)
attempt("setuid", lambda: os.setuid(0) is None)
attempt("setuid program", lambda: subprocess.run(["su", "-c", "true"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0)
attempt("own setuid program", lambda: [os.chmod("id", 0o6755) for _ in [subprocess.run(["cp", "/usr/bin/id", "id"])]] and
        subprocess.run(["./id", "-u"], capture_output=True, text=True).stdout.strip() != str(os.getuid()))
keys = (250, 248) if os.uname().machine == "x86_64" else (219, 217)
attempt("keyring", lambda: libc.syscall(keys[0], 0, -3, 0) >= 0)
attempt("add key", lambda: libc.syscall(keys[1], b"user", b"x", b"y", 1, -4) >= 0)
attempt("keys", lambda: SECRET.encode() in read("/proc/keys", 1 << 20))
attempt("bpf", lambda: libc.syscall(321 if keys[0] == 250 else 280, 0, 0, 0) >= 0)
attempt("affinity of others", lambda: os.sched_setaffinity(int(os.environ["VICTIM_PID"]), {0}) is None)
"""

PROCESSES = PRELUDE + r"""
pids = [int(os.environ[name]) for name in ("VICTIM_PID", "SIBLING_PID", "SERVER_PID", "SUPERVISOR_PID", "INIT_PID")]
seen = [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
def vm_read(pid):
    buffer = ctypes.create_string_buffer(64)
    for line in open(f"/proc/{pid}/maps") if os.path.exists(f"/proc/{pid}/maps") else ["400000-401000"]:
        local, remote = iovec(ctypes.addressof(buffer), 64), iovec(int(line.split("-")[0], 16), 64)
        if libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) > 0:
            return True
attempt("see others", lambda: [p for p in seen if p != 1 and read(f"/proc/{p}/comm") != b"x"])
for pid in sorted(set(pids + seen)):
    for name in ("environ", "mem", "maps", "root/etc/shadow", "cwd/secret", "auxv", "stack"):
        attempt(f"/proc/{pid}/{name}", lambda: read(f"/proc/{pid}/{name}"))
    attempt(f"descriptors of {pid}", lambda: os.listdir(f"/proc/{pid}/fd"))
    attempt(f"ptrace {pid}", lambda: libc.ptrace(16, pid, 0, 0) == 0)
    attempt(f"seize {pid}", lambda: libc.ptrace(0x4206, pid, 0, 0) == 0)
    attempt(f"memory of {pid}", lambda: vm_read(pid))
    attempt(f"pidfd {pid}", lambda: pid != 1 and os.pidfd_open(pid) >= 0)
    for number in (0, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
        attempt(f"signal {number} to {pid}", lambda: os.kill(pid, number) is None)
attempt("any environment", lambda: [p for p in glob.glob("/proc/[0-9]*/environ") if int(p.split("/")[2]) != os.getpid() and SECRET.encode() in read(p, 1 << 20)])
attempt("sysv", lambda: len(open("/proc/sysvipc/shm").readlines()) > 1)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt("kill all", lambda: os.kill(-1, signal.SIGKILL) is None)
"""

NETWORK = PRELUDE + r"""
def connect(family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(5)
    s.connect(address)
    return s
def ask(request):
    s = connect(socket.AF_INET, ("127.0.0.1", int(os.environ["PORT"])))
    s.sendall(request.encode())
    return s.recv(4096).decode()
attempt("socket", lambda: connect(socket.AF_UNIX, HOME + "/bole.sock"))
attempt("socket here", lambda: connect(socket.AF_UNIX, os.path.relpath(HOME) + "/bole.sock"))
if os.environ["NETWORK"] == "gang":
    attempt("server's port", lambda: ask("GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"))
    attempt("abstract socket", lambda: connect(socket.AF_UNIX, "\0" + os.environ["ABSTRACT"]))
    attempt("devices", lambda: [l for l in open("/proc/net/dev") if ":" in l and l.split(":")[0].strip() != "lo"])
    attempt("devices in /sys", lambda: [d for d in os.listdir("/sys/class/net") if d != "lo"])
    attempt("routes", lambda: open("/proc/net/route").readlines()[1:])
    attempt("sockets of others", lambda: [l for l in open("/proc/net/unix") if HOME in l or os.environ["ABSTRACT"] in l])
else:
    for path in ("/v1/status", "/v1/jobs", "/v1/jobs/1/logs", "/v1/events"):
        for head in ("", "Authorization: Bearer \r\n", "Authorization: Bearer " + "0" * 64 + "\r\n", "Authorization: Basic cm9vdDo=\r\n"):
            attempt(path + head, lambda: " 401 " not in ask(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n").split("\n")[0])
    for host in ("127.0.0.1", "elsewhere"):
        attempt("stop as " + host, lambda: ask(f"POST /v1/jobs/1/stop HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").split()[1] not in ("401", "403", "421"))
attempt("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("low port", lambda: socket.socket().bind(("0.0.0.0", 1)))
"""

# Leaves processes of every kind behind, and ends.
LINGER = r"""
import os, signal, sys, time
def ignore():
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
def detach(what):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ignore()
            for fd in range(3): os.close(fd)
            what()
        os._exit(0)
def stay():
    while True: time.sleep(1000)
def run_away():
    while True:
        if os.fork(): os._exit(0)
        time.sleep(0.001)
def stopped():
    while True: os.kill(os.getpid(), signal.SIGSTOP)
for what in (stay, run_away, stopped): detach(what)
if os.fork() == 0: stay()
print("uid", os.getuid(), flush=True)
time.sleep(0.2)
if os.environ["END"] == "stop":
    ignore()
    print("ready", flush=True)
    stay()
os._exit(0 if os.environ["END"] == "exit" else 3)
"""

BOMB = r"""
import os, time
print("ready", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.001)
"""

FILL = PRELUDE + r"""
def fill(directory):
    size = 0
    try:
        with open(directory + "/filler", "wb") as f:
            while size < 1 << 30:
                size += f.write(bytes(1 << 20))
                f.flush()
    except OSError as e:
        print("filled", directory, size >> 20, errno.errorcode[e.errno], flush=True)
        return False
    finally:
        os.unlink(directory + "/filler")
    return True
for directory in ("/tmp", "/var/tmp", "/dev/shm", os.environ["HOME"], "/run/bole/.."):
    attempt("fill " + directory, lambda: fill(directory))
"""

FLOOD = r"""
import os
line = b"x" * 1023 + b"\n"
for _ in range(360): os.write(1, line * 1024)
print("the end")
"""

LINKS = PRELUDE + r"""
def link(target, path):
    if os.path.islink(path): os.unlink(path)
    elif os.path.isdir(path): os.rmdir(path)
    os.symlink(target, path)
link(os.environ["TRAP_DIR"], "ckpt")
link(HOME, "home")
link("/etc/shadow", "shadow")
progress = os.environ["BOLE_PROGRESS_FILE"]
for name in ("progress", "progress.json", "log", "status", "end.json", "claim", "launch.json", "stop.json"):
    link(HOME + "/token", os.path.join(os.path.dirname(progress), name))
link(HOME + "/token", progress + ".new")
os.rename(progress + ".new", progress)
write("mine", bytes(4321))
for path in ("mine", "ckpt/file", "ckpt", "home/token", "shadow", "../../token", "/etc/shadow", os.environ["TRAP_DIR"] + "/file", HOME + "/ledger.db"):
    print("BOLE checkpoint path=" + path + " epoch=1", flush=True)
print("BOLE progress epoch=1", flush=True)
time.sleep(1.5)
print("linked", flush=True)
sys.exit(1)
"""

VICTIM = r"""
import os, signal, time
os.makedirs("ckpt", exist_ok=True)
open("secret", "w").write("s3cret-of-the-victim")
open("ckpt/epoch-1", "w").write("s3cret-of-the-victim")
for path in ("secret", "ckpt/epoch-1"): os.chmod(path, 0o644)
print("BOLE checkpoint path=ckpt/epoch-1 epoch=1", flush=True)
print("ready", flush=True)
while True: time.sleep(1000)
"""


def quoted(text):
    return json.dumps(text)


def spec(name, program, project="default", env=None, more="", task_more=""):
    lines = [f"name: {name}", f"project: {project}", more, "tasks:", "  - name: main",
             f"    command: [python3, -c, {quoted(program)}]"]
    if task_more:
        lines.append(task_more)
    if env:
        lines.append("    env:")
        lines += [f"      {key}: {quoted(str(value))}" for key, value in env.items()]
    return "\n".join(line for line in lines if line) + "\n"


class DefaultHomeBole(Bole):
    """With its home where it lies when nobody says otherwise."""

    def __init__(self, build, **options):
        super().__init__(build, **options)
        self.user_home = self.directory / "root"
        self.user_home.mkdir(0o700)
        self.home = self.user_home / ".local/share/bole"

    def command(self, *arguments):
        return ["/usr/bin/env", "-u", "BOLE_HOME", f"HOME={self.user_home}", str(self.program), *arguments]


class World:
    """A server with two jobs that have something to hide."""

    def __init__(self, bole):
        self.bole = bole
        self.host_file = f"bole-isolation-{os.getpid()}"
        self.abstract = f"bole-isolation-{os.getpid()}-{id(self)}"

    def __enter__(self):
        pathlib.Path("/tmp", self.host_file).write_text(SECRET)
        self.plant()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind("\0" + self.abstract)
        self.listener.listen(8)
        self.bole.up()
        self.victim = self.bole.submit(spec("victim", VICTIM, "alpha", {"HIDDEN": SECRET}))
        self.sibling = self.bole.submit(spec("sibling", VICTIM, "beta", {"HIDDEN": SECRET}))
        for job in (self.victim, self.sibling):
            self.bole.wait_until(lambda: "ready" in self.bole.lines(job), "the victims are ready", 60)
        return self

    def plant(self):
        """Where namespaces have to keep jobs out: a key in the server's session, and a segment of shared memory."""
        libc = ctypes.CDLL(None, use_errno=True)
        join, add = (250, 248) if os.uname().machine == "x86_64" else (219, 217)
        assert libc.syscall(join, 1, None) >= 0 and libc.syscall(add, b"user", SECRET.encode(), b"x", 1, -3) >= 0
        self.segment = libc.shmget(0, 4096, 0o1666)
        assert self.segment >= 0 and len(open("/proc/sysvipc/shm").readlines()) > 1 and SECRET in open("/proc/keys").read()

    def __exit__(self, *_):
        ctypes.CDLL(None).shmctl(self.segment, 0, None)
        self.listener.close()
        pathlib.Path("/tmp", self.host_file).unlink()

    def directory(self, job):
        return self.bole.home / "work" / str(job)

    def pid_of(self, job):
        """Of the job's command, as the host sees it."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and f"BOLE_JOB_ID={job}\0".encode() in (entry / "environ").read_bytes():
                    return int(entry.name)
        raise AssertionError(f"job {job} has no process")

    def environment(self, network="gang"):
        port = re.search(r"http://127\.0\.0\.1:(\d+)", self.bole.log()).group(1)
        return {"TARGET_HOME": self.bole.home, "VICTIM_DIR": self.directory(self.victim),
                "SIBLING_DIR": self.directory(self.sibling), "VICTIM_PID": self.pid_of(self.victim),
                "SIBLING_PID": self.pid_of(self.sibling), "SERVER_PID": self.bole.server.pid,
                "SUPERVISOR_PID": self.bole.supervisors()[0], "INIT_PID": self.bole.inits()[0], "HOST_FILE": self.host_file,
                "ABSTRACT": self.abstract, "NETWORK": network, "PORT": port, "MY_NAME": "-"}

    def attack(self, name, program, at_least, project="beta", network="gang", **options):
        """Runs it as a job of the sibling's project, so with the sibling's uid, and returns its job."""
        job = self.bole.submit(spec(name, program, project, self.environment(network),
                                    more="" if network == "gang" else f"network: {network}", **options))
        detail = self.bole.wait_for(job)
        lines = self.bole.lines(job)
        done = [line for line in lines if line.startswith("DONE")]
        tried = [line for line in lines if line.startswith("tried")]
        # The list of work directories holds the attacker's own, and where its own is mounted.
        done = [line for line in done if not re.match(rf"DONE list work \['{job}'\]$", line)]
        assert not done, f"{name} got through:\n" + "\n".join(done)
        assert len(tried) >= at_least, f"{name} tried only {len(tried)} of {at_least}: {lines[-5:]} {detail['summary']}"
        assert not (self.directory(self.victim) / "planted").exists()
        return job


def unhurt(world):
    for job in (world.victim, world.sibling):
        assert world.bole.job(job)["summary"]["state"] == "RUNNING", world.bole.job(job)["summary"]
    assert world.bole.run("fsck", check=0).stdout.startswith("clean")


def test_files(world):
    world.attack("files", FILES, 66)
    unhurt(world)


def test_processes(world):
    world.attack("processes", PROCESSES, 80)
    unhurt(world)


def test_network(world):
    world.attack("network", NETWORK, 10)
    world.attack("hostnet", NETWORK, 20, network="host")
    unhurt(world)


def processes_of(uid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid and "\nState:\tZ" not in (entry / "status").read_text():
                found.append((int(entry.name), (entry / "cmdline").read_bytes()[:100]))
    return found


def test_lives(world):
    bole = world.bole
    for end, state in (("exit", "SUCCEEDED"), ("fail", "FAILED"), ("stop", "CANCELLED")):
        job = bole.submit(spec("linger-" + end, LINGER, "gamma", {"END": end}, more="grace: 200ms"))
        if end == "stop":
            bole.wait_until(lambda: "ready" in bole.lines(job), "it is ready", 60)
            bole.stop(job)
        detail = bole.wait_for(job)
        assert detail["summary"]["state"] == state, detail["summary"]
        uid = int(bole.lines(job)[0].split()[1])
        assert uid != 0
        left = processes_of(uid)
        assert not left, f"{end}: {left}"
    job = bole.submit(spec("bomb", BOMB, "gamma", more="grace: 200ms"))
    bole.wait_until(lambda: "ready" in bole.lines(job), "the bomb is ready", 60)
    begun = time.monotonic()
    bole.stop(job)
    bole.wait_for(job)
    assert time.monotonic() - begun < 20
    assert not processes_of(uid), processes_of(uid)[:3]
    unhurt(world)


def test_memory_files(world):
    """What a job fills is its own memory, and no more of it than its limit."""
    before = {path: os.statvfs(path).f_bavail for path in ("/tmp", "/dev/shm")}
    job = world.attack("fill", FILL, 5, task_more="    memory: 512MiB")
    for line in world.bole.lines(job):
        if line.startswith("filled /"):
            assert int(line.split()[2]) <= 256, line
    after = {path: os.statvfs(path).f_bavail for path in ("/tmp", "/dev/shm")}
    for path in before:
        lost = (before[path] - after[path]) * os.statvfs(path).f_frsize
        assert lost < 64 << 20, f"{path} has {lost} bytes less"
    hungry = world.bole.submit(spec("hungry", "x = b'1' * (1 << 30)\nprint(len(x))", "beta", task_more="    memory: 128MiB"))
    detail = world.bole.wait_for(hungry)
    assert detail["summary"]["state"] == "FAILED"
    assert "memory limit" in json.dumps(detail), detail
    unhurt(world)


def test_log(world):
    job = world.bole.submit(spec("flood", FLOOD, "beta"))
    world.bole.wait_for(job, seconds=120)
    attempt = world.bole.job(job)["attempts"][-1]["id"]
    size = sum(f.stat().st_size for f in (world.bole.home / "attempts" / str(attempt) / "log").iterdir())
    assert 100 << 20 < size <= (256 << 20) + 4096, size
    page = world.bole.get(f"/v1/jobs/{job}/logs?tail=1")
    assert page["lines"][-1]["text"] == "the end"
    unhurt(world)


def test_links(world):
    trap = world.bole.directory / "trap"
    trap.mkdir()
    (trap / "file").write_text(SECRET * 100)
    trap.chmod(0o700)
    token = (world.bole.home / "token").read_text()
    env = {**world.environment(), "TRAP_DIR": trap}
    job = world.bole.submit(spec("links", LINKS, "beta", env, more="checkpoint: {path: ckpt, every: 1}\n"
                                                                     "restart: {policy: on-failure, max_retries: 1, backoff: 100ms}"))
    detail = world.bole.wait_for(job)
    assert detail["summary"]["state"] == "FAILED" and len(detail["attempts"]) == 2, detail["summary"]
    assert world.bole.lines(job)[-1] == "linked", world.bole.lines(job)
    assert os.stat(trap).st_uid == 0 and os.stat(trap).st_mode & 0o777 == 0o700 and list(trap.iterdir()) == [trap / "file"]
    assert (world.bole.home / "token").read_text() == token
    for name in ("token", "ledger.db"):
        assert os.stat(world.bole.home / name).st_uid == 0
    assert token.strip() not in json.dumps(detail) + "".join(world.bole.lines(job))
    told = world.bole.get("/v1/events?limit=10000")
    bodies = [e["body"] for e in told["events"] if "checkpoint" in e["kind"]]
    assert any("4321" in body for body in bodies), f"the size of its own checkpoint is told: {bodies}"
    for number in re.findall(r'"size": ?(\d+)', "".join(bodies)):
        assert int(number) in (0, 4321, len(SECRET)), f"a job learns how large another file is: {number}"
    unhurt(world)


def archive(*entries):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, kind, link in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = link
            info.mode = 0o6755 if kind == tarfile.REGTYPE else 0o777
            info.devmajor, info.devminor = (1, 3)
            content = SECRET.encode() if kind == tarfile.REGTYPE else b""
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return data.getvalue()


def put(bole, data):
    digest = hashlib.sha256(data).hexdigest()
    connection = UnixConnection(str(bole.home / "bole.sock"))
    connection.request("PUT", "/v1/uploads/" + digest, data)
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status in (200, 201), response.status
    return digest


def test_uploads(world):
    bole = world.bole
    planted = bole.directory / "planted"
    up = "../" * 20 + str(planted)[1:]
    cases = {
        "absolute": [(str(planted), tarfile.REGTYPE, "")],
        "upwards": [(up, tarfile.REGTYPE, ""), ("../planted", tarfile.REGTYPE, ""), ("a/../../planted", tarfile.REGTYPE, "")],
        "through a link": [("out", tarfile.SYMTYPE, str(bole.directory)), ("out/planted", tarfile.REGTYPE, "")],
        "through two links": [("a", tarfile.SYMTYPE, "."), ("a/b", tarfile.SYMTYPE, str(bole.directory)), ("b/planted", tarfile.REGTYPE, "")],
        "over a link": [("planted", tarfile.SYMTYPE, str(planted)), ("planted", tarfile.REGTYPE, "")],
        "a hard link": [("ledger", tarfile.LNKTYPE, str(bole.home / "ledger.db"))],
        "a hard link upwards": [("ledger", tarfile.LNKTYPE, "../" * 20 + str(bole.home / "ledger.db")[1:])],
        "a device": [("null", tarfile.CHRTYPE, "")],
        "a disk": [("disk", tarfile.BLKTYPE, "")],
    }
    for index, (name, entries) in enumerate(cases.items()):
        answer = bole.post("/v1/jobs", {"spec": spec(f"upload-{index}", "import os\nprint(*os.listdir('.'))", "beta"),
                                        "file_name": "test.yaml", "directory": "/tmp", "request_id": "",
                                        "upload": put(bole, archive(*entries))})
        job = answer["jobs"][0]["id"]
        bole.wait_for(job)
        assert not planted.exists(), f"{name} wrote outside"
        assert not (bole.home / "work" / "planted").exists() and not (bole.home / "planted").exists(), name
        top = world.directory(job)
        for path in (top.rglob("*") if top.exists() else []):
            mode = path.lstat().st_mode
            assert (mode & 0o170000) not in (0o020000, 0o060000), f"{name} made a device"
            assert path.is_symlink() or not mode & 0o6000, f"{name} made a setuid file"
            assert path.is_symlink() or path.is_dir() or path.stat().st_nlink == 1, f"{name} made a hard link"
            assert path.lstat().st_uid not in (0,), f"{name} left a file of root's"
    unhurt(world)


def test_mounts(world):
    bole = world.bole
    marker = bole.directory / "ran-as-root"
    evil = bole.directory / "evil"
    evil.mkdir(exist_ok=True)
    (evil / "bole-init").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (evil / "bole-init").chmod(0o755)
    (evil / "home").unlink(missing_ok=True)
    (evil / "home").symlink_to(bole.home)
    (evil / "out").unlink(missing_ok=True)
    (evil / "out").symlink_to("/oldroot" + str(bole.directory))
    for index, mounts in enumerate((
            [f"{bole.home}:/data"], [f"{bole.home}/work:/data:ro"], [f"{world.directory(world.victim)}:/data:ro"], [f"{evil}/home:/data"],
            ["/proc:/data:ro"], ["/proc/1:/data"], [f"{evil}/bole-init:/run/bole-init"], [f"{evil}:/run"], [f"{evil}:/run/bole"],
            [f"{evil}:/data", f"{evil}:/data/out/made"], [f"{evil}:/etc"], [f"{evil}:/usr"])):
        text = spec(f"mount-{index}", "print('DONE')", "beta", task_more="    mounts: [" + ", ".join(map(quoted, mounts)) + "]")
        try:
            job = bole.submit(text)
        except ApiError as error:
            assert error.status in (400, 403, 422), error
            continue
        detail = bole.wait_for(job)
        assert detail["summary"]["state"] == "FAILED", (mounts, detail["summary"])
        assert "mount" in json.dumps(detail), (mounts, detail)
        assert bole.lines(job) == [], (mounts, bole.lines(job))
    assert not marker.exists() and not (bole.directory / "made").exists()
    # Around what is hidden: it is not there.
    job = bole.submit(spec("around", "import os\nprint(os.listdir('/all/proc'), os.path.exists('/all" + str(bole.home) + "/bole.sock'))\n"
                           "try: print(open('/all/dev/zero', 'rb').read(1))\nexcept OSError as e: print(e.errno)", "beta",
                           task_more="    mounts: ['/:/all:ro']"))
    bole.wait_for(job)
    assert bole.lines(job) == ["[] False", "13"], bole.lines(job)
    unhurt(world)


def as_user(uid, action):
    """`action` in a process of that user; what it returned as text."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            text = repr(action())
        except BaseException as error:
            text = f"{type(error).__name__} {error}"
        os.write(write_end, text.encode()[:60000])
        os._exit(0)
    os.close(write_end)
    text = b""
    while piece := os.read(read_end, 65536):
        text += piece
    os.close(read_end)
    os.waitpid(child, 0)
    return text.decode()


def test_peers(world):
    """Other users of the machine, and the user of the jobs themselves."""
    bole = world.bole
    uid = int(subprocess.run(["stat", "-c", "%u", world.directory(world.sibling)], capture_output=True, text=True).stdout)
    for user in (4242, uid):
        for method, path in (("POST", f"/v1/jobs/{world.victim}/stop"), ("GET", f"/v1/jobs/{world.victim}/logs"),
                             ("POST", "/v1/shutdown"), ("POST", f"/v1/jobs/{world.sibling}/stop")):
            answer = as_user(user, lambda: bole.request(method, path, {} if "stop" in path else None))
            assert answer.startswith(("ApiError 403", "PermissionError")), f"{method} {path} as {user}: {answer}"
        for name in ("ledger.db", "ledger.key", "token", "server.log", f"work/{world.victim}/secret", f"work/{world.victim}",
                     "uploads", "attempts"):
            def look():
                path = bole.home / name
                return os.listdir(path) if path.is_dir() else path.read_bytes()
            answer = as_user(user, look)
            mine = user == uid and str(world.sibling) in name
            assert mine or answer.startswith(("PermissionError", "FileNotFoundError")), f"{name} as {user}: {answer[:200]}"
        assert SECRET not in as_user(user, lambda: bole.get(f"/v1/jobs/{world.victim}"))
    unhurt(world)


def words_of_processes():
    found = b""
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                found += (entry / "cmdline").read_bytes() + b"\n"
    return found


def test_arguments(world):
    """Everyone on the machine reads the arguments of all processes: what a job has in its environment is in none of them."""
    bole = world.bole
    value, marker = (os.urandom(16).hex() for _ in range(2))
    program = (f"import hashlib, os, time\nmarker = '{marker}'\n"
               "print(hashlib.sha256(os.environ['HIDDEN'].encode()).hexdigest(), flush=True)\ntime.sleep(1000)")
    job = bole.submit(spec("hider", program, "beta", {"HIDDEN": value}))
    seen = b""

    def told():
        nonlocal seen
        seen += words_of_processes()  # also of what only helps it to start
        return bole.lines(job)
    lines = bole.wait_until(told, "the job tells what it has", 60)
    seen += words_of_processes()
    assert lines == [hashlib.sha256(value.encode()).hexdigest()], lines
    assert bole.job(job)["summary"]["state"] == "RUNNING"
    assert b"bwrap" in seen and marker.encode() in seen, "the job's processes are among those looked at"
    bare = [line for line in seen.split(b"\n") if value.encode() in line]
    assert not bare, f"a value of the environment stands in arguments: {bare[0][:400]}"
    bole.stop(job)
    bole.wait_for(job)


def test_gpus(world):
    """Only its own, also by name."""
    show = "import glob, os\nprint(os.environ['CUDA_VISIBLE_DEVICES'], glob.glob('/dev/nvidia*'), flush=True)\nimport time\ntime.sleep(1000)"
    jobs = [world.bole.submit(spec(f"gpu-{i}", show, "beta", task_more=f"    gpus: {n}")) for i, n in enumerate((1, 2, 0))]
    seen = []
    for job, count in zip(jobs, (1, 2, 0)):
        line = world.bole.wait_until(lambda: world.bole.lines(job), "it tells its GPUs", 60)[0]
        uuids, devices = line.split(" [")
        uuids = [u for u in uuids.split(",") if u]
        assert len(uuids) == count and devices == "]", line
        seen += uuids
    assert len(set(seen)) == 3
    for job in jobs:
        world.bole.stop(job)
        world.bole.wait_for(job)


def test_mounts_of_others(world):
    """Root mounts for jobs, but not what their submitters could not reach themselves."""
    bole = world.bole
    closed = bole.directory / "closed"
    (closed / "open").mkdir(parents=True, exist_ok=True)
    (closed / "open" / "file").write_text(SECRET)
    program = "print(open('/data/file').read())"
    text = spec("reach", program, "beta", task_more=f"    mounts: ['{closed}/open:/data:ro']")
    for mode in (0o700, 0o711):
        closed.chmod(mode)
        answer = as_user(4242, lambda: bole.submit(text.replace("reach", f"reach-{mode:o}")))
        if answer.startswith("PermissionError") and type(bole) is not Bole:  # this one's home is closed to other users
            return
        assert answer.isdigit(), f"another user's job is taken: {answer}"
        job = int(answer)
        detail = bole.wait_for(job)
        assert detail["summary"]["state"] == ("FAILED" if mode == 0o700 else "SUCCEEDED"), detail["summary"]
        assert bole.lines(job) == ([] if mode == 0o700 else [SECRET]), bole.lines(job)
        assert mode != 0o700 or "cannot reach" in json.dumps(detail), detail


TESTS = [test_files, test_processes, test_network, test_lives, test_memory_files, test_log, test_links, test_uploads, test_mounts, test_mounts_of_others,
         test_peers, test_arguments, test_gpus]


def main():
    if os.geteuid() != 0 or not any(os.access(p, os.X_OK) for p in ("/usr/bin/bwrap", "/usr/local/bin/bwrap")):
        print("needs root and bubblewrap")
        return SKIP
    failed = []
    for kind in (Bole, DefaultHomeBole):
        with kind(sys.argv[1]) as bole, World(bole) as world:
            for test in TESTS:
                if len(sys.argv) > 2 and test.__name__ not in sys.argv[2:]:
                    continue
                begun = time.monotonic()
                try:
                    test(world)
                    print(f"ok      {kind.__name__}.{test.__name__} {time.monotonic() - begun:.1f} s", flush=True)
                except Exception:
                    traceback.print_exc()
                    failed.append(f"{kind.__name__}.{test.__name__}")
    for name in failed:
        print("FAILED", name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
