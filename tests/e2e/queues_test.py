#!/usr/bin/env python3
"""Queues on a real server: a policy from a file, jobs that borrow, and what is stopped for whom."""
import sys
import time

from bole import Bole

POLICY = """queues:
  default: {}
  lab:
    guaranteed: {gpus: 2}
    per_user: {running: 2}
  night:
    limit: {gpus: 3}
patience: 1m
"""


class Queues:
    def __init__(self, bole):
        self.bole = bole

    def submit(self, *arguments, name):
        self.bole.run("run", "-d", "--no-upload", "--name", name, "-c", "0.1", *arguments, "--", "sleep", "600", check=0)

    def wait(self, state, *names):
        for name in names:
            self.bole.wait_until(lambda name=name: self.bole.job(name)["summary"]["state"] == state, f"{name} is {state}", 30)

    def policy(self):
        place = self.bole.directory
        (place / "policy.yaml").write_text(POLICY)
        done = self.bole.run("policy", "apply", "policy.yaml", "--dry-run", cwd=place)
        assert "queue lab is new" in done.stdout and "queue night is new" in done.stdout, done.stdout
        assert [queue["name"] for queue in self.bole.get("/v1/queues")["queues"]] == ["default"], "a dry run does nothing"
        self.bole.run("policy", "apply", "policy.yaml", cwd=place)
        listing = self.bole.run("queues").stdout
        assert [line.split()[0] for line in listing.splitlines()] == ["QUEUE", "default", "lab", "night"], listing
        shown = self.bole.run("policy").stdout
        (place / "again.yaml").write_text(shown)
        assert "nothing changes" in self.bole.run("policy", "apply", "again.yaml", cwd=place).stdout
        (place / "wrong.yaml").write_text("queues:\n  lab: {guaranted: {gpus: 2}}\n")
        wrong = self.bole.run("policy", "apply", "wrong.yaml", cwd=place, check=2)
        assert "wrong.yaml:2:9" in wrong.stderr and "guaranteed" in wrong.stderr, wrong.stderr
        assert len(self.bole.get("/v1/queues")["queues"]) == 3, "a wrong file changes nothing"

    def unknown_queue(self):
        done = self.bole.run("run", "--no-upload", "--queue", "lap", "--", "true", check=3)
        assert "found lap, expected one of default, lab, night" in done.stderr, done.stderr

    def limit_and_borrowing(self):
        """night takes what it may have of the four GPUs; the fourth of its jobs waits for its limit."""
        for number in range(4):
            self.submit("--gpus", "1", "--queue", "night", name=f"night-{number}")
        self.wait("RUNNING", "night-0", "night-1", "night-2")
        why = self.bole.run("why", "night-3").stdout
        assert "queue night" in why and "under its limit" in why, why
        header, *_ = self.bole.run("ps").stdout.splitlines()
        assert "QUEUE" in header, header

    def reclaim(self):
        """lab is guaranteed two: one is free, for the other the youngest of night is stopped, and keeps its place."""
        self.submit("--gpus", "2", "--queue", "lab", name="lab-0")
        self.wait("RUNNING", "lab-0")
        states = [self.bole.job(f"night-{number}")["summary"]["state"] for number in range(3)]
        assert sorted(states) == ["QUEUED", "RUNNING", "RUNNING"], states
        stopped = f"night-{states.index('QUEUED')}"
        attempt = self.bole.job(stopped)["attempts"][-1]
        assert (attempt["outcome"], attempt["stop"]) == ("stopped", "preempted"), attempt
        assert attempt["stopped_for"] == self.bole.job("lab-0")["summary"]["id"], attempt
        self.bole.run("stop", "night-3")
        self.wait("CANCELLED", "night-3")
        self.bole.run("stop", "lab-0")
        self.wait("RUNNING", stopped)
        shown = self.bole.run("show", stopped).stdout
        assert f"made room for job {attempt['stopped_for']}" in shown, shown
        self.bole.run("stop", "night-0", "night-1", "night-2")
        self.wait("CANCELLED", "night-0", "night-1", "night-2")

    def user_limit(self):
        for number in range(3):
            self.submit("--queue", "lab", name=f"mine-{number}")
        self.wait("RUNNING", "mine-0", "mine-1")
        time.sleep(0.5)
        assert self.bole.job("mine-2")["summary"]["state"] == "QUEUED"
        why = self.bole.run("why", "mine-2").stdout
        assert "its user" in why.lower(), why
        self.bole.run("stop", "mine-0")
        self.wait("RUNNING", "mine-2")
        self.bole.run("stop", "mine-1", "mine-2")

    def spot(self):
        """Spot goes for anyone; what may not be stopped stays."""
        self.submit("--gpus", "2", "--spot", name="spot")
        self.submit("--gpus", "2", "--no-preempt", name="firm")
        self.wait("RUNNING", "spot", "firm")
        self.submit("--gpus", "2", name="plain")
        self.wait("RUNNING", "plain")
        assert self.bole.job("spot")["summary"]["state"] == "QUEUED"
        assert self.bole.job("firm")["summary"]["state"] == "RUNNING"
        shown = self.bole.run("show", "firm").stdout
        assert "not preemptible" in shown, shown

    def parts(self):
        """Three halves of one kind of GPU: two share one, each is told its part, and the bill counts halves."""
        self.bole.run("stop", "firm", "plain", "spot")
        self.wait("CANCELLED", "firm", "plain", "spot")
        spec = ("name: half-{0}\ngpus: 0.5\ncpus: 0.1\n"
                "command: 'echo part $BOLE_GPU_SHARES $BOLE_GPU_MEMORY_BYTES; sleep 600'\n")
        halves = [self.bole.submit(spec.format(number)) for number in range(2)]
        for job in halves:
            self.bole.wait_for(job, ("RUNNING",))
            self.bole.wait_until(lambda job=job: "part 500 21474836480" in self.bole.lines(job), "the rank knows its part", 10)
        places = [[(rank["node"], rank["gpus"]) for rank in self.bole.job(job)["attempts"][-1]["ranks"]] for job in halves]
        assert places[0] == places[1], places
        shared = [gpu for gpu in self.bole.get("/v1/gpus")["gpus"] if gpu.get("sharers")]
        assert [gpu["sharers"] for gpu in shared] == [halves], shared
        assert f"1: {halves[0]}, {halves[1]}" in self.bole.run("gpus").stdout
        refused = self.bole.run("run", "--no-upload", "--gpus", "T4:0.5", "--", "true", check=4).stderr
        assert "0.5 of one T4 GPU" in refused, refused
        warned = self.bole.run("run", "--no-upload", "--dry-run", "--gpus", "0.5", "--", "true", check=0).stderr
        assert "nothing yet keeps a rank from taking more" in warned, warned
        for job in halves:
            self.bole.stop(job)
            detail = self.bole.wait_for(job)
            lasted = detail["attempts"][-1]["ended_at"] - detail["attempts"][-1]["planned_at"]
            assert abs(detail["gpu_milliseconds"] - lasted / 2000) <= 1, (detail["gpu_milliseconds"], lasted)

    def restart(self):
        self.bole.kill()
        self.bole.up()
        assert [queue["name"] for queue in self.bole.get("/v1/queues")["queues"]] == ["default", "lab", "night"]
        events = self.bole.run("events", "--kind", "policy.set").stdout
        assert events.count("policy.set") == 1, events


def main():
    with Bole(sys.argv[1]) as bole:
        bole.up()
        queues = Queues(bole)
        for step in (queues.policy, queues.unknown_queue, queues.limit_and_borrowing, queues.reclaim, queues.user_limit, queues.spot,
                     queues.parts, queues.restart):
            step()
            print(f"{step.__name__}: ok", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
