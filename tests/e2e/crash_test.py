#!/usr/bin/env python3
"""The crash test: a real server and real rank processes, killed with SIGKILL at random instants.

    crash_test.py BUILD [--kills N] [--victims server|conmon|all] [--image] [--seed S]

With --image every rank is a Podman container, and conmons are among the victims.

Promised, and looked at: no job whose submission was acknowledged is lost or doubled; no rank starts twice in one attempt;
no GPU is given to two ranks at once (each rank holds a lock of its GPU for as long as any process of it lives); every exit
code is kept when only servers die, and never invented otherwise; `bole fsck --full` finds nothing, each time.
"""
import argparse
import http.client
import os
import random
import signal
import sys
import threading
import time

import podman_world
from bole import ApiError, Bole

RANK = r"""
exec 9>/locks/$CUDA_VISIBLE_DEVICES
flock -n 9 || echo "attempt $BOLE_ATTEMPT_ID rank $RANK finds $CUDA_VISIBLE_DEVICES held" >> /locks/conflicts
echo "$BOLE_ATTEMPT_ID $RANK" >> /locks/starts
sleep SECONDS
exit CODE
"""


def spec(name, ranks, seconds, code, locks, image):
    script = RANK.replace("SECONDS", f"{seconds:.3f}").replace("CODE", str(code))
    indented = "".join(f"        {line}\n" for line in script.strip().split("\n"))
    return (f"name: {name}\ntasks:\n  - name: worker\n    replicas: {ranks}\n    gpus: 1\n    cpus: 0.1\n{image}"
            f"    mounts: ['{locks}:/locks']\n    command:\n      - /bin/sh\n      - -c\n      - |\n{indented}")


class Client(threading.Thread):
    """Submits small gangs without pause, some of which are stopped again; insists until it has an answer."""

    def __init__(self, bole, locks, rng, image):
        super().__init__(daemon=True)
        self.bole, self.locks, self.rng, self.image = bole, locks, rng, image
        self.jobs = {}  # id: (name, code)
        self.stopped = set()
        self.done = False
        self.error = None

    def run(self):
        try:
            number = 0
            while not self.done:
                number += 1
                name = f"job-{number}"
                code = self.rng.choice([0, 0, 0, 1, 3, 42, 137, 255])
                text = spec(name, self.rng.randint(1, 3), self.rng.uniform(0.02, 0.7), code, self.locks,
                            self.image)
                job = self.insist(lambda: self.bole.submit(text, request_id=name))
                if job in self.jobs:
                    raise AssertionError(f"job {job} was given to {name} and to {self.jobs[job][0]}")
                self.jobs[job] = (name, code)
                if self.rng.random() < 0.15:
                    self.stopped.add(job)
                    self.insist(lambda: self.stop(job))
                while not self.done and self.waiting() > 6:
                    time.sleep(0.02)
        except Exception as error:
            self.error = error

    def stop(self, job):
        try:
            self.bole.stop(job)
        except ApiError as error:
            if error.status != 409:  # it has ended already
                raise

    def waiting(self):
        return len(self.insist(lambda: self.bole.get("/v1/jobs"))["jobs"])

    def insist(self, act):
        deadline = time.monotonic() + 60
        while True:
            try:
                return act()
            except (OSError, http.client.HTTPException):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


def victims_of(bole, kind, rng):
    if kind == "server":
        return None
    pids = {"supervisor": bole.supervisors, "init": bole.inits, "conmon": lambda: podman_world.conmons(bole.home)}[kind]()
    return rng.choice(pids) if pids else None


def fsck(bole):
    bole.run("fsck", "--full", check=0)


def attack(bole, client, arguments, rng):
    kinds = {"server": ["server"], "conmon": ["conmon", "conmon", "server"],
             "all": ["server", "supervisor", "conmon", "init"] if arguments.image else ["server", "server", "supervisor", "init"]
             }[arguments.victims]
    counts = {}
    for number in range(arguments.kills):
        time.sleep(rng.uniform(0, 0.5))
        if client.error:
            raise client.error
        kind = kinds[number % len(kinds)]
        counts[kind] = counts.get(kind, 0) + 1
        if kind == "server":
            bole.kill()
            fsck(bole)
            bole.up()
        else:
            pid = victims_of(bole, kind, rng)
            if pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
    return counts


