#!/usr/bin/env python3
"""The shell blocks of docs/api.md, each run by bash against a real server as the page shows it."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from bole import SKIP, Bole

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "api.md"


def blocks():
    text = PAGE.read_text()
    for match in re.finditer(r"^```sh\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)


def main():
    for tool in ("curl", "jq"):
        if not shutil.which(tool):
            print(f"{tool} is not installed")
            return SKIP
    with Bole(sys.argv[1]) as bole:
        bole.up()
        port = re.search(r"http://127\.0\.0\.1:(\d+)", bole.log()).group(1)
        environment = {**os.environ, "BOLE_HOME": str(bole.home), "BOLE_PORT": port,
                       "PATH": f"{bole.program.parent}:{os.environ['PATH']}"}
        count = 0
        for line, block in blocks():
            place = bole.directory / f"block-{line}"
            place.mkdir()
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=place, env=environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"{PAGE.name}:{line}: exit {done.returncode}\n{block}\n{done.stdout}\n{done.stderr}"
            count += 1
        assert count >= 8, f"only {count} blocks"
        print(f"{count} blocks did what the page says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
