#!/usr/bin/env python3
"""Jobs with an image, in real Podman containers: what a rank sees and may do, limits, ports, ends of all kinds, and that
no container is left whoever is killed.

    podman_test.py BUILD [PART ...]      (default: all parts)
"""
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import podman_world
from bole import BUSY, Bole, check_cpu_limit
from podman_world import IMAGE


def spec(command, name="job", top="", **fields):
    """A job of one task; `command` goes to a shell, fields as in bole.yaml."""
    task = {"name": "worker", "image": IMAGE, "cpus": 0.1, "command": ["/bin/sh", "-c", command], **fields}
    return f"name: {name}\n{top}\ntasks:\n  - {json.dumps(task)}\n"


def run(bole, text, state="SUCCEEDED", seconds=60):
    job = bole.submit(text)
    detail = bole.wait_for(job, seconds=seconds)
    found = detail["summary"]["state"]
    assert found == state, f"{found}, not {state}: {detail['attempts']}\n" + "\n".join(bole.lines(job))
    return job, detail


def exit_of(detail, rank=0, attempt=-1):
    return detail["attempts"][attempt]["ranks"][rank]["exit"]


def none_left(bole):
    bole.wait_until(lambda: not conmons(bole) and not bole.inits() and not bole.supervisors(), "no process is left", 20)
    assert podman_world.containers() == [], podman_world.containers()
    assert podman_world.groups_of(bole.home) == [], podman_world.groups_of(bole.home)


def conmons(bole):
    return podman_world.conmons(bole.home)


def running(bole, text, ranks=1):
    job = bole.submit(text)
    bole.wait_until(lambda: len([line for line in bole.lines(job) if line == "up"]) >= ranks, "every rank is up", 30)
    return job


# ---- what a rank sees -----------------------------------------------------------------------------------------------

def what_a_rank_sees(bole):
    job, _ = run(bole, spec("id -u; id -un; pwd; echo home=$HOME; touch here /tmp/x /var/tmp/x $HOME/x /dev/shm/x && echo writable; "
                            "for p in / /bin /etc /usr /root /run; do touch $p/x 2>/dev/null && echo may write $p; done; "
                            "echo image=$FROM_IMAGE own=$OWN over=$OVER path=$PATH; ls /dev; ls /dev/shm; "
                            "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; ls -d /home/other; cat /proc/1/environ; "
                            "ls /proc | grep -c '^[0-9]'; ls /sys/class/net; df -k /dev/shm | tail -1; true",
                            env={"OWN": "1", "OVER": "job"}))
    lines = bole.lines(job)
    text = "\n".join(lines)
    assert lines[0] == "200001" and lines[1] == "job", lines[:2]
    assert lines[2] == str(bole.home / "work" / str(job)), lines[2]
    assert "home=/home/job" in lines and "writable" in lines, text
    assert not [line for line in lines if line.startswith("may write")], text
    assert "image=yes own=1 over=job path=/opt/x:/bin" in lines, text
    assert re.findall(r"^Cap\w+:\s+(\w+)$", text, re.M) == ["0" * 16] * 5, text
    assert "NoNewPrivs:\t1" in text and "Seccomp:\t2" in text, text
    devices = {"fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
               "urandom", "zero"}
    at = lines.index("fd")
    assert set(lines[at:at + len(devices)]) == devices, text
    assert "lo" in lines and not [line for line in lines if line.startswith("eth")], text
    shm = int([line for line in lines if line.endswith("/dev/shm")][-1].split()[1])
    assert shm > 1024 * 1024, f"/dev/shm has only {shm} KiB"
    owner = (bole.home / "work" / str(job) / "here").stat()
    assert owner.st_uid == 200001, owner
    job, _ = run(bole, spec("df -k /dev/shm | tail -1", shm_size="100MiB"))
    assert " 102400 " in bole.lines(job)[-1], bole.lines(job)
    # Below a home directory of the image's, which is closed to the rank as it is.
    with tempfile.TemporaryDirectory(dir="/root") as data:
        os.chmod(data, 0o755)
        pathlib.Path(data, "file").write_text("seen\n")
        job, _ = run(bole, spec(f"cat {data}/file; touch {data}/x 2>/dev/null && echo wrote; ls /data; true",
                                mounts=[f"{data}:{data}:ro", f"{data}:/data:ro"]))
        assert bole.lines(job) == ["seen", "file"], bole.lines(job)


