#!/usr/bin/env python3
"""What `make run` does after it has built: the cloud starts and the first job runs to its end; once more works too."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "first-run"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="bole-test-") as directory:
        os.chmod(directory, 0o755)
        environment = {**os.environ, "BOLE_HOME": f"{directory}/home", "BOLE_PORT": str(port)}
        try:
            for number in (1, 2):
                done = subprocess.run([str(SCRIPT), str(build)], env=environment, capture_output=True, text=True,
                                      timeout=120)
                assert done.returncode == 0, f"run {number}: {done.returncode}\n{done.stdout}\n{done.stderr}"
                assert "SUCCEEDED" in done.stdout + done.stderr and "epoch-0020.ckpt" in done.stdout + done.stderr
                assert ("is up already" in done.stdout) == (number == 2), done.stdout
        finally:
            subprocess.run([str(build / "bin" / "bole"), "down", "--stop-jobs"], env=environment)
    return 0


if __name__ == "__main__":
    sys.exit(main())
