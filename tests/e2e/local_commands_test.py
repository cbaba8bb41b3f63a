#!/usr/bin/env python3
"""The commands that work on a home by themselves: `bole backup`, `restore`, `fsck`, and `bole up --json`.

What an error tells to type is typed: by a shell, without BOLE_HOME, as whoever reads it would.
"""
import http.client
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.parse

from bole import Bole

FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


def quick(name, code=0, gpus=0):
    return f"name: {name}\ntasks:\n  - name: w\n    cpus: 0\n    gpus: {gpus}\n    command: ['sh', '-c', 'exit {code}']\n"


def waiting_job(bole, name, code, gpus=1):
    """Runs until let_go()."""
    go = bole.directory / "go"
    go.mkdir(exist_ok=True)
    job = bole.submit(f"name: {name}\ntasks:\n  - name: w\n    cpus: 0\n    gpus: {gpus}\n    mounts: ['{go}:/go']\n"
                      f"    command: |\n      echo waiting\n      while [ ! -e /go/{name} ]; do sleep 0.05; done\n"
                      f"      exit {code}\n")
    bole.wait_for(job, ("RUNNING",))
    bole.wait_until(lambda: "waiting" in bole.lines(job), f"{name} waits", 20)
    return job


def let_go(bole, name):
    (bole.directory / "go" / name).touch()


def typed(bole, command, check=0):
    """A line that someone reads and types, in a shell that knows of no home."""
    environment = {name: value for name, value in os.environ.items() if name != "BOLE_HOME"}
    environment["PATH"] = f"{bole.program.parent}:{environment['PATH']}"
    environment["HOME"] = str(bole.directory / "nobody")
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == check, f"{command}: exit {done.returncode}, expected {check}\n{done.stdout}\n{done.stderr}"
    return done


def advice(text, verb):
    """The command of that verb in a message, as it stands between its quotes."""
    found = re.search(rf"'(bole {verb}\b.*?)'(?=[ ;,:.)\n]|$)", text)
    assert found, f"no command 'bole {verb} ...' in: {text}"
    return found.group(1)


def refused(bole, *arguments, code, words):
    done = bole.run(*arguments, check=code)
    assert done.stdout == "", done
    assert done.stderr.startswith("bole: "), done
    for word in words:
        assert str(word) in done.stderr, f"'{word}' is not in: {done.stderr}"
    return done.stderr


def object_of(done, *fields):
    """The one line of JSON that a command printed, with these fields and no others."""
    assert done.stderr == "" and done.stdout.count("\n") == 1, done
    found = json.loads(done.stdout)
    assert sorted(found) == sorted(fields), found
    return found


