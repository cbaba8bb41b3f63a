#!/usr/bin/env python3
"""Power loss: the real server in a VM that is killed hard while clients submit, and a disk that loses its cache.

Outside the VM, and so not lost with it, are kept: each acknowledged submission, each event and each end of a job that
anyone was told, and each start and end that a rank told of itself over a serial line. After each loss they must all
stand in the ledger of the new boot; no rank may have started twice; no exit code may be there that no rank had.
    power_loss_test.py BUILD [--losses 20] [--xfs 6] [--seed N]
Needs qemu-system-x86 and, the first time, a Debian mirror (tests/vm/vm.sh deps, build). About a minute a loss.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
sys.path.insert(0, str(HERE.parent / "vm"))
sys.path.insert(0, str(HERE))

from bole import ApiError, UnixConnection  # noqa: E402
from vm import SCRIPT, Vm  # noqa: E402
import write_log  # noqa: E402

DISK = "/dev/disk/by-id/virtio-data1"
HOME = "/data/bole"
UP = f"cd / && bole up --home {HOME} --emulate 4xA100-PCIE-40GB --port 0"
FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
CLIENTS = 3
MOST_WAITING = 4  # jobs a client

# What a rank does: it holds its GPU, tells of its start and its end, and ends with its code.
RANK = """exec 9>/said/$CUDA_VISIBLE_DEVICES
flock -n 9 || echo "held $BOLE_ATTEMPT_ID $RANK" >/said/line
echo "start $BOLE_ATTEMPT_ID $RANK" >/said/line
sleep SECONDS
echo "end $BOLE_ATTEMPT_ID $RANK CODE" >/said/line
exit CODE"""

FORMAT = {"ext4": "mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0",
          "xfs": "mkfs.xfs -q -f -K"}


class PowerVm(Vm):
    """A VM whose first data disk has a write cache that a power loss takes away."""

    def __init__(self, directory):
        super().__init__(directory, VM_WRITE_LOG="1", VM_DATA_MB="1024", VM_FREEZE_ROOT="1")
        self.said_before = 0

    def provision(self, build):
        """A root disk with the programs, which every later boot finds as it is now."""
        self.call("build")
        self.call("start", VM_FREEZE_ROOT="")
        self.install(build)
        self.shell("mkdir -p /data && sync")
        self.call("reboot")

    def format(self, filesystem):
        self.shell(f"umount /data 2>/dev/null; {FORMAT[filesystem]} {DISK} && sync")
        self.call("cut")
        self.said_before = len(self.all_said())  # attempts are numbered from 1 again
        self.boot()  # so that the write log begins with a sound file system

    def remember_disk(self):
        """Before a boot: what the disk holds now."""
        subprocess.run(["cp", "--sparse=always", "--reflink=auto", str(self.run_directory / "data1.img"),
                        str(self.run_directory / "data1.before")], check=True)

    def boot(self):
        self.remember_disk()
        self.call("boot")

    def lose_power(self, rng):
        self.call("cut")
        chance = rng.choice([0, 0, 0.5, 0.9])
        return write_log.lose_power(self.run_directory / "data1.before", self.run_directory / "data1.log",
                                    self.run_directory / "data1.img", chance, rng)

    def all_said(self):
        try:
            text = (self.run_directory / "said.log").read_text(errors="replace")
        except FileNotFoundError:
            return []
        return [line.strip() for line in text.split("\n")]

    def said(self):
        return self.all_said()[self.said_before:]


class Server:
    """The server in the VM, as its clients outside see it."""

    def __init__(self, vm):
        self.vm = vm
        self.starts = 0
        self.socket = None

    def prepare(self):
        """What a boot needs before the server: the disk, and a line on which ranks can tell of themselves."""
        self.vm.shell(f"mount {DISK} /data && mkdir -m 777 /run/said && mkfifo -m 666 /run/said/line && "
                      "chmod 777 /run/said && stty -F /dev/ttyS1 raw -echo && "
                      "{ setsid sh -c 'exec cat <>/run/said/line >/dev/ttyS1' >/dev/null 2>&1 </dev/null & }")

    def up(self):
        self.vm.shell(UP)
        self.starts += 1  # ssh keeps a forwarded name for the life of its connection
        self.socket = self.vm.directory / f"bole-{self.starts}.sock"
        self.vm.call("forward", str(self.socket), f"{HOME}/bole.sock")

    def fsck(self):
        return self.vm.shell(f"bole fsck --full --home {HOME}", check=False)

    def request(self, method, path, body=None, timeout=60):
        connection = UnixConnection(str(self.socket), timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json"} if body is not None else {})
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise ApiError(response.status, data)
        return json.loads(data)

    def get(self, path):
        return self.request("GET", path)

    def submit(self, name, text):
        return self.request("POST", "/v1/jobs", {"spec": text, "file_name": "power.yaml", "directory": "/",
                                                 "request_id": name})["jobs"][0]


class Job:
    def __init__(self, name, rng):
        self.name = name
        self.code = rng.choice([0, 0, 0, 0, 3, 42, 137])
        self.ranks = rng.randint(1, 3)
        self.restarts = rng.random() < 0.4
        self.seconds = rng.choice([0.05, 0.3, 1.5, 4])
        self.id = None       # once acknowledged
        self.ended = None    # (state, exit code), once anyone was told

    def text(self):
        script = RANK.replace("SECONDS", str(self.seconds)).replace("CODE", str(self.code))
        restart = "restart: {policy: on-failure, max_retries: 2, backoff: 100ms}\n" if self.restarts else ""
        indented = "".join(f"        {line}\n" for line in script.split("\n"))
        return (f"name: {self.name}\n{restart}tasks:\n  - name: worker\n    replicas: {self.ranks}\n    gpus: 1\n"
                f"    cpus: 0.1\n    mounts: ['/run/said:/said']\n    command:\n      - /bin/sh\n      - -c\n"
                f"      - |\n{indented}")


class Records:
    """What was told to anyone outside."""

    def __init__(self):
        self.lock = threading.Lock()
        self.jobs = {}    # name: Job
        self.events = {}  # sequence: (kind, time, body)
        self.problems = []

    def problem(self, text):
        with self.lock:
            self.problems.append(text)
        print("PROBLEM", text, flush=True)

    def acknowledged(self):
        return [job for job in self.jobs.values() if job.id is not None]

    def acknowledge(self, job, answer):
        with self.lock:
            if job.id is not None and job.id != answer["id"]:
                self.problems.append(f"{job.name} was acknowledged as {job.id} and then as {answer['id']}")
            others = [other.name for other in self.jobs.values() if other.id == answer["id"] and other is not job]
            if others:
                self.problems.append(f"job {answer['id']} was given to {others[0]} and to {job.name}")
            job.id = answer["id"]

    def see_events(self, events):
        for event in events:
            seen = (event["kind"], event["time"], event["body"])
            known = self.events.setdefault(event["sequence"], seen)
            if known != seen:
                self.problem(f"event {event['sequence']} was told as {known} and is now {seen}")

    def see_ends(self, listed):
        by_id = {job.id: job for job in self.acknowledged()}
        for view in listed:
            job = by_id.get(view["id"])
            if job is None or view["state"] not in FINAL:
                continue
            seen = (view["state"], view["attempts"], view["ended_at"])
            if job.ended is None:
                job.ended = seen
            elif job.ended != seen:
                self.problem(f"{job.name} was told to have ended as {job.ended} and is now {seen}")


class Load:
    """Clients that submit and a watcher that listens, until the power goes."""

    def __init__(self, server, records, rng, round_name):
        self.server, self.records, self.round = server, records, round_name
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.client, args=(number, random.Random(rng.random())), daemon=True)
                        for number in range(CLIENTS)]
        self.threads.append(threading.Thread(target=self.watcher, daemon=True))
        self.failure = None
        self.first = threading.Event()  # something was acknowledged
        self.cut = False
        for thread in self.threads:
            thread.start()

    def client(self, number, rng):
        count = 0
        mine = []
        while not self.over.is_set():
            mine = [job for job in mine if job.ended is None]
            if len(mine) >= MOST_WAITING:
                self.over.wait(0.05)
                continue
            count += 1
            job = Job(f"{self.round}-{number}-{count}", rng)
            with self.records.lock:
                self.records.jobs[job.name] = job
            if not self.attempt(lambda: self.records.acknowledge(job, self.server.submit(job.name, job.text()))):
                return
            mine.append(job)
            self.first.set()

    def watcher(self):
        def look():
            self.records.see_ends(self.server.get("/v1/jobs?all=1&limit=60")["jobs"])
            newest = max(self.records.events, default=0)
            self.records.see_events(self.server.get(f"/v1/events?from={newest + 1}&limit=1000")["events"])
        while not self.over.is_set() and self.attempt(look):
            self.over.wait(0.1)

    def attempt(self, act):
        try:
            act()
            return True
        except (OSError, http.client.HTTPException) as error:
            if not self.cut and not self.over.is_set():
                self.failure = f"the server did not answer while the power was on: {error!r}"
            return False
        except ApiError as error:
            self.failure = f"refused: {error}"
            return False

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(120)


def judge_attempt(records, said, job, attempt, invented):
    lost = attempt["outcome"] in ("supervisor lost", "supervisor-lost", "lost its supervisor")
    for rank in attempt["ranks"]:
        found = rank["exit"]
        where = f"{job.name}, attempt {attempt['id']}, rank {rank['rank']}"
        if not found or not found["known"]:
            if not lost and attempt["outcome"] != "launch-failed":
                records.problem(f"{where}: the exit is unknown though it ended as '{attempt['outcome']}'")
            continue
        if found["signal"]:
            if job.code == 0:
                records.problem(f"{where}: ended by signal {found['signal']}, which nobody sent")
        elif found["code"] != job.code:
            records.problem(f"{where}: exit {found['code']}, but it ends with {job.code}")
        elif f"end {attempt['id']} {rank['rank']} {job.code}" not in said:
            invented.append(where)
    return lost


def judge(server, records, judged):
    """After everything has ended: all that was acknowledged is there, and ended as it may. Returns counts."""
    said = set(server.vm.said())
    listed = {view["id"]: view for view in server.get("/v1/jobs?all=1&limit=100000")["jobs"]}
    names = [view["name"] for view in listed.values()]
    for name in {n for n in names if names.count(n) > 1}:
        records.problem(f"{name} was submitted twice")
    records.see_ends(listed.values())
    lost = 0
    unheard = []
    for job in records.acknowledged():
        view = listed.get(job.id)
        if view is None or view["name"] != job.name:
            records.problem(f"{job.name} was acknowledged as job {job.id} and is lost")
            continue
        if job.id in judged:
            continue
        judged.add(job.id)
        detail = server.get(f"/v1/jobs/{job.id}")
        losses = [judge_attempt(records, said, job, attempt, unheard) for attempt in detail["attempts"]]
        lost += sum(losses)
        expected = "SUCCEEDED" if job.code == 0 and not losses[-1] else "FAILED"
        if view["state"] != expected or (losses[-1] and job.restarts):
            records.problem(f"{job.name} is {view['state']}, expected {expected}: {detail['attempts']}")
        if expected == "FAILED" and not losses[-1] and detail["exit_code"] != job.code:
            records.problem(f"{job.name}: exit code {detail['exit_code']}, expected {job.code}")
    for where in unheard:
        records.problem(f"{where}: an exit is recorded that the rank did not tell of")
    return lost


def judge_starts(server, records):
    starts = [line for line in server.vm.said() if line.startswith("start ")]
    for line in {s for s in starts if starts.count(s) > 1}:
        records.problem(f"attempt and rank '{line}' began twice")
    for line in server.vm.said():
        if line.startswith("held "):
            records.problem(f"attempt and rank '{line}' found its GPU held by another")
    return len(starts)


def wait_until(condition, what, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.2)


def settle(server, records, judged):
    """The server of a new boot: everything told before must stand, everything must end, and all GPUs come back."""
    records_before = dict(records.events)
    for first in range(1, max(records_before, default=0) + 1, 5000):
        records.see_events(server.get(f"/v1/events?from={first}&limit=5000")["events"])
    status = server.get("/v1/status")
    if records_before and status["events"] < max(records_before):
        records.problem(f"event {max(records_before)} was told and the ledger ends at {status['events']}")
    unanswered = [job for job in records.jobs.values() if job.id is None]
    for job in unanswered:  # whether they were taken or not: now they are, once
        records.acknowledge(job, server.submit(job.name, job.text()))
    wait_until(lambda: not server.get("/v1/jobs")["jobs"], "every job ends", 300)
    if server.get("/v1/status")["gpus_used"] != 0:
        records.problem(f"GPUs are held by nobody's job: {server.get('/v1/gpus')}")
    return judge(server, records, judged)


def lose_in_start(server, rng):
    """In the middle of a start, which after a loss is itself a recovery."""
    starting = subprocess.Popen([str(SCRIPT), "run", "sh", "-c", UP], env=server.vm.environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(rng.uniform(0.1, 3))
    blocks = server.vm.lose_power(rng)
    starting.wait()
    return blocks


def lose_in_load(server, records, rng, number):
    server.up()
    load = Load(server, records, rng, f"loss-{number}")
    load.first.wait(120)
    time.sleep(rng.uniform(0.5, 12))
    load.cut = True
    blocks = server.vm.lose_power(rng)
    load.end()
    if load.failure:
        records.problem(load.failure)
    return blocks


def check_after(server, records, judged):
    """fsck before the server opens the ledger, then the server, then fsck again; left as it was found: all down."""
    before = server.fsck()
    if before.returncode and records.events:
        records.problem(f"fsck after the loss: {before.stdout}{before.stderr}")
    server.up()
    lost = settle(server, records, judged)
    after = server.fsck()
    if after.returncode:
        records.problem(f"fsck beside the server: {after.stdout}{after.stderr}")
    server.vm.shell(f"bole down --home {HOME}")
    return lost, (before.stdout or before.stderr).strip().split(";")[0]


def losses_on(server, filesystem, numbers, rng):
    """A fresh file system, and losses on it one after the other. Returns counts and problems."""
    records, judged = Records(), set()
    server.vm.format(filesystem)
    totals = {"losses": 0, "attempts cut off": 0}
    server.prepare()
    for number in numbers:
        began = time.monotonic()
        known = len(records.acknowledged())
        in_start = number % 5 == 4
        blocks = lose_in_start(server, rng) if in_start else lose_in_load(server, records, rng, number)
        new = len(records.acknowledged()) - known
        server.vm.boot()
        server.prepare()
        lost, words = check_after(server, records, judged)
        totals["losses"] += 1
        totals["attempts cut off"] += lost
        print(f"loss {number} ({filesystem}, in {'a start' if in_start else 'load'}): {new} acknowledged before it, "
              f"{lost} attempts cut off; blocks durable {blocks[0]}, kept {blocks[1]}, lost {blocks[2]}; "
              f"fsck {words}; problems {len(records.problems)}; {time.monotonic() - began:.0f} s", flush=True)
    totals["acknowledged"] = len(records.acknowledged())
    totals["events told"] = len(records.events)
    totals["problems"] = len(records.problems)
    totals["ranks started"] = judge_starts(server, records)
    return totals


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--losses", type=int, default=20)
    parser.add_argument("--xfs", type=int, default=None, help="how many of them on XFS; otherwise a quarter")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    rng = random.Random(arguments.seed)
    xfs = arguments.losses // 4 if arguments.xfs is None else arguments.xfs
    directory = pathlib.Path(tempfile.mkdtemp(prefix="bole-power-"))
    server = Server(PowerVm(directory))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the VM goes too
    sums = {}
    try:
        server.vm.provision(arguments.build)
        first = arguments.losses - xfs
        for filesystem, numbers in (("ext4", range(first)), ("xfs", range(first, arguments.losses))):
            if not numbers:
                continue
            for name, count in losses_on(server, filesystem, numbers, rng).items():
                sums[name] = sums.get(name, 0) + count
    finally:
        if os.environ.get("BOLE_KEEP"):
            print("kept:", directory)
        else:
            server.vm.stop()
            shutil.rmtree(directory, ignore_errors=True)
    print("; ".join(f"{name} {count}" for name, count in sums.items()), flush=True)
    return 1 if sums["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
