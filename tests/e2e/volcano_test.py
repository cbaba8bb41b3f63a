#!/usr/bin/env python3
"""Volcano Jobs through the command line: the example, and what policies, retries, gangs and plugins do to real ranks.

Without images these jobs run on the machine's own system, as docs/volcano.md says; with Podman in the server the same
words hold for containers.
"""
import json
import pathlib
import re
import sys
import time

from bole import ApiError, Bole

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "volcano" / "job.yaml"


def task(name, replicas, script, gpus=0, more=""):
    limits = f"{{cpu: 100m, nvidia.com/gpu: {gpus}}}" if gpus else "{cpu: 100m}"
    return (f"    - name: {name}\n      replicas: {replicas}\n{more}"
            f"      template:\n        spec:\n          restartPolicy: Never\n          containers:\n"
            f"            - command: [sh, -c, {json.dumps(script)}]\n              resources: {{limits: {limits}}}\n")


def job(name, tasks, spec=""):
    return (f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n{spec}  tasks:\n"
            + "".join(tasks))


class Volcano:
    def __init__(self, bole):
        self.bole = bole

    def submit(self, text, *flags, check=0):
        return self.bole.run("submit", "-f", "-", *flags, check=check, input=text)

    def ended(self, text, seconds=60):
        name = re.search(r"metadata: \{name: ([^}]+)\}", text).group(1)
        self.submit(text)
        return self.bole.wait_for(name, seconds=seconds)

    # ---- what is shown --------------------------------------------------------------------------------------------
    def example(self):
        text = EXAMPLE.read_text()
        done = self.submit(text, "--dry-run")
        assert re.fullmatch(r"sum would start at once, on \S+ \(GPU 0-3\)\n", done.stdout) and done.stderr == "", (done.stdout, done.stderr)
        own = re.sub(r"^ *image: .*\n", "", text, flags=re.M)
        done = self.submit(own, "--follow")
        assert "[0] sum of 3 workers: 600" in done.stdout, done.stdout
        assert sorted(re.findall(r"\] sent (\d+) to sum-master-0\.sum", done.stdout)) == ["100", "200", "300"], done.stdout
        assert done.stderr.count("no image, so it runs on the machine's own system") == 2, done.stderr
        detail = self.bole.job("sum")
        assert detail["summary"]["state"] == "SUCCEEDED" and len(detail["attempts"]) == 1
        assert sorted(g for r in detail["attempts"][0]["ranks"] for g in r["gpus"]) == [0, 1, 2, 3]

    def plugins(self):
        script = "env | grep -E '^V[CK]_' | sort | tr '\\n' ' '; getent hosts seen-ps-0.seen | tr -s ' '"
        text = job("seen", [task("ps", 1, script), task("work-er", 2, script)], "  plugins: {env: [], svc: [], ssh: []}\n")
        done = self.submit(text, "--follow")
        assert "spec.plugins.ssh: no SSH keys are made" in done.stderr, done.stderr
        lines = sorted(line for line in done.stdout.splitlines() if "VC_" in line)
        assert len(lines) == 3, done.stdout
        for rank, (line, index) in enumerate(zip(lines, (0, 0, 1))):
            assert line.startswith(f"[{rank}] "), line
            for word in ("VC_PS_HOSTS=seen-ps-0.seen ", "VC_PS_NUM=1 ", "VC_WORK_ER_NUM=2 ", f"VC_TASK_INDEX={index} ",
                         f"VK_TASK_INDEX={index} ", "VC_WORK_ER_HOSTS=seen-work-er-0.seen,seen-work-er-1.seen "):
                assert word in line + " ", (word, line)
            assert "127.0.0.1 seen-ps-0.seen" in line, line
        done = self.submit(job("unasked", [task("w", 1, "env | grep -cE '^V[CK]_'; true")]), "--follow")
        assert "0" in done.stdout.split(), "variables of plugins that were not asked for: " + done.stdout

    def policy_restart_and_max_retry(self):
        spec = "  maxRetry: 1\n  policies: [{event: PodFailed, action: RestartJob}]\n"
        text = job("again", [task("w", 2, "echo attempt $BOLE_ATTEMPT; test $BOLE_ATTEMPT = 2")], spec)
        detail = self.ended(text)
        assert detail["summary"]["state"] == "SUCCEEDED", detail["summary"]
        assert [a["outcome"] for a in detail["attempts"]] == ["failed", "completed"], detail["attempts"]
        detail = self.ended(job("never-well", [task("w", 1, "exit 5")], spec))
        assert detail["summary"]["state"] == "FAILED" and detail["exit_code"] == 5, detail["summary"]
        assert len(detail["attempts"]) == 2, "maxRetry: 1 is one more attempt"

    def policy_of_exit_codes(self):
        spec = "  policies:\n    - {event: PodFailed, action: RestartJob}\n    - {exitCode: 2, action: AbortJob}\n"
        detail = self.ended(job("wrong-usage", [task("w", 1, "exit 2")], spec))
        assert detail["summary"]["state"] == "FAILED" and len(detail["attempts"]) == 1, detail["summary"]
        assert detail["exit_code"] == 2
        detail = self.ended(job("good-enough", [task("w", 2, "test $RANK = 0 && exit 9; sleep 600")],
                                "  policies: [{exitCode: 9, action: CompleteJob}]\n"))
        assert detail["summary"]["state"] == "SUCCEEDED", detail["summary"]

    def policy_of_a_task(self):
        more = "      policies: [{event: TaskCompleted, action: CompleteJob}]\n"
        text = job("main-is-done", [task("main", 1, "echo done", more=more), task("helper", 2, "sleep 600")])
        began = time.monotonic()
        detail = self.ended(text, seconds=90)
        assert detail["summary"]["state"] == "SUCCEEDED", detail["summary"]
        assert time.monotonic() - began < 60, "the helpers are stopped"
        more = "      policies: [{event: PodFailed, action: AbortJob}]\n"
        text = job("task-first", [task("a", 1, "exit 4", more=more)],
                   "  policies: [{event: PodFailed, action: RestartJob}]\n")
        detail = self.ended(text)
        assert detail["summary"]["state"] == "FAILED" and len(detail["attempts"]) == 1, "the task's rule goes first"

    def without_policies(self):
        detail = self.ended(job("plain", [task("w", 2, "test $RANK = 1 && exit 3; sleep 600")]))
        assert detail["summary"]["state"] == "FAILED" and detail["exit_code"] == 3, detail["summary"]
        assert len(detail["attempts"]) == 1
        assert "rank 1 failed first" in detail["summary"]["reason"], detail["summary"]["reason"]

    def min_available(self):
        text = job("elastic", [task("w", 6, "echo $WORLD_SIZE", gpus=1)], "  minAvailable: 3\n")
        detail = self.ended(text)
        assert detail["summary"]["state"] == "SUCCEEDED", detail["summary"]
        assert len(detail["attempts"][0]["ranks"]) == 4, "as many as there are GPUs"
        assert set(self.bole.lines("elastic")) == {"4"}, self.bole.lines("elastic")
        done = self.submit(job("rigid", [task("w", 6, "true", gpus=1)]), check=4)
        assert "can never start" in done.stderr, done.stderr
        done = self.submit(job("wrong", [task("w", 2, "true")], "  minAvailable: 3\n"), check=2)
        assert "stdin:5:17: spec.minAvailable: above the number of ranks" in done.stderr, done.stderr

    def ttl(self):
        detail = self.ended(job("short-lived", [task("w", 1, "true")], "  ttlSecondsAfterFinished: 1\n"))
        number = detail["summary"]["id"]

        def gone():
            try:
                self.bole.job(number)
                return False
            except ApiError as error:
                return error.status == 404
        self.bole.wait_until(gone, "the job is forgotten a second after its end", 60)

    def refusals(self):
        two = [task("w", 1, "true"), task("w", 1, "true")]
        assert "two tasks of one name" in self.submit(job("x", two), check=2).stderr
        spec = "  policies:\n    - {event: PodFailed, action: RestartJob}\n    - {event: PodFailed, action: AbortJob}\n"
        done = self.submit(job("x", [task("w", 1, "true")], spec), check=2)
        assert "stdin:7:15: two policies for the event PodFailed" in done.stderr, done.stderr

    def warnings(self):
        spec = "  minSuccess: 1\n  policies: [{event: PodPending, action: RestartJob}]\n"
        done = self.submit(job("warned", [task("w", 1, "true")], spec))
        assert done.stdout == "job %d (warned) submitted\n" % self.bole.job("warned")["summary"]["id"], done.stdout
        for word in ("stdin:5:3: spec.minSuccess is not honoured", "PodPending never happens here"):
            assert f"bole: warning: {word}" in done.stderr or word in done.stderr, done.stderr


def main():
    with Bole(sys.argv[1]) as bole:
        bole.up()
        volcano = Volcano(bole)
        tried = 0
        for name in ("example", "plugins", "policy_restart_and_max_retry", "policy_of_exit_codes", "policy_of_a_task",
                     "without_policies", "min_available", "ttl", "refusals", "warnings"):
            try:
                getattr(volcano, name)()
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
            tried += 1
        assert bole.run("fsck", "--full", check=0).stdout.startswith("clean")
        print(f"{tried} promises of docs/volcano.md hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
