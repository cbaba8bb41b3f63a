#!/usr/bin/env python3
"""`bole run` with each of its flags on a real server: what the rank then really finds."""
import json
import os
import pathlib
import socket
import sys
import time

from bole import Bole


class Flags:
    def __init__(self, bole, place):
        self.bole, self.place = bole, place

    def run(self, *arguments, check=0, env=None):
        os.environ.update(env or {})
        return self.bole.run("run", *arguments, check=check, cwd=self.place)

    def out(self, *arguments, **options):
        return self.run(*arguments, **options).stdout.splitlines()

    # ---- each flag ------------------------------------------------------------------------------------------------
    def ntasks(self):
        lines = sorted(self.out("-n", "3", "-c", "0.1", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE"))
        assert lines == ["[0] 0 of 3", "[1] 1 of 3", "[2] 2 of 3"], lines

    def nodes(self):
        done = self.run("-N", "2", "-c", "0.1", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
        assert sorted(done.stdout.splitlines()) == ["[0] 0 of 2", "[1] 1 of 2"], done.stdout
        assert "warning: --nodes 2" in done.stderr, done.stderr

    def gpus(self):
        (line,) = self.out("--gpus", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        uuids = {gpu["uuid"]: gpu for gpu in self.bole.get("/v1/gpus")["gpus"]}
        seen = line.split(",")
        assert len(seen) == 2 and all(uuid in uuids for uuid in seen), line
        assert seen == sorted(seen, key=lambda uuid: uuids[uuid]["index"]), "in PCI order"
        (line,) = self.out("--", "sh", "-c", 'echo "[$CUDA_VISIBLE_DEVICES]"')
        assert line == "[]", "a job without GPUs sees none"
        (line,) = self.out("-G", "A100:1", "--", "sh", "-c", "echo $BOLE_GPU_MODEL")
        assert line.startswith("A100"), line
        assert "can never start" in self.run("--gpus", "H100:1", "--", "x", check=4).stderr
        assert "--gpus" in self.run("--gpus", "1.5", "--", "x", check=2).stderr

    def cpus(self):
        lines = self.out("-c", "2", "--", "sh", "-c", "echo $OMP_NUM_THREADS $BOLE_MILLICPUS")
        assert lines == ["2 2000"], lines
        lines = self.out("--cpus-per-task", "0.5", "--", "sh", "-c", "echo $OMP_NUM_THREADS $BOLE_MILLICPUS")
        assert lines == ["1 500"], lines

    def memory(self):
        (line,) = self.out("--mem", "256MiB", "--", "sh", "-c", "echo $BOLE_MEMORY_BYTES")
        assert line == str(256 * 2 ** 20), line
        detail = self.bole.job("sh")
        assert detail["spec"]["shape"]["tasks"][0]["memory"] == 256 * 2 ** 20
        assert "--mem" in self.run("--mem", "256", "--", "x", check=2).stderr
        assert "can never start" in self.run("--mem", "900TiB", "--", "x", check=4).stderr

    def shm(self):
        (line,) = self.out("--shm-size", "64M", "--", "sh", "-c", "df -k --output=size /dev/shm | tail -1")
        assert int(line) == 64 * 1024, line

    def time_limit(self):
        began = time.monotonic()
        done = self.run("-t", "1s", "--name", "limited", "--", "sleep", "600", check=124)
        assert time.monotonic() - began < 60
        assert "time limit" in done.stderr, done.stderr
        assert self.bole.job("limited")["exit_code"] == 124
        assert "5s or 5m?" in self.run("-t", "5", "--", "x", check=2).stderr
        self.run("-t", "0-00:01:00", "--dry-run", "--", "x")

    def env(self):
        script = 'echo "$A|$B|$HERE"'
        lines = self.out("-e", "A=1 2", "--env", "B=", "-e", "HERE", "--", "sh", "-c", script, env={"HERE": "mine"})
        assert lines == ["1 2||mine"], lines
        done = self.run("-e", "NOT_SET_ANYWHERE", "--", "x", check=2)
        assert "NOT_SET_ANYWHERE" in done.stderr, done.stderr

    def volume(self):
        data = self.bole.directory / "data"
        data.mkdir(mode=0o777)
        data.chmod(0o777)
        (data / "in").write_text("what is there\n")
        lines = self.out("-v", f"{data}:/data", "--", "sh", "-c", "cat /data/in; echo new > /data/out")
        assert lines == ["what is there"], lines
        assert (data / "out").read_text() == "new\n"
        script = "cat /data/in; echo no > /data/in || echo refused"
        lines = self.out("-v", f"{data}:/data:ro", "--", "sh", "-c", script)
        assert "what is there" in lines and "refused" in lines, lines  # two streams: in no certain order
        assert (data / "in").read_text() == "what is there\n"
        assert "--volume" in self.run("-v", "data:/data", "--", "x", check=2).stderr

    def publish(self):
        done = self.run("-p", "8080:80", "--", "true")
        assert "warning: task 'main': port 80 is not published" in done.stderr, done.stderr
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = f"import socket; s = socket.create_server(('127.0.0.1', {port})); s.accept()[0].sendall(b'hello')"
        done = self.run("-d", "-p", str(port), "--network", "host", "--name", "listens", "--", "python3", "-c", server)
        assert "warning" not in done.stderr, done.stderr

        def heard():
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                    return connection.makefile().read() == "hello"
            except OSError:
                return False
        self.bole.wait_until(heard, "the job is reached at its port", 30)
        assert self.bole.wait_for("listens")["exit_code"] == 0
        assert "--publish" in self.run("-p", "70000", "--", "x", check=2).stderr

    def detach(self):
        began = time.monotonic()
        done = self.run("-d", "--name", "apart", "--", "sh", "-c", "echo apart; sleep 2; exit 7")
        assert time.monotonic() - began < 60 and "apart" in done.stdout, done.stdout
        assert self.bole.run("attach", "apart").returncode == 7
        answer = json.loads(self.run("-d", "--json", "--", "true").stdout)
        assert answer["jobs"][0]["name"] == "true" and answer["jobs"][0]["existed"] is False, answer

    def names(self):
        for flag in ("-J", "--job-name", "--name"):
            self.run(flag, "so-named", "--", "true")
        assert [j["name"] for j in self.bole.get("/v1/jobs?all=1&name=so-named")["jobs"]] == ["so-named"] * 3
        self.run("--", "python3", "-c", "pass")
        assert self.bole.job("python3")["exit_code"] == 0

    def workdir(self):
        (self.place / "sub").mkdir()
        (self.place / "sub" / "file").write_text("below\n")
        assert self.out("-w", "sub", "--", "cat", "file") == ["below"]
        assert self.out("-w", "/usr", "--", "pwd") == ["/usr"]

    def files(self):
        (self.place / "come.txt").write_text("along\n")
        assert self.out("--", "cat", "come.txt") == ["along"]
        assert self.run("--no-upload", "--", "cat", "come.txt", check=1).stdout.strip().endswith("No such file or directory")

    def retries(self):
        script = 'echo attempt $BOLE_ATTEMPT; test $BOLE_ATTEMPT = 2'
        spec = self.run("--dry-run", "--retries", "1", "--", "sh", "-c", script)
        assert "sh would start" in spec.stdout, spec.stdout
        detail = json.loads(self.run("--json", "--retries", "0", "--", "sh", "-c", "exit 9", check=9).stdout)
        assert len(detail["attempts"]) == 1 and detail["exit_code"] == 9, detail

    def priority(self):
        detail = json.loads(self.run("--json", "--priority", "high", "--project", "vision", "--", "true").stdout)
        assert detail["summary"]["priority"] == 1000 and detail["summary"]["project"] == "vision", detail["summary"]

    def codes(self):
        assert self.run("--", "sh", "-c", "kill -KILL $$", check=137)
        assert self.run("--", "sh", "-c", "exit 42", check=42)
        assert self.run("--", "./nothing-there", check=125).stderr
        assert self.run(check=2).stderr.startswith("bole run: no command to run")

    def output(self):
        """In a file or a pipe the job's bytes pass as they are, protocol lines too."""
        lines = self.out("--", "printf", "a\\tb\\nBOLE progress epoch=1 epochs=2\\n\\033[31mred\\033[0m\\n")
        assert lines == ["a\tb", "BOLE progress epoch=1 epochs=2", "\x1b[31mred\x1b[0m"], lines


def main():
    with Bole(sys.argv[1]) as bole:
        bole.up()
        place = pathlib.Path(bole.directory) / "project"
        place.mkdir()
        flags = Flags(bole, place)
        tried = 0
        for name in ("ntasks", "nodes", "gpus", "cpus", "memory", "shm", "time_limit", "env", "volume", "publish", "detach",
                     "names", "workdir", "files", "retries", "priority", "codes", "output"):
            try:
                getattr(flags, name)()
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
            tried += 1
        assert bole.run("fsck", "--full", check=0).stdout.startswith("clean")
        print(f"{tried} groups of flags do what they say")
    return 0


if __name__ == "__main__":
    sys.exit(main())
