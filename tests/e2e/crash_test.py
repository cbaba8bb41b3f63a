#!/usr/bin/env python3
"""The crash test: a real server and real rank processes, killed with SIGKILL at random instants.

    crash_test.py BUILD [--kills N] [--victims server|conmon|all] [--image] [--seed S]

With --image every rank is a Podman container, and conmons are among the victims. The server is killed while it serves, while
it starts and adopts what runs (before it has said that it is up), and while `bole down` ends it. A kill counts only where the
victim was alive when it came.

Promised, and looked at: no job whose submission was acknowledged is lost or doubled; no rank starts twice in one attempt;
no GPU is given to two ranks at once (each rank holds a lock of its GPU for as long as any process of it lives); every exit
code is kept when only servers die, those of stopped jobs too, and never invented otherwise; a restart policy gives as many
attempts as it allows and no more, none after a stop, and the job ends as the last one did; `bole fsck --full` finds nothing
after every kill.
"""
import argparse
import dataclasses
import http.client
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import podman_world
from bole import ApiError, Bole

RANK = r"""
exec 9>/locks/$CUDA_VISIBLE_DEVICES
flock -n 9
[ $? != 1 ] || echo "attempt $BOLE_ATTEMPT_ID rank $RANK finds $CUDA_VISIBLE_DEVICES held" >> /locks/conflicts
echo "$BOLE_ATTEMPT_ID $RANK" >> /locks/starts
sleep SECONDS
[ $BOLE_ATTEMPT -gt FAILS ] || exit CODE
"""
ALWAYS = 1000000


@dataclasses.dataclass
class Job:
    name: str
    ranks: int
    seconds: float
    code: int  # of every rank in the first `fails` attempts; afterwards 0
    fails: int = ALWAYS
    retries: int = 0  # what the restart policy allows
    stopped_at: int = 0  # when the stop was acknowledged, as the server counts time; 0: never asked for

    def expected_code(self, attempt):
        return self.code if attempt <= self.fails else 0

    def expected_attempts(self):
        return 1 + (min(self.fails, self.retries) if self.code else 0)

    def spec(self, locks, image):
        script = (RANK.replace("SECONDS", f"{self.seconds:.3f}").replace("CODE", str(self.code))
                  .replace("FAILS", str(self.fails)))
        indented = "".join(f"        {line}\n" for line in script.strip().split("\n"))
        restart = f"restart: {{policy: on-failure, max_retries: {self.retries}, backoff: 50ms, max_backoff: 200ms}}\n"
        return (f"name: {self.name}\n{restart if self.retries else ''}tasks:\n  - name: worker\n    replicas: {self.ranks}\n"
                f"    gpus: 1\n    cpus: 0.1\n{image}    mounts: ['{locks}:/locks']\n"
                f"    command:\n      - /bin/sh\n      - -c\n      - |\n{indented}")


def random_job(number, rng):
    job = Job(f"job-{number}", rng.randint(1, 3), rng.uniform(0.02, 0.7), rng.choice([0, 0, 0, 1, 3, 42, 137, 255]))
    if rng.random() < 0.3:
        job.code = rng.choice([1, 3, 42, 137, 255])
        job.retries, job.fails = rng.randint(1, 3), rng.choice([1, 2, ALWAYS])
        job.seconds /= 3
    return job


class Client(threading.Thread):
    """Submits small gangs without pause, some of which are stopped again; insists until it has an answer."""

    def __init__(self, bole, locks, rng, image):
        super().__init__(daemon=True)
        self.bole, self.locks, self.rng, self.image = bole, locks, rng, image
        self.jobs = {}  # id: Job
        self.done = False
        self.error = None

    def run(self):
        try:
            number = 0
            while not self.done:
                number += 1
                job = random_job(number, self.rng)
                text = job.spec(self.locks, self.image)
                answer = self.insist(lambda: self.bole.submit(text, request_id=job.name))
                if answer in self.jobs:
                    raise AssertionError(f"job {answer} was given to {job.name} and to {self.jobs[answer].name}")
                self.jobs[answer] = job
                if self.rng.random() < 0.2:
                    time.sleep(self.rng.choice([0, self.rng.uniform(0, 0.6)]))  # before it runs, or while
                    self.insist(lambda: self.stop(answer))
                    job.stopped_at = time.time_ns() // 1000
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


