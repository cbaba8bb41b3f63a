#!/usr/bin/env python3
"""The systemd unit on a machine with systemd and pure cgroup v2, which is a VM (vm.sh): start, stop, restart, boot; jobs
that outlive the server; limits that hold; a clock that is set.
    systemd_test.py BUILD
"""
import json
import pathlib
import shutil
import sys
import tempfile
import time

from vm import Vm

HOME = "/var/lib/bole"
FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


class Cloud:
    """The service in the VM, through its own command line."""

    def __init__(self, vm):
        self.vm = vm
        self.files = 0

    def bole(self, line, check=True):
        return self.vm.shell(f"BOLE_HOME={HOME} bole {line}", check=check)

    def json(self, line):
        return json.loads(self.bole(f"{line} --json").stdout)

    def submit(self, name, script, **fields):
        text = {"name": name, "tasks": [{"name": "w", "gpus": 1, "cpus": 0, "command": ["sh", "-c", script], **fields}]}
        return self.send(text)

    def send(self, spec):
        self.files += 1
        local = self.vm.directory / f"spec-{self.files}.yaml"
        local.write_text(json.dumps(spec))
        self.vm.call("copy", str(local), "/tmp/spec.yaml")
        self.bole("submit --no-upload -f /tmp/spec.yaml")
        return spec["name"]

    def job(self, name):
        return self.json(f"show {name}")

    def wait_for(self, name, states, seconds=90):
        deadline = time.monotonic() + seconds
        while True:
            detail = self.job(name)
            if detail["summary"]["state"] in states:
                return detail
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is {detail['summary']} and not {states} after {seconds} s")
            time.sleep(0.5)

    def service(self, verb):
        return self.vm.shell(f"systemctl {verb} bole", check=False)

    def main_pid(self):
        return self.vm.shell("systemctl show -P MainPID bole").stdout.strip()

    def processes(self, words):
        """Of a command line that has these words; written so that the question does not find itself."""
        return self.vm.shell(f"pgrep -f '[{words[0]}]{words[1:]}'", check=False).stdout.split()


def unit_is_sound(cloud):
    done = cloud.vm.shell("systemd-analyze verify /usr/local/lib/systemd/system/bole.service 2>&1", check=False)
    assert done.returncode == 0 and "bole" not in done.stdout, done.stdout
    started = cloud.vm.shell("systemctl daemon-reload && systemctl enable --now bole 2>&1", check=False)
    assert started.returncode == 0, started.stdout + cloud.vm.shell("journalctl -u bole | tail -20").stdout
    # It is told as started when it serves, not before.
    assert cloud.bole("status").stdout.startswith("State:"), cloud.bole("status").stdout


def jobs_outlive_restarts(cloud):
    job = cloud.submit("outlives", "echo $$ >&2; sleep 3600.5; exit 4")
    cloud.wait_for(job, ("RUNNING",))
    ranks = cloud.processes("sleep 3600.5")
    before = cloud.main_pid()
    assert cloud.service("restart").returncode == 0
    assert cloud.main_pid() != before
    detail = cloud.job(job)
    assert detail["summary"]["state"] == "RUNNING" and len(detail["attempts"]) == 1, detail
    assert cloud.processes("sleep 3600.5") == ranks, "the same processes go on"
    # A crash: systemd brings it back.
    pid = cloud.main_pid()
    cloud.vm.shell(f"kill -9 {pid}")
    cloud.vm.shell("for i in $(seq 100); do systemctl -q is-active bole && exit; sleep 0.2; done; exit 1")
    assert cloud.main_pid() not in (pid, "0") and cloud.job(job)["summary"]["state"] == "RUNNING"
    # An end while it is down keeps its code.
    assert cloud.service("stop").returncode == 0
    assert cloud.processes("sleep 3600.5") == ranks, "a stop of the service stops no job"
    cloud.vm.shell(f"kill {ranks[-1]}; for i in $(seq 100); do pgrep -x bole-supervise || exit 0; sleep 0.2; done; exit 1")
    assert cloud.service("start").returncode == 0
    detail = cloud.wait_for(job, FINAL)
    assert detail["exit_code"] in (4, 143), detail
    assert detail["attempts"][0]["ranks"][0]["exit"]["known"], detail