def secrets_stay_secret(bole):
    job = running(bole, spec("echo up; sleep 60", env={"TOKEN": "hunter2-" + "x" * 20}))
    name = podman_world.containers()[0]
    seen = podman_world.podman("inspect", name).stdout
    assert "hunter2" not in seen and "sleep 60" not in seen, "podman inspect tells what the job was given"
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        assert b"hunter2" not in line, line
    bole.stop(job)
    bole.wait_for(job)
    none_left(bole)


def forbidden(bole):
    """A rank tries what it must not be able to do."""
    (bole.directory / "secret").write_text("top secret\n")
    (bole.directory / "secret").chmod(0o600)
    tries = {"a device node": "mknod /tmp/sda b 253 0", "a mount": "mount -t tmpfs x /tmp", "root's file": f"cat {bole.directory}/secret",
             "the server's socket": f"ls {bole.home}/bole.sock", "the ledger": f"ls {bole.home}/ledger.db",
             "another process": "kill -9 1", "the status record": "ls /proc/1/fd/", "a kernel setting": "echo 1 > /proc/sys/vm/swappiness",
             "the memory of init": "dd if=/proc/1/mem of=/dev/null count=1", "a control group": "mkdir /sys/fs/cgroup/memory/x"}
    script = "; ".join(f"{{ {what}; }} >/dev/null 2>&1 && echo 'could reach {name}'" for name, what in tries.items())
    job, _ = run(bole, spec(script.replace("'", '"') + "; echo done"))
    # Signals of its own namespace do not reach its first process: kill says nothing and nothing happens.
    assert [line for line in bole.lines(job) if "another process" not in line] == ["done"], bole.lines(job)
    for mount in (str(bole.home), f"{bole.home}/attempts", "/proc"):
        _, detail = run(bole, spec("ls /data", mounts=[f"{mount}:/data:ro"]), "FAILED")
        assert "not mounted into jobs" in detail["attempts"][0]["note"], detail["attempts"]
    job, _ = run(bole, spec("ls -A /data/home 2>/dev/null; ls /data/home/attempts 2>/dev/null; echo done", mounts=[f"{bole.directory}:/data:ro"]))
    assert bole.lines(job) == ["done"], bole.lines(job)


# ---- ends -----------------------------------------------------------------------------------------------------------

def exits(bole):
    _, detail = run(bole, spec("exit 42"), "FAILED")
    assert exit_of(detail) == {"rank": 0, "known": True, "code": 42, "signal": 0, "text": exit_of(detail)["text"]}, exit_of(detail)
    _, detail = run(bole, spec("exit 137"), "FAILED")
    assert exit_of(detail)["code"] == 137 and exit_of(detail)["signal"] == 0, exit_of(detail)
    _, detail = run(bole, spec("kill -9 $$"), "FAILED")
    assert exit_of(detail)["signal"] == 9, exit_of(detail)
    # One fails, the rest are told to end, and those who will not are killed.
    began = time.monotonic()
    job, detail = run(bole, spec('if [ $RANK = 1 ]; then sleep 0.3; echo "last words"; exit 7; fi; trap "echo told; exit 5" TERM; '
                                 'sleep 60 & wait', replicas=3), "FAILED")
    assert time.monotonic() - began < 20
    assert detail["attempts"][0]["first_failed"] == 1 and detail["exit_code"] == 7, detail
    assert exit_of(detail, 0)["code"] == 5 and bole.lines(job, 0) == ["told"], bole.lines(job)
    none_left(bole)


