#!/usr/bin/env python3
"""What follows when something fails: ranks, limits, stops, restarts, and a server that goes away meanwhile."""
import os
import subprocess
import sys
import time

from bole import BUSY, ApiError, Bole, check_cpu_limit

TERMINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
RUNNING = ("RUNNING",)
# Ignores SIGTERM; says when it is ready to.
STUBBORN = "trap 'echo told' TERM; echo ready; while :; do sleep 0.1; done"


def gang(command, name, replicas=4, **fields):
    text = f"name: {name}\n" + "".join(f"{key}: {value}\n" for key, value in fields.items())
    body = "\n".join("      " + line for line in command.splitlines())
    return text + f"tasks:\n  - name: w\n    replicas: {replicas}\n    gpus: 1\n    cpus: 0\n    command: |\n{body}\n"


def exits(detail, attempt=-1):
    return [rank["exit"]["text"] if rank.get("exit") else None for rank in detail["attempts"][attempt]["ranks"]]


def seconds_between(a, b):
    return (b - a) / 1e6


def check_nothing_is_held(bole):
    def free():
        gpus = bole.get("/v1/gpus")["gpus"]
        return not any(gpu.get("job") for gpu in gpus) and not bole.supervisors() and not bole.inits()
    bole.wait_until(free, "all GPUs are free and no process is left", 10)


def one_rank_fails(bole):
    """Cloud scenario 11: rank 2 exits 1 and the others would sleep on."""
    job = bole.submit(gang(f"[ $RANK != 2 ] || {{ sleep 0.3; echo the disk of rank 2 is gone; exit 7; }}\n{STUBBORN}",
                           "one-fails", grace="1s"))
    detail = bole.wait_for(job, TERMINAL, 20)
    assert detail["summary"]["state"] == "FAILED" and detail["exit_code"] == 7, detail
    assert detail["attempts"][0]["first_failed"] == 2
    assert exits(detail) == ["SIGKILL (signal 9)", "SIGKILL (signal 9)", "exit 7", "SIGKILL (signal 9)"], exits(detail)
    assert detail["last_lines"][-1] == "the disk of rank 2 is gone", detail["last_lines"]
    assert "rank 2 failed first: exit 7" in detail["summary"]["reason"], detail["summary"]
    attempt = detail["attempts"][0]
    took = seconds_between(attempt["started_at"], attempt["ended_at"])
    assert took < 5 + 0.3 + 1, f"the gang ends within 5 s of the failure and the grace time, not after {took} s"
    for rank in (0, 1, 3):
        assert "told" in bole.lines(job, rank), f"rank {rank} got SIGTERM first"
    shown = bole.run("show", "one-fails", check=0).stdout
    assert "exit 7 (failed first)" in shown and "the disk of rank 2 is gone" in shown, shown
    check_nothing_is_held(bole)


def killed_by_a_signal(bole):
    job = bole.submit(gang("kill -SEGV $$", "segv", replicas=1))
    detail = bole.wait_for(job, TERMINAL, 20)
    assert detail["exit_code"] == 128 + 11 and exits(detail) == ["SIGSEGV (signal 11)"], detail


def cannot_be_started(bole):
    job = bole.submit("name: nothing\ncommand: [/no/such/program, now]\n")
    detail = bole.wait_for(job, TERMINAL, 20)
    assert detail["summary"]["state"] == "FAILED" and detail["exit_code"] in (125, 127), detail
    said = detail["summary"]["reason"] + detail["attempts"][0]["note"] + " ".join(detail["last_lines"])
    assert "/no/such/program" in said, detail


def restarts_until_it_works(bole):
    """Two failures, then success: the directory is the same each time, and the waits grow."""
    job = bole.submit(gang("[ $RANK = 0 ] || exec sleep 1\necho try >> tries\n[ $(wc -l < tries) -ge 3 ] || exit 9", "again",
                           restart="{policy: on-failure, max_retries: 3, backoff: 400ms}"))
    detail = bole.wait_for(job, TERMINAL, 40)
    attempts = detail["attempts"]
    assert detail["summary"]["state"] == "SUCCEEDED" and detail["exit_code"] == 0 and len(attempts) == 3, detail
    waits = [seconds_between(a["ended_at"], b["planned_at"]) for a, b in zip(attempts, attempts[1:])]
    assert waits[0] >= 0.4 and waits[1] >= 0.8, f"the back-off doubles: {waits}"
    assert [a["first_failed"] for a in attempts] == [0, 0, -1], "each attempt tells its own story"