def judge(bole, client, arguments):
    problems = []
    listed = {job["id"]: job for job in bole.get("/v1/jobs?all=1&limit=100000")["jobs"]}
    names = [job["name"] for job in listed.values()]
    problems += [f"{name} was submitted twice" for name in {n for n in names if names.count(n) > 1}]
    tally = {}
    for job, (name, code) in client.jobs.items():
        if job not in listed:
            problems.append(f"{name} (job {job}) was acknowledged and is lost")
            continue
        detail = bole.job(job)
        state = detail["summary"]["state"]
        tally[state] = tally.get(state, 0) + 1
        for attempt in detail["attempts"]:
            for rank in attempt["ranks"]:
                judge_exit(problems, arguments, name, code, job in client.stopped, rank.get("exit"))
        if job not in client.stopped and arguments.victims == "server":
            expected = "SUCCEEDED" if code == 0 else "FAILED"
            if state != expected or (code and detail["exit_code"] != code):
                problems.append(f"{name}: {state} with {detail['exit_code']}, expected {expected} with {code}: "
                                f"{detail['attempts']}")
    locks = client.locks
    starts = (locks / "starts").read_text().split("\n")[:-1]
    problems += [f"attempt and rank {line} started twice" for line in {s for s in starts if starts.count(s) > 1}]
    if (locks / "conflicts").exists():
        problems += (locks / "conflicts").read_text().split("\n")[:-1]
    return problems, tally, len(starts)


def judge_exit(problems, arguments, name, code, stopped, found):
    if not found or not found["known"]:
        if arguments.victims == "server" and not stopped:
            problems.append(f"{name}: an exit status is unknown though only servers were killed")
        return
    if found["signal"] == 0 and found["code"] != code and not (stopped and found["code"] == 143):
        problems.append(f"{name}: exit {found['code']} recorded, {code} is what it exits with")
    if found["signal"] and arguments.victims == "server" and not stopped:
        # A rank whose gang failed is ended by a signal; that is only right where one of them fails.
        if code == 0:
            problems.append(f"{name}: ended by signal {found['signal']} for no reason")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--kills", type=int, default=int(os.environ.get("BOLE_CRASH_KILLS", "20")))
    parser.add_argument("--victims", choices=["server", "conmon", "all"], default="server")
    parser.add_argument("--image", action="store_true")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    arguments = parser.parse_args()
    image = ""
    if arguments.image:
        podman_world.enter()
        podman_world.make_image(files=podman_world.with_libraries("/usr/bin/flock", "/usr/bin/flock"))
        image = f"    image: {podman_world.IMAGE}\n"
    print(f"seed {arguments.seed}")
    rng = random.Random(arguments.seed)
    began = time.monotonic()
    with Bole(arguments.build) as bole:
        locks = bole.directory / "locks"
        locks.mkdir()
        locks.chmod(0o777)
        bole.up()
        client = Client(bole, locks, random.Random(arguments.seed + 1), image)
        client.start()
        counts = attack(bole, client, arguments, rng)
        client.done = True
        client.join(60)
        if client.error:
            raise client.error
        bole.wait_until(lambda: not bole.get("/v1/jobs")["jobs"], "every job ends", 120)
        problems, tally, starts = judge(bole, client, arguments)
        fsck(bole)
        bole.wait_until(lambda: not bole.supervisors() and not bole.inits(), "no process is left", 20)
        if arguments.image:
            problems += [f"the container {name} is left" for name in podman_world.containers()]
            problems += [f"the conmon {pid} is left" for pid in podman_world.conmons(bole.home)]
            problems += [f"the group {path} is left" for path in podman_world.groups_of(bole.home)]
    for problem in problems:
        print("PROBLEM", problem)
    print(f"{counts} killed in {time.monotonic() - began:.0f} s; {len(client.jobs)} jobs acknowledged: {tally}; "
          f"{starts} ranks started, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
