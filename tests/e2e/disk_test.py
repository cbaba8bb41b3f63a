#!/usr/bin/env python3
"""What the disk does to a server: full, read-only, damaged; a second server; older and newer ledgers; backups under load.

The home lies on an ext4 file system of its own, on a loop device, in a mount namespace that ends with the test.
"""
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import threading

from bole import ApiError, Bole, SKIP

HERE = pathlib.Path(__file__).resolve().parent
FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
# Waits until it is told to end, then ends with its code.
WAITS = "echo waiting\nwhile [ ! -e /go/NAME ]; do sleep 0.05; done\nexit CODE"


class Disk:
    """An ext4 file system of 256 MiB at a server's home."""

    def __init__(self, bole):
        self.home = bole.home
        self.image = bole.directory / "disk.img"
        with open(self.image, "wb") as image:
            image.truncate(256 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-J", "size=8", str(self.image)], check=True)
        self.home.mkdir()
        self.mount()

    def mount(self):
        subprocess.run(["mount", "-o", "loop,errors=remount-ro", str(self.image), str(self.home)], check=True)
        self.home.chmod(0o711)

    def unmount(self):
        def gone():
            return subprocess.run(["umount", str(self.home)], stderr=subprocess.DEVNULL).returncode == 0
        Bole.wait_until(gone, "no process uses the disk any more", 20)

    def fill(self):
        """Until not a block is free."""
        with open(self.home / "ballast", "wb", buffering=0) as ballast:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        ballast.write(bytes(size))
                except OSError as error:
                    if error.errno != 28:
                        raise

    def make_room(self):
        (self.home / "ballast").unlink()

    def break_down(self):
        """An error of the file system: the kernel makes it read-only."""
        device = os.path.basename(subprocess.run(["findmnt", "-no", "SOURCE", str(self.home)], check=True, text=True,
                                                 capture_output=True).stdout.strip())
        pathlib.Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")

    def repair(self):
        self.unmount()
        subprocess.run(["e2fsck", "-fy", str(self.image)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.mount()


def waiting_job(bole, name, code, gpus=1):
    go = bole.directory / "go"
    go.mkdir(exist_ok=True)
    go.chmod(0o777)
    script = "".join(f"      {line}\n" for line in WAITS.replace("NAME", name).replace("CODE", str(code)).split("\n"))
    job = bole.submit(f"name: {name}\ntasks:\n  - name: w\n    gpus: {gpus}\n    cpus: 0\n    mounts: ['{go}:/go']\n"
                      f"    command: |\n{script}")
    bole.wait_for(job, ("RUNNING",))
    bole.wait_until(lambda: "waiting" in bole.lines(job), f"{name} waits", 20)
    return job


def kill_attempts(bole):
    """As a reset of the machine does."""
    def none_left():
        left = bole.supervisors() + bole.inits()
        for pid in left:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        return not left
    bole.wait_until(none_left, "all processes of attempts are gone", 20)


def let_go(bole, name):
    (bole.directory / "go" / name).touch()


def quick(name, code=0):
    return f"name: {name}\ntasks:\n  - name: w\n    cpus: 0\n    gpus: 0\n    command: ['sh', '-c', 'exit {code}']\n"


def refused(act, status):
    try:
        act()
    except ApiError as error:
        assert error.status == status, f"expected {status}: {error}"
        return error.body["error"] if "error" in error.body else error.body
    return None


def clean(bole):
    done = bole.run("fsck", "--full")
    assert done.returncode == 0 and done.stdout.startswith("clean"), done.stdout + done.stderr


def full_disk(build):
    with Bole(build) as bole:
        disk = Disk(bole)
        try:
            bole.up()
            before = [bole.submit(quick(f"before-{i}")) for i in range(5)]
            ends = waiting_job(bole, "ends", 7)
            stopped = waiting_job(bole, "stopped", 0)
            goes_on = waiting_job(bole, "goes-on", 5)
            disk.fill()
            taken = []
            words = None
            for number in range(200):  # what there is room for in the log's file may still be taken
                words = refused(lambda: taken.append(bole.submit(quick(f"full-{number}"))), 503)
                if words:
                    break
            assert words, "a full disk refuses new work"
            assert "full" in words["what"] and "free" in words["hint"], words
            assert str(bole.home) in words["where"], words
            bole.wait_until(lambda: "full" in bole.get("/v1/status")["problem"], "the status says it", 10)
            assert "refuses new commands" in bole.run("status").stdout.split("\n")[0], "status says so first"
            # What runs ends with its own code, and a stop stops.
            let_go(bole, "ends")
            detail = bole.wait_for(ends, FINAL, 30)
            assert (detail["summary"]["state"], detail["exit_code"]) == ("FAILED", 7), detail
            bole.run("stop", str(stopped), check=0)
            assert bole.wait_for(stopped, FINAL, 30)["summary"]["state"] == "CANCELLED"
            # Nor does a restart of the server change that.
            bole.kill()
            clean(bole)
            bole.up()
            assert refused(lambda: bole.submit(quick("still-full")), 503), "still full"
            assert bole.job(goes_on)["summary"]["state"] == "RUNNING"
            let_go(bole, "goes-on")
            assert bole.wait_for(goes_on, FINAL, 30)["exit_code"] == 5
            disk.make_room()
            bole.wait_until(lambda: bole.get("/v1/status")["writable"] or refused(
                lambda: bole.submit(quick("tries")), 503) is None, "it goes on by itself", 20)
            after = bole.submit(quick("after", 3))
            assert bole.wait_for(after, FINAL, 30)["exit_code"] == 3
            for job in before + taken:
                assert bole.wait_for(job, FINAL, 30)["summary"]["state"] == "SUCCEEDED", bole.job(job)
            assert bole.get("/v1/status")["problem"] == "", bole.get("/v1/status")
            assert (bole.home / "reserve").stat().st_size == 64 << 20, "the reserve is back"
            clean(bole)
        finally:
            bole.close()
            disk.unmount()


def read_only_disk(build):
    with Bole(build) as bole:
        disk = Disk(bole)
        try:
            bole.up()
            before = bole.submit(quick("before"))
            bole.wait_for(before, FINAL)
            stopped = waiting_job(bole, "stopped", 0)
            ends = waiting_job(bole, "ends", 7)
            goes_on = waiting_job(bole, "goes-on", 5)
            disk.break_down()
            words = refused(lambda: bole.submit(quick("refused")), 503)
            assert words and str(bole.home) in words["message"], words
            assert words["hint"], f"says what to do: {words}"
            bole.wait_until(lambda: not bole.get("/v1/status")["writable"], "the status says it", 10)
            assert bole.get("/v1/status")["problem"]
            let_go(bole, "ends")
            bole.run("stop", str(stopped))
            bole.wait_until(lambda: len(bole.inits()) <= 1 or None, "a stop stops, and what ends ends", 30)
            assert bole.job(goes_on)["summary"]["state"] == "RUNNING"
            words = bole.run("submit", "-f", "-", "--no-upload", input=quick("refused-too"))
            assert words.returncode == 6 and "look at the disk" in words.stderr, words
            # A server that starts now says that it cannot.
            bole.kill()
            started = bole.run("up", "--port", "0")
            assert started.returncode == 6 and str(bole.home) in started.stderr, started
            # With the disk repaired the ledger is whole, and no exit was invented.
            kill_attempts(bole)
            disk.repair()
            clean(bole)
            bole.up()
            for job, code in ((ends, 7), (stopped, None), (goes_on, None)):
                detail = bole.wait_for(job, FINAL, 30)
                found = detail["attempts"][0]["ranks"][0]["exit"]
                assert not found["known"] or found["code"] == code, f"an invented exit: {detail}"
            assert bole.job(before)["summary"]["state"] == "SUCCEEDED"
            bole.wait_for(bole.submit(quick("after")), ("SUCCEEDED",))
            clean(bole)
        finally:
            bole.close()
            disk.unmount()


# ---- a damaged file ----------------------------------------------------------------------------------------------------
def flip(path, at, mask=0x10):
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def flip_in(path, needle, skip=0):
    at = path.read_bytes().find(needle)
    assert at >= 0, f"{needle} is in {path}"
    flip(path, at + skip)


def zero_page(path):
    """An events page: the one with most of the submissions."""
    data = bytearray(path.read_bytes())
    page = max(range(0, len(data), 4096), key=lambda at: data[at:at + 4096].count(b"job.submitted"))
    data[page:page + 4096] = bytes(4096)
    path.write_bytes(data)


def cut(path):
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


DAMAGES = {
    "a bit in an event": lambda ledger: flip_in(ledger, b"attempt.ended", 4),
    "a bit in the first page": lambda ledger: flip(ledger, 20),
    "a bit of an event's body": lambda ledger: flip_in(ledger, b'"first_failed"', 3),
    "a zero page": zero_page,
    "half the file": cut,
    "an empty file": lambda ledger: os.truncate(ledger, 0),
    "another file": lambda ledger: ledger.write_bytes(b"not a ledger\n" * 1000),
    "no file": lambda ledger: ledger.unlink(),
}


def damaged_ledger(build):
    with Bole(build) as bole:
        bole.up()
        jobs = [bole.submit(quick(f"job-{i}")) for i in range(60)]
        for job in jobs:
            bole.wait_for(job, ("SUCCEEDED",))
        backup = bole.directory / "backup.db"
        bole.run("backup", str(backup), "--with-key", check=0)
        bole.kill()
        bole.up()  # moves the log into the file
        bole.kill()  # and so it is left without a seal: a start reads all of it
        ledger = bole.home / "ledger.db"
        kept = bole.directory / "kept"
        shutil.copytree(bole.home, kept, ignore=shutil.ignore_patterns("bole.sock", "reserve", "*-wal", "*-shm"))
        for name, damage in DAMAGES.items():
            damage(ledger)
            checked = bole.run("fsck", "--full")
            words = checked.stdout + checked.stderr
            assert checked.returncode != 0, f"{name}: fsck finds nothing: {words}"
            assert str(bole.home) in words or "event " in words, f"{name}: fsck does not say where: {words}"
            started = bole.run("up", "--port", "0")
            words = started.stdout + started.stderr
            if started.returncode == 0:
                bole.run("down")
            assert started.returncode in (4, 70), f"{name}: exit {started.returncode}: {words}"
            assert "ledger" in words, f"{name}: the file is not named: {words}"
            assert "bole restore" in words, f"{name}: says nothing of what to do: {words}"
            print(f"  {name}: {started.stderr.strip()}\n    fsck: {checked.stderr.strip()}")
            for extra in ("ledger.db-wal", "ledger.db-shm"):
                (bole.home / extra).unlink(missing_ok=True)
            shutil.copy(kept / "ledger.db", ledger)
        # What to do: as the words say, the backup into an empty home.
        shutil.rmtree(bole.home)
        bole.run("restore", str(backup), check=0)
        bole.up()
        assert len(bole.get("/v1/jobs?all=1&limit=1000")["jobs"]) == 60
        clean(bole)


def damaged_log(build):
    """What was acknowledged and lies in the write-ahead log only."""
    with Bole(build) as bole:
        bole.up()
        jobs = [bole.submit(quick(f"job-{i}")) for i in range(30)]
        for job in jobs:
            bole.wait_for(job, ("SUCCEEDED",))
        bole.kill()
        log = bole.home / "ledger.db-wal"
        assert log.stat().st_size > 100 * 4096, "there is a log"
        whole = log.read_bytes()
        flip(log, log.stat().st_size // 2)
        started = bole.run("up", "--port", "0")
        if started.returncode == 0:
            bole.run("down", "--wait", "30s")
        words = started.stdout + started.stderr
        assert started.returncode == 70 and "ledger.db-wal" in words, \
            f"a damaged log goes unnoticed: {started.returncode} {words}"
        checked = bole.run("fsck")
        assert checked.returncode == 70 and "ledger.db-wal" in checked.stderr, checked
        log.write_bytes(whole)
        # A last write that was never confirmed is no damage.
        with open(log, "r+b") as file:
            file.truncate(len(whole) - 2000)
        bole.up()
        clean(bole)


def torn_token(build):
    """A power loss while the token was being written; a start that fails while attempts have ended meanwhile."""
    with Bole(build) as bole:
        bole.up()
        for number in range(3):
            for job in [waiting_job(bole, f"job-{number}-{i}", 0) for i in range(3)]:
                assert job
            bole.kill()
            kill_attempts(bole)
            token = bole.home / "token"
            token.write_text("short\n")
            started = bole.run("up", "--port", "0")
            assert started.returncode == 2 and "token is too short" in started.stderr, started
            token.write_text("")
            bole.up()
            assert len(token.read_text()) == 65, token.read_text()
            bole.wait_until(lambda: not bole.get("/v1/jobs")["jobs"], "what was lost is told", 20)


def second_server(build):
    with Bole(build) as bole:
        bole.up()
        again = bole.run("up", "--port", "0")
        assert again.returncode == 4, again
        assert "another Bole server is using this home" in again.stderr and str(bole.server.pid) in again.stderr, again
        assert str(bole.home) in again.stderr and "bole down" in again.stderr, again
        bole.wait_for(bole.submit(quick("unharmed")), ("SUCCEEDED",))


# ---- versions and backups ----------------------------------------------------------------------------------------------
def old_ledger(build):
    """testdata/ledger-v1.db: what the first version's `bole backup --with-key` wrote. Kept for ever."""
    with Bole(build) as bole:
        bole.run("restore", str(HERE / "testdata" / "ledger-v1.db"), check=0)
        bole.up()
        listed = {job["name"]: job["state"] for job in bole.get("/v1/jobs?all=1")["jobs"]}
        assert listed == {"good": "SUCCEEDED", "bad": "FAILED", "stopped": "CANCELLED", "gang": "SUCCEEDED"}, listed
        assert bole.job("bad")["exit_code"] == 3
        bole.wait_for(bole.submit(quick("new")), ("SUCCEEDED",))
        clean(bole)


def newer_ledger(build):
    with Bole(build) as bole:
        bole.up()
        bole.kill()
        with sqlite3.connect(bole.home / "ledger.db") as database:
            ours = database.execute("PRAGMA user_version").fetchone()[0]
            database.execute(f"PRAGMA user_version = {ours + 1}")
        database.close()
        started = bole.run("up", "--port", "0")
        assert started.returncode == 4 and "newer" in started.stderr, started
        assert "ledger.db" in started.stderr and f"{ours + 1}" in started.stderr, started
        checked = bole.run("fsck")
        assert checked.returncode != 0 and "newer" in checked.stderr, checked


def backup_under_load(build):
    with Bole(build) as bole:
        bole.up()
        acknowledged = []
        over = threading.Event()
        failures = []
        waiting_job(bole, "holds-all", 0, gpus=4)  # so that what is submitted waits and the machine is not swamped

        def client(number):
            try:
                count = 0
                while not over.is_set():
                    count += 1
                    acknowledged.append(bole.submit(quick(f"client-{number}-{count}").replace("gpus: 0", "gpus: 4")))
            except Exception as error:
                failures.append(error)
        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for number in range(3):
                more = len(acknowledged) + 50
                bole.wait_until(lambda: len(acknowledged) > more or failures, "clients submit", 60)
                before = list(acknowledged)
                copy = bole.directory / f"backup-{number}.db"
                bole.run("backup", str(copy), check=0)
                assert len(acknowledged) > len(before) or failures, "the server goes on meanwhile"
                with Bole(build) as restored:
                    restored.run("restore", str(copy), check=0)
                    clean(restored)
                    restored.up()
                    there = {job["id"] for job in restored.get("/v1/jobs?all=1&limit=1000000")["jobs"]}
                    missing = [job for job in before if job not in there]
                    assert not missing, f"acknowledged before the backup and not in it: {missing}"
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not failures, failures
        again = bole.run("backup", str(copy))
        assert again.returncode == 4 and str(copy) in again.stderr, again
        over_old = bole.run("restore", str(copy))
        assert over_old.returncode == 4, over_old


SCENES = (full_disk, read_only_disk, damaged_ledger, damaged_log, torn_token, second_server, old_ledger, newer_ledger,
          backup_under_load)


def main():
    if os.environ.get("BOLE_OWN_MOUNTS") != "1":
        os.environ["BOLE_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "-m", "--propagation", "private", sys.executable, "-B", *sys.argv])
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        print("skipped: needs root and loop devices")
        return SKIP
    wanted = sys.argv[2:]
    for scene in SCENES:
        if not wanted or scene.__name__ in wanted:
            print(scene.__name__, flush=True)
            scene(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