def has_ended(pid):
    """Also where nobody has asked yet how."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


FSCK_FIELDS = ("clean", "events", "total_events", "segments", "side_values", "erased", "jobs", "live_attempts", "fault")


# ---- backup and restore ------------------------------------------------------------------------------------------------
def events_of(bole, count):
    listed = json.loads(bole.run("events", "--from", "1", "--limit", str(count), "--json", check=0).stdout)["events"]
    return [(event["sequence"], event["time"], event["kind"], event["actor"], event["body"]) for event in listed]


def listed(bole):
    jobs = json.loads(bole.run("ps", "--all", "--json", check=0).stdout)["jobs"]
    return {job["id"]: job for job in jobs}


def backup_beside_a_running_job(build):
    with Bole(build) as bole, Bole(build) as other:
        bole.up()
        good = bole.submit(quick("good"))
        bad = bole.submit(quick("bad", 3))
        for job in (good, bad):
            bole.wait_for(job, FINAL)
        running = waiting_job(bole, "running", 5, gpus=4)
        queued = bole.submit(quick("queued", 7, gpus=4))
        before = listed(bole)
        assert [before[job]["state"] for job in (good, bad, running, queued)] == \
            ["SUCCEEDED", "FAILED", "RUNNING", "QUEUED"], before

        copy = bole.directory / "monday.db"
        done = bole.run("backup", str(copy), check=0)
        assert done.stdout == f"backup written and verified: {copy}, beside it {copy}.pub\n" and not done.stderr, done
        assert copy.stat().st_mode & 0o777 == 0o600, "a ledger is nobody else's to read"
        keyed = bole.directory / "keyed.db"
        found = object_of(bole.run("backup", str(keyed), "--with-key", "--json", check=0),
                          "destination", "public_key", "secret_key")
        assert found == {"destination": f"{keyed}", "public_key": f"{keyed}.pub", "secret_key": f"{keyed}.key"}, found
        assert (bole.directory / "keyed.db.key").stat().st_mode & 0o777 == 0o600
        made = sorted(path.name for path in bole.directory.glob("*.db*"))
        assert made == ["keyed.db", "keyed.db.key", "keyed.db.pub", "monday.db", "monday.db.pub"], made
        refused(bole, "backup", str(copy), code=4, words=[f"{copy}: the file exists already", "choose another name"])
        nowhere = bole.directory / "nowhere" / "monday.db"
        refused(bole, "backup", str(nowhere), code=3, words=[nowhere, "make the directory first"])

        # What it holds, in a home of its own.
        done = typed(bole, f"bole restore {copy} --home {other.home}")
        assert done.stdout.startswith(f"restored into {other.home}; "), done
        assert done.stdout.endswith("\n1 attempt that ran at the time of the backup will be told as lost\n"), done
        start = advice(done.stdout, "up")
        assert start == f"bole up --home {other.home}", start
        assert object_of(other.run("fsck", "--full", "--json", check=0), *FSCK_FIELDS)["live_attempts"] == 1
        up = json.loads(typed(bole, f"{start} --port 0 --emulate 4xA100-PCIE-40GB --json").stdout)
        try:
            lost = other.wait_for(running, FINAL)
            assert sorted(listed(other)) == sorted(before), "the same jobs"
            for job in (good, bad):
                assert listed(other)[job] == before[job], "what had ended is as it was"
            attempts = lost["attempts"]
            assert lost["summary"]["state"] == "FAILED" and len(attempts) == 1, lost
            assert attempts[0]["outcome"] == "supervisor-lost", attempts
            assert "restored from a backup" in attempts[0]["note"], attempts
            assert not attempts[0]["ranks"][0]["exit"]["known"], "no exit code is made up"
            assert other.wait_for(queued, FINAL)["exit_code"] == 7, "what waited goes on there"
            other.wait_until(lambda: not other.supervisors(), "all that was started there has ended", 20)
            same = bole.get("/v1/status")["events"]  # nothing has happened here since the backup
            assert events_of(other, same) == events_of(bole, same)
            assert other.run("fsck", "--full", check=0).stdout.startswith("clean: ")
        finally:
            typed(bole, f"bole down --stop-jobs --home {other.home}")
        assert has_ended(up["pid"]), "down returns when it has ended"

        # And the one that was copied knows nothing of all that.
        assert bole.job(running)["summary"]["state"] == "RUNNING"
        assert bole.job(queued)["summary"]["state"] == "QUEUED"
        let_go(bole, "running")
        assert bole.wait_for(running, FINAL)["exit_code"] == 5
        assert bole.wait_for(queued, FINAL)["exit_code"] == 7


def restored_with_its_key(build):
    """With the key the ledger goes on as if nothing had been; without it a new one is made, and it says so."""
    with Bole(build) as bole:
        bole.up()
        bole.wait_for(bole.submit(quick("one")), FINAL)
        for name in ("keyed", "bare"):
            bole.run("backup", str(bole.directory / name), *(["--with-key"] if name == "keyed" else []), check=0)
        for name in ("keyed", "bare"):
            with Bole(build) as other:
                found = object_of(other.run("restore", str(bole.directory / name), "--json", check=0), "home",
                                  "lost_attempts")
                assert found == {"home": str(other.home), "lost_attempts": 0}, found
                other.up()
                said = any("key" in note for note in other.get("/v1/status")["notes"])
                assert said == (name == "bare"), other.get("/v1/status")["notes"]
                other.wait_for(other.submit(quick("two")), FINAL)
                assert other.run("fsck", "--full", check=0).stdout.startswith("clean: ")


def not_over_what_is_there(build):
    with Bole(build) as bole:
        bole.up()
        bole.wait_for(bole.submit(quick("one")), FINAL)
        copy = bole.directory / "copy.db"
        bole.run("backup", str(copy), check=0)
        text = refused(bole, "restore", str(copy), code=4,
                       words=["another Bole server is using this home", bole.home, f"process {bole.server.pid}"])
        typed(bole, advice(text, "down"))
        assert bole.server.wait(60) == 0, "the server that was meant"
        bole.server = None
        kept = (bole.home / "ledger.db").read_bytes()
        refused(bole, "restore", str(copy), code=4,
                words=[f"{bole.home}/ledger.db: the file exists already", "move the whole home away"])
        assert (bole.home / "ledger.db").read_bytes() == kept
        # Numbers of attempts would be given twice.
        (bole.home / "ledger.db").unlink()
        text = refused(bole, "up", "--port", "0", code=4, words=["the ledger of this home is gone", "ledger.pub"])
        refused(bole, "restore", str(copy), code=4,
                words=[f"{bole.home}/attempts: this home holds attempts of another ledger", "found 1 attempt,",
                       "move this one away first", f"{bole.home}/work"])
        assert not (bole.home / "ledger.db").exists()
        bole.home.rename(bole.directory / "old")
        typed(bole, advice(text, "restore").replace("BACKUP", str(copy)))
        bole.up()
        assert [job["name"] for job in bole.get("/v1/jobs?all=1")["jobs"]] == ["one"]


def overwrite(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def flip_event(path):
    with sqlite3.connect(path) as database:
        database.execute("UPDATE events SET body = replace(body, '\"', '''') WHERE seq = 3")
    database.close()


def other_key(path):
    text = (path.parent / f"{path.name}.pub").read_text()
    (path.parent / f"{path.name}.pub").write_text(text[:-10] + text[-10:].translate(str.maketrans("0123456789", "1234567890")))


def another_program(path):
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other(x)")
    database.close()


# What was done to it; the exit code; words of the message.
DAMAGES = (
    (flip_event, 70, ["event 3: its hash does not follow", "(nothing was restored)", "use another one"]),
    (lambda path: os.truncate(path, path.stat().st_size // 2), 70, ["use another one", "(nothing was restored)"]),
    (lambda path: overwrite(path, 4096 * 3, bytes(4096)), 70, ["(nothing was restored)"]),
    (other_key, 70, ["the newest key of the ledger is not the one of its owner", "(nothing was restored)"]),
    (lambda path: os.truncate(path, 0), 2, ["not a backup of a ledger", "a file that 'bole backup' made"]),
    (lambda path: path.write_text("not a ledger\n" * 1000), 2, ["not a backup of a ledger"]),
    (another_program, 2, ["not a backup of a ledger"]),
    (lambda path: path.unlink(), 3, ["cannot open the backup", "name the file that 'bole backup' made"]),
    (lambda path: (path.unlink(), path.mkdir()), 2, ["not a backup of a ledger"]),
)


def no_damaged_backup_is_restored(build):
    with Bole(build) as bole:
        bole.up()
        for number in range(20):
            bole.wait_for(bole.submit(quick(f"job-{number}")), FINAL)
        whole = bole.directory / "whole"
        whole.mkdir()
        bole.run("backup", str(whole / "copy.db"), check=0)
        for number, (damage, code, words) in enumerate(DAMAGES):
            shelf = bole.directory / f"shelf-{number}"
            shutil.copytree(whole, shelf)
            damage(shelf / "copy.db")
            with Bole(build) as other:
                text = refused(other, "restore", str(shelf / "copy.db"), code=code, words=[f"{shelf}/copy.db", *words])
                assert not other.home.exists(), f"nothing is left behind: {list(other.home.iterdir())}"
                print(f"  {text.strip()}")
                other.run("restore", str(whole / "copy.db"), check=0)
                assert other.run("fsck", "--full", check=0).stdout.startswith("clean: ")


# ---- fsck --------------------------------------------------------------------------------------------------------------
def fsck_tells_what_it_looked_at(build):
    with Bole(build) as bole:
        bole.home = bole.directory / "my home"  # a shell has to be told where it ends
        refused(bole, "fsck", code=3, words=[f"{bole.home}: there is no such home", "bole up"])
        bole.up()
        for number in range(3):
            bole.wait_for(bole.submit(quick(f"job-{number}", number)), FINAL)
        running = waiting_job(bole, "running", 0)
        for flags in ((), ("--full",)):  # nothing is sealed yet
            total = bole.get("/v1/status")["events"]
            found = object_of(bole.run("fsck", *flags, "--json", check=0), *FSCK_FIELDS)
            assert found["clean"] is True and found["fault"] is None, found
            assert (found["events"], found["total_events"], found["segments"]) == (total, total, 1), found
            assert (found["jobs"], found["live_attempts"], found["erased"]) == (4, 1, 0), found
            assert found["side_values"] > 4, found
            text = bole.run("fsck", *flags, check=0).stdout
            assert text == (f"clean: {total} events in 1 segment, {found['side_values']} side values (0 erased); "
                            "4 jobs, 1 attempt live\n"), text
        let_go(bole, "running")
        bole.wait_for(running, FINAL)
        bole.run("down", check=0)  # which seals it
        bole.server.wait(60)
        found = object_of(bole.run("fsck", "--json", check=0), *FSCK_FIELDS)
        total = found["total_events"]
        assert found["events"] == 0 and total > 10, found
        text = bole.run("fsck", check=0).stdout
        assert text.startswith(f"clean: the seal over all {total} events in 1 segment, "), text
        full = typed(bole, advice(text, "fsck")).stdout
        assert full.startswith(f"clean: {total} events in 2 segments, ") and "--full" not in full, full
        found = object_of(bole.run("fsck", "--full", "--json", check=0), *FSCK_FIELDS)
        assert (found["events"], found["total_events"], found["segments"]) == (total, total, 2), found
        bole.up()
        bole.wait_for(bole.submit(quick("more")), FINAL)
        now = bole.get("/v1/status")["events"]
        assert bole.run("fsck", check=0).stdout.startswith(f"clean: the newest {now - total} of {now} events in 1 segment")
        assert bole.run("fsck", "--full", check=0).stdout.startswith(f"clean: {now} events in 2 segments, ")


def fsck_names_the_record(build):
    with Bole(build) as bole:
        bole.up()
        bole.wait_for(bole.submit(quick("one")), FINAL)
        backup = bole.directory / "backup.db"
        bole.run("backup", str(backup), check=0)
        bole.run("down", check=0)
        bole.server.wait(60)
        bole.server = None
        with sqlite3.connect(bole.home / "ledger.db") as database:
            database.execute("UPDATE events SET body = '{}' WHERE seq = 4")
        database.close()
        assert object_of(bole.run("fsck", "--json", check=0), *FSCK_FIELDS)["clean"], "it lies behind the seal"
        where = f"{bole.home}/ledger.db, event 4"
        text = refused(bole, "fsck", "--full", code=70, words=[f"bole: {where}: damaged: its hash does not follow"])
        found = object_of(bole.run("fsck", "--full", "--json", check=70), *FSCK_FIELDS)
        assert found["clean"] is False and found["total_events"] is None and found["events"] == 3, found
        assert found["fault"].startswith(f"{where}: its hash does not follow"), found
        assert found["fault"].endswith(text.split("\n")[1].strip()), "the same advice in both"
        refused(bole, "backup", str(bole.directory / "later.db"), code=70, words=[where, "(no backup was made)", "restore"])
        assert not list(bole.directory.glob("later.db*"))
        # What to do, as it says.
        bole.home.rename(bole.directory / "old")
        typed(bole, advice(text, "restore").replace("BACKUP", str(backup)))
        assert bole.run("fsck", "--full", check=0).stdout.startswith("clean: ")


def a_damaged_log_is_left_behind_as_it_says(build):
    """Without a backup: what is left of the ledger, in a new home, where nothing of what was lost is taken for anything."""
    with Bole(build) as bole:
        bole.up()
        bole.wait_for(bole.submit(quick("kept")), FINAL)
        bole.kill()
        bole.up()  # moves the log into the file
        lost = waiting_job(bole, "lost", 0)
        bole.kill()
        let_go(bole, "lost")
        bole.wait_until(lambda: (bole.home / "attempts" / str(lost) / "end.json").exists(), "it ends meanwhile", 20)
        log = bole.home / "ledger.db-wal"
        overwrite(log, 5000, b"damage")
        text = refused(bole, "up", "--port", "0", code=70, words=[log, "write-ahead log is damaged", "where there is none"])
        log.rename(bole.directory / "log")
        copy = bole.directory / "what-is-left.db"
        typed(bole, advice(text, "backup").replace("BACKUP", str(copy)))
        bole.home.rename(bole.directory / "old")
        typed(bole, advice(text, "restore").replace("BACKUP", str(copy)))
        bole.up()
        assert [job["name"] for job in bole.get("/v1/jobs?all=1")["jobs"]] == ["kept"]
        assert bole.wait_for(bole.submit(quick("new", 7)), FINAL)["exit_code"] == 7
        assert bole.run("fsck", "--full", check=0).stdout.startswith("clean: ")


# ---- up ----------------------------------------------------------------------------------------------------------------
def check_up(bole, found):
    assert found["home"] == str(bole.home) and found["socket"] == f"{bole.home}/bole.sock", found
    assert any("emulated" in note and "2 x Tesla T4" in note for note in found["notes"]), found
    status = bole.get("/v1/status")
    assert status["pid"] == found["pid"] and status["home"] == found["home"], (status, found)
    address = urllib.parse.urlsplit(found["url"])
    assert address.scheme == "http" and address.hostname == "127.0.0.1" and address.path == "", found
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    token = (bole.home / "token").read_text().strip()
    connection.request("GET", "/v1/version", headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    assert response.status == 200 and "version" in json.loads(response.read())
    connection.close()


def up_as_json(build):
    start = ("up", "--port", "0", "--emulate", "2xT4", "--json")
    with Bole(build) as bole:
        try:
            found = object_of(bole.run(*start, check=0), "home", "socket", "url", "pid", "notes")
            check_up(bole, found)
            text = refused(bole, *start, code=4, words=["another Bole server is using this home", bole.home,
                                                        f"process {found['pid']}"])
            assert advice(text, "down") == f"bole down --home {bole.home}", text
        finally:
            down = bole.run("down", "--json", check=0)
        assert object_of(down) == {}
        assert has_ended(found["pid"]), "down returns when it has ended"
        server = subprocess.Popen([str(bole.program), *start, "--foreground"], stdout=subprocess.PIPE, text=True,
                                  stderr=subprocess.DEVNULL, env={**os.environ, "BOLE_HOME": str(bole.home)})
        try:
            found = json.loads(server.stdout.readline())
            assert found["pid"] == server.pid, found
            check_up(bole, found)
            bole.run("down", check=0)
            assert server.wait(60) == 0
            assert server.stdout.read() == "", "one line, and no more"
        finally:
            server.kill()
            server.wait()


SCENES = (backup_beside_a_running_job, restored_with_its_key, not_over_what_is_there, no_damaged_backup_is_restored,
          fsck_tells_what_it_looked_at, fsck_names_the_record, a_damaged_log_is_left_behind_as_it_says, up_as_json)


def main():
    wanted = sys.argv[2:]
    for scene in SCENES:
        if wanted and scene.__name__ not in wanted:
            continue
        begun = time.monotonic()
        scene(sys.argv[1])
        print(f"{scene.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