def restarts_no_more_than_asked(bole):
    job = bole.submit(gang("exit 4", "twice", replicas=1, restart="{policy: on-failure, max_retries: 2, backoff: 100ms}"))
    detail = bole.wait_for(job, TERMINAL, 40)
    assert detail["summary"]["state"] == "FAILED" and detail["exit_code"] == 4, detail
    assert len(detail["attempts"]) == 3 and "after 3 attempts" in detail["summary"]["reason"], detail
    job = bole.submit(gang("exit 4", "never", replicas=1))
    detail = bole.wait_for(job, TERMINAL, 40)
    assert len(detail["attempts"]) == 1, "the policy that was not given is 'never'"


def success_is_not_restarted(bole):
    job = bole.submit(gang("exit 0", "fine", restart="on-failure:5"))
    detail = bole.wait_for(job, TERMINAL, 40)
    assert detail["summary"]["state"] == "SUCCEEDED" and len(detail["attempts"]) == 1 and detail["exit_code"] == 0


def time_limit(bole):
    job = bole.submit(gang(STUBBORN, "slow", time_limit="1s", grace="500ms"))
    detail = bole.wait_for(job, TERMINAL, 20)
    attempt = detail["attempts"][0]
    assert detail["summary"]["state"] == "FAILED" and detail["exit_code"] == 124, detail
    assert attempt["outcome"] == "time-limit", attempt
    took = seconds_between(attempt["started_at"], attempt["ended_at"])
    assert 1.4 < took < 6, f"1 s and the grace of 0.5 s, not {took} s"
    assert "told" in bole.lines(job, 0)


def time_limit_while_the_server_is_away(bole):
    """The supervisor keeps the time, not the server."""
    job = bole.submit(gang("exec sleep 1000", "slow-alone", time_limit="2s"))
    bole.wait_for(job, RUNNING, 20)
    bole.kill()
    bole.wait_until(lambda: not bole.supervisors(), "the supervisor ends the job alone", 15)
    bole.up()
    detail = bole.wait_for(job, TERMINAL, 20)
    assert detail["exit_code"] == 124 and detail["attempts"][0]["outcome"] == "time-limit", detail


def cpu_limits_hold(bole):
    """At once, and one of them far below what a busy machine leaves to anyone."""
    script = BUSY.strip().replace("SECONDS", "3")
    limits = (0.5, 0.2)
    jobs = [bole.submit(gang(script, "busy", replicas=1).replace("cpus: 0\n", f"cpus: {cpus}\n")) for cpus in limits]
    for job, cpus in zip(jobs, limits):
        check_cpu_limit(bole.wait_for(job, TERMINAL, 30), bole.lines(job), cpus)


def cancelled(bole):
    job = bole.submit(gang(STUBBORN, "unwanted", grace="500ms"))
    bole.wait_until(lambda: all("ready" in bole.lines(job, rank) for rank in range(4)), "all are ready", 20)
    done = bole.run("stop", "unwanted", check=0)
    detail = bole.wait_for(job, TERMINAL, 20)
    assert detail["summary"]["state"] == "CANCELLED" and detail["exit_code"] == 130, detail
    assert exits(detail) == ["SIGKILL (signal 9)"] * 4, done.stdout
    # What ends well when it is told to is cancelled all the same, and its code is kept.
    job = bole.submit(gang("trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done", "polite"))
    bole.wait_until(lambda: all("ready" in bole.lines(job, rank) for rank in range(4)), "all are ready", 20)
    bole.stop(job)
    detail = bole.wait_for(job, TERMINAL, 20)
    assert detail["summary"]["state"] == "CANCELLED" and exits(detail) == ["exit 0"] * 4, detail