class Attacker:
    """Kills, and counts only what was alive."""

    def __init__(self, bole, rng):
        self.bole, self.rng = bole, rng
        self.counts = {}
        # Within so many seconds of its beginning a start or a shutdown is hit: longer after a hit, shorter after a miss, so
        # that the kills come to lie all over it, however fast the machine is.
        self.window = {"start": 0.05, "down": 0.03}

    def total(self):
        return sum(self.counts.values())

    def attack(self, kind):
        """True where a victim of that kind was killed."""
        if kind in ("server", "start", "down"):
            hit = getattr(self, kind)()
            self.bole.up()
            return hit
        pids = {"supervisor": self.bole.supervisors, "init": self.bole.inits,
                "conmon": lambda: podman_world.conmons(self.bole.home)}[kind]
        found = pids()
        return bool(found) and self.process(kind, self.rng.choice(found), pids)

    def counted(self, kind):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.bole.run("fsck", "--full", check=0)
        return True

    def server(self):
        code = self.bole.kill()
        assert code == -signal.SIGKILL, f"the server had ended by itself, with {code}"
        return self.counted("server")

    def start(self):
        self.server()
        log = self.bole.directory / "server.log"
        before = log.stat().st_size
        self.bole.start()
        time.sleep(self.rng.uniform(0, self.window["start"]))
        code = self.bole.kill()
        assert code == -signal.SIGKILL, f"the server did not start, but ended with {code}"
        said = log.read_bytes()[before:]
        return self.aimed("start", b"is up:" not in said) or (self.counted("server") and False)

    def down(self):
        with subprocess.Popen([str(self.bole.program), "down"], env={**os.environ, "BOLE_HOME": str(self.bole.home)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as command:
            time.sleep(self.rng.uniform(0, self.window["down"]))
            code = self.bole.kill()
            said = command.communicate(timeout=60)[0]
        if code == 0:
            assert command.returncode == 0, f"the server went down as it should, and `bole down` ends with {command.returncode}: {said}"
        else:
            assert code == -signal.SIGKILL, f"the server went down with {code}: {said}"
        return self.aimed("down", code != 0)

    def aimed(self, kind, hit):
        self.window[kind] = min(5, self.window[kind] * (1.3 if hit else 0.6))
        return hit and self.counted(kind)

    def process(self, kind, pid, pids):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            # What is stopped has not ended: killed from there, it was killed.
            return pid in pids() and stopped(pid, handle) and self.killed(kind, handle)
        finally:
            os.close(handle)

    def killed(self, kind, handle):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return self.counted(kind)


def stopped(pid, handle):
    """Whether that process, which may be about to end, is stopped and so still alive."""
    try:
        signal.pidfd_send_signal(handle, signal.SIGSTOP)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state in "TZX":
                return state == "T"
            time.sleep(0.001)
    except (ProcessLookupError, FileNotFoundError):
        return False
    signal.pidfd_send_signal(handle, signal.SIGCONT)
    raise AssertionError(f"process {pid} cannot be stopped, it is in state {state}")


def kinds_of(arguments):
    """In turn. A kill at a start costs one of a serving server before it."""
    if arguments.victims == "server":
        return ["start", "down", "server"]
    if arguments.victims == "conmon":
        return ["conmon", "conmon", "server"]
    return ["start", "supervisor", "conmon", "init", "down"] if arguments.image else ["start", "supervisor", "init", "down", "supervisor"]


def attack(bole, client, arguments, rng):
    attacker = Attacker(bole, rng)
    kinds = kinds_of(arguments)
    number, misses = 0, 0
    while attacker.total() < arguments.kills:
        time.sleep(rng.uniform(0, 0.5))
        if client.error:
            raise client.error
        kind = kinds[number % len(kinds)]
        if attacker.attack(kind):
            number, misses = number + 1, 0
        else:
            misses += 1
            assert misses < 50, f"no {kind} could be killed: {attacker.counts}"
    return attacker.counts


def judge(bole, client, arguments):
    listed = {job["id"]: job for job in bole.get("/v1/jobs?all=1&limit=100000")["jobs"]}
    names = [job["name"] for job in listed.values()]
    problems = [f"{name} was submitted twice" for name in {n for n in names if names.count(n) > 1}]
    starts = (client.locks / "starts").read_text().split("\n")[:-1]
    problems += [f"attempt and rank {line} started twice" for line in {s for s in starts if starts.count(s) > 1}]
    if (client.locks / "conflicts").exists():
        problems += (client.locks / "conflicts").read_text().split("\n")[:-1]
    tally = {"stopped": 0, "retried": 0}
    for number, job in client.jobs.items():
        if number not in listed:
            problems.append(f"{job.name} (job {number}) was acknowledged and is lost")
            continue
        detail = bole.job(number)
        tally[detail["summary"]["state"]] = tally.get(detail["summary"]["state"], 0) + 1
        tally["stopped"] += bool(job.stopped_at)
        tally["retried"] += len(detail["attempts"]) > 1
        found = judge_job(job, detail, set(starts), arguments.victims == "server")
        problems += [f"{job}: {what}: {detail['summary']['state']} with {detail['exit_code']}, {detail['attempts']}" for what in found]
    return problems, tally, len(starts)


def judge_job(job, detail, starts, only_servers):
    """What is wrong with it."""
    attempts, state = detail["attempts"], detail["summary"]["state"]
    cancelled = state == "CANCELLED"
    if cancelled and not job.stopped_at:
        yield "nobody stopped it"
    if [attempt["number"] for attempt in attempts] != list(range(1, len(attempts) + 1)):
        yield "its attempts are not numbered 1, 2, ..."
    if len(attempts) > job.retries + 1:
        yield f"{len(attempts)} attempts, its policy allows {job.retries + 1}"
    if job.stopped_at and any(attempt["planned_at"] > job.stopped_at for attempt in attempts):
        yield "it was tried again after it was stopped"
    for attempt in attempts:
        told_to_end = cancelled and attempt is attempts[-1]
        if len(attempt["ranks"]) != job.ranks:
            yield f"its gang is not whole in attempt {attempt['number']}"
        for rank in attempt["ranks"]:
            yield from judge_exit(job, attempt, rank, told_to_end, starts, only_servers)
    last = [rank["exit"] for rank in attempts[-1]["ranks"]] if attempts else []
    if state == "SUCCEEDED" and not (last and all(known(end) and end["code"] == 0 for end in last)):
        yield "not every rank ended well"
    if state == "FAILED" and len(attempts) != job.retries + 1:
        yield f"it was tried {len(attempts)} times, its policy allows {job.retries + 1}"
    if only_servers and not cancelled:
        code = job.expected_code(job.expected_attempts())
        if len(attempts) != job.expected_attempts():
            yield f"{job.expected_attempts()} attempts were expected"
        if (state, detail["exit_code"]) != ("FAILED" if code else "SUCCEEDED", code):
            yield f"the exit code {code} was expected"


def known(end):
    return bool(end) and end["known"]


def judge_exit(job, attempt, rank, told_to_end, starts, only_servers):
    end = rank.get("exit")
    place = f"rank {rank['rank']} of attempt {attempt['number']}"
    expected = job.expected_code(attempt["number"])
    if not known(end):
        # A stop may come before the gang has begun: then there is no exit to know.
        never_ran = told_to_end and not attempt["started_at"] and f"{attempt['id']} {rank['rank']}" not in starts
        if only_servers and not never_ran:
            yield f"{place}: the exit status is unknown though only servers were killed"
    elif end["signal"]:
        # A rank whose gang failed is ended by a signal too, and the one that failed first is not.
        gang_failed = expected != 0 and rank["rank"] != attempt["first_failed"]
        if only_servers and not (end["signal"] in (signal.SIGTERM, signal.SIGKILL) and (told_to_end or gang_failed)):
            yield f"{place}: ended by signal {end['signal']} for no reason"
    elif end["code"] != expected:
        yield f"{place}: exit {end['code']} recorded, {expected} is what it exits with"


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
        bole.run("fsck", "--full", check=0)
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
