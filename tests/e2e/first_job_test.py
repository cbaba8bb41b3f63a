#!/usr/bin/env python3
"""The main job on real input: the digits gang of four, through the command line, as the README shows it."""
import re
import sys

from bole import Bole


def main():
    with Bole(sys.argv[1]) as bole:
        bole.up()
        done = bole.run("submit", "--follow", str(bole.build / "examples/digits/bole.yaml"), check=0)
        print(done.stdout[-3000:])
        losses = [float(x) for x in re.findall(r"^\[0\].*epoch +\d+/\d+ +loss ([0-9.]+)", done.stdout, re.M)]
        assert len(losses) == 20, f"20 epochs are seen, not {len(losses)}"
        assert losses[-1] < losses[0] / 2, f"the loss falls: {losses}"
        assert all(f"[{rank}]" in done.stdout for rank in range(4)), "every rank is heard"
        detail = bole.job("digits")
        assert detail["summary"]["state"] == "SUCCEEDED"
        gpus = sorted(g for attempt in detail["attempts"] for rank in attempt["ranks"] for g in rank["gpus"])
        assert gpus == [0, 1, 2, 3], gpus
        assert detail["checkpoint"]["epoch"] == 20, detail["checkpoint"]
        assert detail["gpu_milliseconds"] > 4000
        assert "SUCCEEDED" in bole.run("ps", "--all", check=0).stdout
        assert bole.run("fsck", "--full", check=0).stdout.startswith("clean")
    return 0


if __name__ == "__main__":
    sys.exit(main())