def cancelled_before_it_ran(bole):
    holder = bole.submit(gang("exec sleep 1000", "holder"))
    bole.wait_for(holder, RUNNING, 20)
    waiting = bole.submit(gang("exit 0", "waiting"))
    why = bole.run("why", "waiting", check=0).stdout
    assert "GPU" in why, why
    bole.stop(waiting)
    detail = bole.wait_for(waiting, TERMINAL, 10)
    assert detail["summary"]["state"] == "CANCELLED" and not detail["attempts"], detail
    bole.stop(holder)
    bole.wait_for(holder, TERMINAL, 20)


def cancelled_while_it_backs_off(bole):
    job = bole.submit(gang("exit 1", "resting", replicas=1, restart="{policy: on-failure, max_retries: 3, backoff: 1h}"))
    bole.wait_until(lambda: bole.job(job)["summary"]["state"] == "QUEUED" and bole.job(job)["attempts"],
                    "the job waits for its next try", 20)
    why = bole.run("why", "resting", check=0).stdout
    assert "tries again at" in why and "rank 0 failed first: exit 1" in why, why
    bole.stop(job)
    detail = bole.wait_for(job, TERMINAL, 10)
    assert detail["summary"]["state"] == "CANCELLED" and len(detail["attempts"]) == 1, detail


def two_gangs_for_all(bole):
    """Cloud scenario 14: two jobs that each need everything; one gets all, the other waits whole."""
    one, other = (bole.submit(gang("sleep 0.5", name)) for name in ("all-a", "all-b"))
    most = 0
    while bole.job(other)["summary"]["state"] not in TERMINAL:
        states = [bole.job(job) for job in (one, other)]
        live = [d for d in states if d["summary"]["state"] in ("STARTING", "RUNNING", "STOPPING")]
        most = max(most, len(live))
        for detail in live:
            assert len(detail["attempts"][-1]["ranks"]) == 4, "a gang is whole"
        time.sleep(0.01)
    assert most == 1, f"{most} of the two ran at once"
    for job in (one, other):
        assert bole.job(job)["summary"]["state"] == "SUCCEEDED"


def never_fits(bole):
    """Cloud scenario 25: what can never fit is refused at submission."""
    for spec, word in ((gang("true", "five", replicas=5), "4"), ("name: h\ngpus: H100:1\ncommand: 'true'\n", "H100"),
                       ("name: m\nmemory: 900TiB\ncommand: 'true'\n", "memory")):
        try:
            bole.submit(spec)
        except ApiError as error:
            assert error.status == 422 and word in str(error.body), error
        else:
            raise AssertionError(f"accepted what can never run: {spec}")


def the_count_is_of_the_allocation(bole):
    """Cloud scenarios 16 and 17: what a rank is told is what it has, and a CPU job sees no GPU."""
    held = bole.submit(gang("exec sleep 1000", "other", replicas=2))
    bole.wait_for(held, RUNNING, 20)
    job = bole.submit("name: two\ngpus: 2\ncommand: echo seen=$CUDA_VISIBLE_DEVICES; env | grep ^BOLE_ | sort\n")
    bole.wait_for(job, TERMINAL, 20)
    lines = bole.lines(job)
    seen = [line for line in lines if line.startswith("seen=")][0][5:].split(",")
    mine = {gpu["uuid"] for gpu in bole.get("/v1/gpus")["gpus"]}
    taken = {g for rank in bole.job(held)["attempts"][0]["ranks"] for g in rank["gpus"]}
    assert len(seen) == 2 and set(seen) <= mine, lines
    assert {g for rank in bole.job(job)["attempts"][0]["ranks"] for g in rank["gpus"]}.isdisjoint(taken)
    job = bole.submit("name: none\ncommand: echo seen=[$CUDA_VISIBLE_DEVICES]\n")
    bole.wait_for(job, TERMINAL, 20)
    assert "seen=[]" in bole.lines(job), bole.lines(job)
    bole.stop(held)
    bole.wait_for(held, TERMINAL, 20)