def limits(bole):
    job, detail = run(bole, spec("x=$(dd if=/dev/zero bs=1M count=200 2>/dev/null | tr '\\0' x); echo survived", memory="64MiB"),
                      "FAILED")
    assert "memory" in detail["attempts"][0]["note"], detail["attempts"]
    assert bole.lines(job) == [], bole.lines(job)
    began = time.monotonic()
    _, detail = run(bole, spec("trap '' TERM; sleep 60 & while :; do wait; done", top="time_limit: 1s\ngrace: 1s"), "FAILED")
    assert time.monotonic() - began < 20 and detail["attempts"][0]["outcome"] == "time-limit", detail["attempts"]
    assert exit_of(detail)["signal"] == 9, exit_of(detail)
    job = running(bole, spec("trap 'echo told; exit 3' TERM; echo up; sleep 60 & wait"))
    bole.stop(job)
    detail = bole.wait_for(job)
    assert detail["summary"]["state"] == "CANCELLED" and exit_of(detail)["code"] == 3, detail
    none_left(bole)


def cpu_limits(bole):
    limits = (0.5, 0.2)
    jobs = [bole.submit(spec(BUSY.replace("SECONDS", "3"), cpus=cpus)) for cpus in limits]
    for job, cpus in zip(jobs, limits):
        check_cpu_limit(bole.wait_for(job), bole.lines(job), cpus)
    none_left(bole)


def refusals(bole):
    _, detail = run(bole, spec("true", image="localhost/never-made:1"), "FAILED")
    note = detail["attempts"][0]["note"]
    assert detail["attempts"][0]["outcome"] == "launch-failed" and detail["exit_code"] == 125, detail
    assert "localhost/never-made:1" in note and "podman pull" in note, note
    _, detail = run(bole, spec("true", image="never-made"), "FAILED")
    assert "name the registry too" in detail["attempts"][0]["note"], detail["attempts"]
    text = spec("x").replace(json.dumps(["/bin/sh", "-c", "x"]), '["no-such-program"]')
    _, detail = run(bole, text, "FAILED")
    assert "no-such-program" in detail["attempts"][0]["note"] and IMAGE in detail["attempts"][0]["note"], detail["attempts"]
    none_left(bole)


# ---- network --------------------------------------------------------------------------------------------------------

def network(bole):
    # Ranks meet at MASTER_ADDR; another gang at the same port is in another world.
    meet = ('if [ $RANK = 0 ]; then echo "from $BOLE_JOB_NAME" | nc -l -p $MASTER_PORT; else '
            'until nc $MASTER_ADDR $MASTER_PORT < /dev/null 2>/dev/null | grep from; do sleep 0.05; done; fi')
    jobs = [bole.submit(spec(meet, name=name, replicas=2)) for name in ("one", "two")]
    for job, name in zip(jobs, ("one", "two")):
        assert bole.wait_for(job)["summary"]["state"] == "SUCCEEDED"
        assert bole.lines(job, 1) == [f"from {name}"], bole.lines(job)
    port = free_port()
    job = running(bole, spec("echo up; while :; do echo hello | nc -l -p 8080; done", ports=[f"{port}:8080"]))
    heard = bole.wait_until(lambda: ask("127.0.0.1", port), "the published port answers", 20)
    assert heard == b"hello\n", heard
    listening = subprocess.check_output(["ss", "-Hltn", f"sport = :{port}"], text=True)
    assert listening.split()[3] == f"127.0.0.1:{port}", listening
    _, detail = run(bole, spec("true", ports=[f"{port}:8080"]), "FAILED")
    assert f"127.0.0.1:{port}" in detail["attempts"][0]["note"], detail["attempts"]
    bole.stop(job)
    bole.wait_for(job)
    assert not ask("127.0.0.1", port), "nobody listens any more"
    # A chosen one is told in the log.
    job = running(bole, spec("echo up; while :; do echo chosen | nc -l -p 8080; done", ports=["8080"]))
    said = re.findall(r"^port 8080 is published at 127\.0\.0\.1:(\d+)$", "\n".join(bole.lines(job)), re.M)
    heard = bole.wait_until(lambda: ask("127.0.0.1", int(said[0])), "the chosen port answers", 20)
    assert heard == b"chosen\n", heard
    bole.stop(job)
    bole.wait_for(job)
    job, _ = run(bole, spec("ls /sys/class/net; cat /etc/hosts", top="network: host"))
    none_left(bole)


