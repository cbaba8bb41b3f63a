"""A Bole of its own for one test: its home in a temporary folder, free ports, and nothing left afterwards."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIP = 77  # ctest: skipped

# Two processes of one rank, busy for SECONDS. Each says in hundredths of a second how long that was and what CPU time it had.
BUSY = r"""
busy() {
  read now rest < /proc/uptime
  begin=${now%.*}${now#*.}
  while [ $((${now%.*}${now#*.} - begin)) -lt $((SECONDS * 100)) ]; do
    i=0
    while [ $i -lt 500 ]; do i=$((i + 1)); done
    read now rest < /proc/uptime
  done
  read stat < /proc/self/stat
  set -- ${stat##*)}
  echo "busy $((${now%.*}${now#*.} - begin)) ${12} ${13}"
}
busy & busy; wait
"""


def check_cpu_limit(detail, lines, cpus):
    """Of a job with that limit that ran BUSY in one rank. Without a limit the two have one CPU each, or one between them."""
    note = detail["attempts"][-1]["note"]
    if "the CPU limit is not enforced" in note:
        print(f"SKIPPED: CPU limits on this machine: {note}")
        return
    said = [[int(word) for word in line.split()[1:]] for line in lines if line.startswith("busy ")]
    assert len(said) == 2, lines
    ticks = os.sysconf("SC_CLK_TCK")
    used = sum(user + system for _, user, system in said) / ticks
    share = used / max(wall for wall, _, _ in said) * 100
    print(f"cpus: {cpus} gave {share:.2f} of a CPU")
    assert 0.2 * cpus < share < 1.2 * cpus, f"{used} s of CPU time in {said}, with a limit of {cpus} CPUs"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=30):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Bole:
    def __init__(self, build, emulate="4xA100-PCIE-40GB", plain=False):
        self.build = pathlib.Path(build).resolve()
        self.program = self.build / "bin" / "bole"
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="bole-test-"))
        self.directory.chmod(0o755)
        self.home = self.directory / "home"
        self.emulate = emulate
        self.plain = plain
        self.server = None

    # ---- the server as a process -----------------------------------------------------------------------------------
    def command(self, *arguments):
        return [str(self.program), arguments[0], "--home", str(self.home), *arguments[1:]]

    def up(self):
        self.start()
        self.wait_until(self.answers, "the server answers", 30)

    def start(self):
        """Starts the server and does not wait for it."""
        arguments = ["--foreground", "--port", "0"]
        if self.emulate:
            arguments += ["--emulate", self.emulate]
        if self.plain:
            arguments.append("--plain")
        log = open(self.directory / "server.log", "ab")
        self.server = subprocess.Popen(self.command("up", *arguments), stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, start_new_session=True)
        log.close()

    def answers(self):
        if self.server.poll() is not None:
            raise AssertionError(f"the server ended with {self.server.returncode}:\n{self.log()}")
        try:
            self.get("/v1/status")
            return True
        except (OSError, http.client.HTTPException):
            return False

    def kill(self, sig=signal.SIGKILL):
        self.server.send_signal(sig)
        code = self.server.wait(60)
        self.server = None
        return code

    def log(self):
        try:
            return (self.directory / "server.log").read_text()[-4000:]
        except OSError:
            return ""

    def close(self):
        """Stops all that was started here, jobs first."""
        try:
            if self.server and self.server.poll() is None:
                self.request("POST", "/v1/shutdown?stop_jobs=1")
                self.server.wait(60)
        except Exception as error:  # the rest must go all the same
            print("closing:", error)
        if self.server and self.server.poll() is None:
            self.server.kill()
            self.server.wait()
        for pid in self.supervisors():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if os.environ.get("BOLE_KEEP"):
            print("kept:", self.directory)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            print(self.log(), file=sys.stderr)
        self.close()

    # ---- processes of this home ------------------------------------------------------------------------------------
    def supervisors(self):
        return self.processes(lambda argv: argv[0].endswith(b"bole-supervise"))

    def inits(self):
        return self.processes(lambda argv: argv[0].endswith(b"bole-init"))

    def processes(self, wanted):
        """Pids whose command line names this home and that `wanted` picks, as the host sees them."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if argv and any(str(self.home).encode() in a for a in argv) and wanted(argv):
                found.append(int(entry.name))
        return found

    # ---- the API ---------------------------------------------------------------------------------------------------
    def request(self, method, path, body=None):
        connection = UnixConnection(str(self.home / "bole.sock"))
        try:
            text = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json"} if text else {}
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        parsed = json.loads(data) if data else None
        if response.status >= 400:
            raise ApiError(response.status, parsed)
        return parsed

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body):
        return self.request("POST", path, body)

    def submit(self, spec, request_id="", directory="/tmp"):
        answer = self.post("/v1/jobs", {"spec": spec, "file_name": "test.yaml", "directory": directory,
                                        "request_id": request_id})
        return answer["jobs"][0]["id"]

    def job(self, job):
        return self.get(f"/v1/jobs/{job}")

    def stop(self, job):
        return self.post(f"/v1/jobs/{job}/stop", {})

    def lines(self, job, rank=None):
        page = self.get(f"/v1/jobs/{job}/logs" + (f"?rank={rank}" if rank is not None else ""))
        return [line["text"] for line in page["lines"]]

    def wait_for(self, job, states=("SUCCEEDED", "FAILED", "CANCELLED"), seconds=60):
        def reached():
            detail = self.job(job)
            return detail if detail["summary"]["state"] in states else None
        return self.wait_until(reached, f"job {job} becomes {' or '.join(states)}", seconds)

    # ---- the command line ------------------------------------------------------------------------------------------
    def run(self, *arguments, check=None, **options):
        done = subprocess.run([str(self.program), *arguments], capture_output=True, text=True,
                              env={**os.environ, "BOLE_HOME": str(self.home)}, timeout=120, **options)
        if check is not None and done.returncode != check:
            raise AssertionError(f"bole {' '.join(arguments)}: exit {done.returncode}, expected {check}\n"
                                 f"{done.stdout}\n{done.stderr}\n{self.log()}")
        return done

    @staticmethod
    def wait_until(condition, what, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.01)
        raise AssertionError(f"not within {seconds} s: {what}")