def the_server_comes_and_goes(bole):
    """Cloud scenario 26: a server that stops ends no job and completes none."""
    job = bole.submit(gang("until [ -e go ]; do sleep 0.05; done; exit $((RANK == 3 ? 5 : 0))", "survivor"))
    detail = bole.wait_for(job, RUNNING, 20)
    bole.run("down", check=0)
    bole.server.wait(30)
    before = bole.inits()
    assert len(before) >= 4, "the ranks go on without the server"
    bole.up()
    assert bole.job(job)["summary"]["state"] == "RUNNING" and bole.inits() == before
    bole.kill()
    open(os.path.join(detail["working_directory"], "go"), "w").close()
    bole.wait_until(lambda: not bole.supervisors(), "the job ends while nobody looks", 20)
    bole.up()
    detail = bole.wait_for(job, TERMINAL, 20)
    assert detail["exit_code"] == 5 and len(detail["attempts"]) == 1, detail
    assert exits(detail)[3] == "exit 5", detail
    # And with --stop-jobs they end, as cancelled ones.
    job = bole.submit(gang("exec sleep 1000", "swept"))
    bole.wait_for(job, RUNNING, 20)
    bole.run("down", "--stop-jobs", check=0)
    bole.server.wait(30)
    assert not bole.supervisors()
    bole.up()
    detail = bole.job(job)
    assert detail["summary"]["state"] == "CANCELLED" and detail["exit_code"] == 130, detail


def attached_while_the_server_dies(bole):
    """Cloud scenario 27: whoever watches is told, waits, and misses neither a line nor the code."""
    job = bole.submit(gang("for i in 1 2 3 4 5 6; do echo line $i; until [ $i != 3 ] || [ -e go ]; do sleep 0.05; done; done\n"
                           "exit 6", "watched", replicas=1))
    watcher = subprocess.Popen([str(bole.program), "attach", str(job)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, env={**os.environ, "BOLE_HOME": str(bole.home)})
    heard = []
    while (line := watcher.stdout.readline()) and "line 3" not in line:
        heard.append(line)
    bole.kill()
    while (line := watcher.stdout.readline()) and "went away" not in line:
        heard.append(line)
    assert "went away" in line, heard
    bole.up()
    open(os.path.join(bole.job(job)["working_directory"], "go"), "w").close()
    rest = watcher.stdout.read()
    assert watcher.wait(30) == 6, rest
    assert [text for text in rest.splitlines() if text.startswith("line")] == ["line 4", "line 5", "line 6"], rest


def what_happened_is_told(bole):
    seen = [event["kind"] for event in bole.get("/v1/events?limit=1000")["events"]]
    for kind in ("server.started", "job.submitted", "attempt.planned", "attempt.started", "attempt.ended", "job.ended",
                 "job.requeued", "job.stop_requested"):
        assert kind in seen, f"{kind} is missing among {set(seen)}"
    last = bole.get("/v1/events?limit=1")["events"][0]
    job = bole.submit("name: last\ncommand: 'true'\n")
    bole.wait_for(job, TERMINAL, 20)
    newest = bole.get("/v1/events?limit=1")["events"][0]
    assert newest["sequence"] > last["sequence"], "events are read as they are now"
    assert bole.run("fsck", "--full", check=0).stdout.startswith("clean")


STEPS = (one_rank_fails, killed_by_a_signal, cannot_be_started, restarts_until_it_works, restarts_no_more_than_asked,
         success_is_not_restarted, time_limit, time_limit_while_the_server_is_away, cpu_limits_hold, cancelled,
         cancelled_before_it_ran, cancelled_while_it_backs_off, two_gangs_for_all, never_fits, the_count_is_of_the_allocation,
         the_server_comes_and_goes, attached_while_the_server_dies, what_happened_is_told)


def main():
    wanted = sys.argv[2:]
    with Bole(sys.argv[1]) as bole:
        bole.up()
        for step in STEPS:
            if wanted and step.__name__ not in wanted:
                continue
            begun = time.monotonic()
            step(bole)
            check_nothing_is_held(bole)
            print(f"{step.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