def free_port():
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]


def ask(address, port):
    try:
        with socket.create_connection((address, port), timeout=5) as connection:
            return connection.recv(100)
    except OSError:
        return b""


class Registry(http.server.BaseHTTPRequestHandler):
    """As much of a registry as a pull needs, out of an OCI layout on the disk."""
    layout = None
    asked = []

    def do_GET(self):
        Registry.asked.append(self.path)
        parts = self.path.split("/")
        if self.path.rstrip("/") == "/v2":
            return self.answer(b"{}", "application/json")
        blobs = Registry.layout / "blobs" / "sha256"
        name = parts[-1]
        if parts[-2] == "manifests" and not name.startswith("sha256:"):
            if name != "1":
                return self.send_error(404)
            name = json.loads((Registry.layout / "index.json").read_text())["manifests"][0]["digest"]
        path = blobs / name.split(":")[-1]
        if not path.exists():
            return self.send_error(404)
        kind = "application/vnd.oci.image.manifest.v1+json" if parts[-2] == "manifests" else "application/octet-stream"
        return self.answer(path.read_bytes(), kind)

    do_HEAD = do_GET

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def pulls(bole):
    """From a registry of the test's own, in the machine's network though the gang has another; once for all ranks."""
    podman_world.make_image("localhost/to-pull:1", changes=["ENV PULLED=yes"])
    Registry.layout = bole.directory / "layout"
    podman_world.podman("push", "localhost/to-pull:1", f"oci:{Registry.layout}")
    podman_world.podman("rmi", "localhost/to-pull:1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"127.0.0.1:{server.server_port}"
    podman_world.trust(place)
    job, _ = run(bole, spec("echo $PULLED", image=f"{place}/to-pull:1", replicas=3))
    said = [line for line in bole.lines(job) if line == "yes"]
    assert len(said) == 3, bole.lines(job)
    assert len([path for path in Registry.asked if "/blobs/" in path]) == 2, Registry.asked  # the layer, the configuration
    _, detail = run(bole, spec("true", image=f"{place}/to-pull:2"), "FAILED")
    assert f"{place}/to-pull:2" in detail["attempts"][0]["note"], detail["attempts"]
    # A registry that never answers: a stop ends the pull.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        slow = f"127.0.0.1:{deaf.getsockname()[1]}"
        podman_world.trust(slow)
        job = bole.submit(spec("true", image=f"{slow}/x:1"))
        bole.wait_until(lambda: podman_world.processes_called("podman"), "the pull has begun", 20)
        bole.wait_until(lambda: any("pulling" in line for line in bole.lines(job)), "it is said", 20)
        began = time.monotonic()
        bole.stop(job)
        assert bole.wait_for(job)["summary"]["state"] == "CANCELLED"
        assert time.monotonic() - began < 10
    server.shutdown()
    none_left(bole)


# ---- who is killed --------------------------------------------------------------------------------------------------

def the_server_dies(bole):
    job = running(bole, spec("echo up; until [ -e go ]; do sleep 0.05; done; echo on; exit 9", replicas=2), 2)
    before = sorted(podman_world.containers())
    bole.kill()
    bole.up()
    assert sorted(podman_world.containers()) == before, "the containers run on"
    (bole.home / "work" / str(job) / "go").touch()
    detail = bole.wait_for(job)
    assert detail["exit_code"] == 9 and len(detail["attempts"]) == 1, detail
    assert bole.lines(job, 0) == ["up", "on"], bole.lines(job)
    # And one that ends while there is no server.
    job = running(bole, spec("echo up; until [ -e go ]; do sleep 0.05; done; exit 11"))
    bole.kill()
    (bole.home / "work" / str(job) / "go").touch()
    bole.wait_until(lambda: not bole.supervisors(), "the supervisor is done", 20)
    bole.up()
    assert bole.wait_for(job)["exit_code"] == 11
    none_left(bole)


def conmon_dies(bole):
    job = running(bole, spec("trap '' TERM; echo up; until [ -e go ]; do sleep 0.05; done; exit 23", replicas=2), 2)
    for pid in conmons(bole):
        os.kill(pid, signal.SIGKILL)
    (bole.home / "work" / str(job) / "go").touch()
    detail = bole.wait_for(job)
    # The status is init's to write down, and init lives.
    assert [exit_of(detail, rank)["code"] for rank in (0, 1)] == [23, 23], detail["attempts"]
    none_left(bole)


def init_dies(bole):
    job = running(bole, spec("echo up; sleep 60"))
    os.kill(bole.inits()[0], signal.SIGKILL)
    detail = bole.wait_for(job)
    assert not exit_of(detail)["known"] and detail["attempts"][0]["outcome"] == "rank-lost", detail["attempts"]
    none_left(bole)


def the_supervisor_dies(bole):
    with_conmon = (False, True)
    for both in with_conmon:
        job = running(bole, spec("echo up; trap '' TERM; sleep 60", replicas=2, gpus=1), 2)
        victims = bole.supervisors() + (conmons(bole) if both else [])
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        detail = bole.wait_for(job)
        # The end is told when nothing is left, and not before.
        assert podman_world.containers() == [], podman_world.containers()
        assert not bole.inits()
        assert detail["attempts"][0]["outcome"] == "supervisor-lost", detail["attempts"]
        assert not any(exit_of(detail, rank)["known"] for rank in (0, 1)), detail["attempts"]
    none_left(bole)


# ---- the example ----------------------------------------------------------------------------------------------------

def digits(bole):
    program = bole.build / "examples/digits/digits"
    podman_world.make_image("localhost/digits:1", files=podman_world.with_libraries(str(program), "/usr/bin/digits"))
    detail_of = spec("exec digits --epochs 20 --sleep-ms 20", name="digits", image="localhost/digits:1", replicas=4, gpus=1, cpus=0.5,
                     memory="512MiB", top="gang: 4\ncheckpoint: {path: checkpoints, every: 5}")
    job, detail = run(bole, detail_of, seconds=120)
    losses = [float(x) for x in re.findall(r"epoch +\d+/\d+ +loss ([0-9.]+)", "\n".join(bole.lines(job, 0)))]
    assert len(losses) == 20 and losses[-1] < losses[0] / 2, losses
    assert all(bole.lines(job, rank) for rank in range(4)), "every rank is heard"
    gpus = sorted(g for rank in detail["attempts"][0]["ranks"] for g in rank["gpus"])
    assert gpus == [0, 1, 2, 3], gpus
    assert detail["checkpoint"]["epoch"] == 20, detail["checkpoint"]
    made = list((bole.home / "work" / str(job) / "checkpoints").iterdir())
    assert made and all(path.stat().st_uid == 200001 for path in made), made
    print(f"digits in 4 containers: loss {losses[0]} to {losses[-1]}")
    none_left(bole)


PARTS = [what_a_rank_sees, secrets_stay_secret, forbidden, exits, limits, cpu_limits, refusals, network, pulls, the_server_dies,
         conmon_dies, init_dies, the_supervisor_dies, digits]


def main():
    podman_world.enter()
    wanted = sys.argv[2:] or [part.__name__ for part in PARTS]
    podman_world.make_image(changes=["ENV FROM_IMAGE=yes", "ENV OVER=image", "ENV PATH=/opt/x:/bin", "ENV HOME=/root", "USER 0"])
    with Bole(sys.argv[1]) as bole:
        bole.up()
        for part in PARTS:
            if part.__name__ not in wanted:
                continue
            began = time.monotonic()
            part(bole)
            print(f"{part.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        assert bole.run("fsck", "--full", check=0).stdout.startswith("clean")
    return 0


if __name__ == "__main__":
    sys.exit(main())