def limits_hold(cloud):
    """Pure cgroup v2: memory, processes, and the whole tree's end."""
    eater = "python3 -c 'b=bytearray(300<<20); print(len(b))'; exit $?"
    detail = cloud.wait_for(cloud.submit("eats", eater, memory="64MiB"), FINAL)
    assert detail["summary"]["state"] == "FAILED" and detail["exit_code"] == 137, detail
    assert "memory limit" in json.dumps(detail), detail
    detail = cloud.wait_for(cloud.submit("eats-less", "python3 -c 'b=bytearray(20<<20)'", memory="64MiB"), FINAL)
    assert detail["summary"]["state"] == "SUCCEEDED", detail
    # What hides from its parent is found by its group.
    hides = "setsid sh -c 'trap \"\" TERM; sleep 7200.5' >/dev/null 2>&1 & echo hidden; exit 0"
    cloud.wait_for(cloud.submit("hides", hides), FINAL)
    assert cloud.processes("sleep 7200.5") == [], "nothing is left of a job that has ended"
    # Counted in the group while it runs.
    job = cloud.submit("looks", "echo started; sleep 3600.7")
    attempt = cloud.wait_for(job, ("RUNNING",))["attempts"][0]["id"]
    started = json.loads(cloud.vm.shell(f"cat {HOME}/attempts/{attempt}/started.json").stdout)
    assert started["containment"] == "cgroup" and started["note"] == "", started
    group = "/sys/fs/cgroup/" + started["cgroup"].replace("/sys/fs/cgroup/", "").strip("/")
    limit = cloud.vm.shell(f"cat {group}/rank-0/pids.max {group}/rank-0/cgroup.procs").stdout.split()
    assert limit[0] != "max" and len(limit) > 1, limit
    cloud.bole(f"stop {job}")
    cloud.wait_for(job, FINAL)
    assert cloud.vm.shell(f"test ! -e {group}", check=False).returncode == 0, "its group is removed"
    # Nothing can be forked without end.
    bomb = "i=0; while [ $i -lt 20000 ]; do sleep 3600.9 & i=$((i+1)); done 2>/dev/null; echo made $i; exit 0"
    job = cloud.submit("forks", bomb)
    time.sleep(5)
    assert cloud.bole("status").returncode == 0, "the machine still answers"
    cloud.bole(f"stop {job} --grace 1s", check=False)
    cloud.wait_for(job, FINAL)
    assert cloud.processes("sleep 3600.9") == []


def clock_is_set(cloud):
    """A day forward and back: no limit is reached by it, and ledger time never goes back."""
    job = cloud.send({"name": "timed", "time_limit": "1h",
                      "tasks": [{"name": "w", "cpus": 0, "command": ["sleep", "3600.3"]}]})
    cloud.wait_for(job, ("RUNNING",))
    for jump in ("+1 day", "-2 days", "+1 day"):
        cloud.vm.shell(f"date -s \"$(date -d '{jump}')\" >/dev/null && sleep 2")
        assert cloud.job(job)["summary"]["state"] == "RUNNING", f"after {jump}"
    short = cloud.send({"name": "short", "time_limit": "3s",
                        "tasks": [{"name": "w", "cpus": 0, "command": ["sleep", "3600.3"]}]})
    cloud.vm.shell("date -s \"$(date -d '-1 day')\" >/dev/null")
    detail = cloud.wait_for(short, FINAL)
    assert detail["exit_code"] == 124, detail
    times = [event["time"] for event in cloud.json("events --from 1")["events"]]
    assert times == sorted(times), "ledger time goes back"
    cloud.bole(f"stop {job}")
    cloud.wait_for(job, FINAL)
    assert cloud.bole("fsck --full").stdout.startswith("clean")


def boots(cloud):
    """At boot it comes by itself; what ran is retried or ended as its policy says."""
    again = cloud.send({"name": "again", "restart": "on-failure:3",
                        "tasks": [{"name": "w", "cpus": 0, "command": ["sleep", "3600.1"]}]})
    once = cloud.send({"name": "once", "tasks": [{"name": "w", "cpus": 0, "command": ["sleep", "3600.1"]}]})
    cloud.wait_for(again, ("RUNNING",))
    cloud.wait_for(once, ("RUNNING",))
    cloud.vm.call("reboot")
    cloud.vm.shell("for i in $(seq 100); do systemctl -q is-active bole && exit; sleep 0.2; done; exit 1")
    detail = cloud.wait_for(once, FINAL)
    assert detail["summary"]["state"] == "FAILED", detail
    detail = cloud.wait_for(again, ("RUNNING",))
    assert len(detail["attempts"]) == 2, detail
    cloud.bole("stop again")
    cloud.wait_for(again, FINAL)
    assert cloud.bole("fsck --full").stdout.startswith("clean")


def refuses_for_good(cloud):
    """What a restart does not mend is not tried again and again."""
    cloud.service("stop")
    cloud.vm.shell(f"cp {HOME}/ledger.db /tmp/kept && printf broken | dd of={HOME}/ledger.db conv=notrunc status=none")
    assert cloud.service("start").returncode != 0, "a start that fails is told"
    time.sleep(3)
    shown = cloud.vm.shell("systemctl show -P NRestarts -P Result bole").stdout.split()
    assert "0" in shown, shown
    assert "ledger.db" in cloud.vm.shell("journalctl -u bole -n 5").stdout
    cloud.vm.shell(f"cp /tmp/kept {HOME}/ledger.db")
    assert cloud.service("start").returncode == 0


def main():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="bole-systemd-"))
    vm = Vm(directory)
    try:
        vm.call("build")
        vm.call("start")
        vm.install(pathlib.Path(sys.argv[1]))
        cloud = Cloud(vm)
        for scene in (unit_is_sound, jobs_outlive_restarts, limits_hold, clock_is_set, boots, refuses_for_good):
            if sys.argv[2:] and scene.__name__ not in sys.argv[2:] and scene is not unit_is_sound:
                continue
            began = time.monotonic()
            scene(cloud)
            print(f"{scene.__name__}: {time.monotonic() - began:.0f} s", flush=True)
    except BaseException:
        print(vm.call("run", "sh", "-c", "journalctl -u bole | tail -30", check=False).stdout[-4000:])
        raise
    finally:
        vm.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
