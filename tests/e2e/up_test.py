#!/usr/bin/env python3
"""What `bole up` says of the machine, and what it keeps from one start to the next."""
import os
import shutil
import sys
import time

from bole import Bole


def notes(bole):
    return bole.get("/v1/status")["notes"]


def emulation_is_kept(bole):
    """Whoever comes back after a crash and types `bole up` finds the GPUs that were there before."""
    bole.emulate = "2x[8xT4]"
    bole.up()
    before = [(node["name"], node["gpus"]) for node in bole.get("/v1/nodes")["nodes"]]
    assert len(before) == 2, before
    assert any("2 nodes of 8 x Tesla T4" in note for note in notes(bole)), notes(bole)
    bole.kill()
    bole.emulate = None
    bole.up()
    assert [(node["name"], node["gpus"]) for node in bole.get("/v1/nodes")["nodes"]] == before
    assert any("as at the last start: 2 nodes of 8 x Tesla T4" in note for note in notes(bole)), notes(bole)
    other = bole.run("up", "--emulate", "1xT4", "--port", "0", check=None)
    assert other.returncode != 0, other
    bole.kill()
    bole.up()
    assert len(bole.get("/v1/nodes")["nodes"]) == 2, "one that was refused changes nothing"
    bole.kill()


def plain_says_so(bole):
    bole.plain = True
    bole.up()
    assert bole.get("/v1/status")["sandbox"] == "plain"
    assert any(note.startswith("no sandbox:") for note in notes(bole)), notes(bole)
    assert "no sandbox:" in bole.log(), bole.log()
    bole.kill()
    bole.plain = False


def without_its_programs_it_does_not_start(bole):
    alone = bole.directory / "alone"
    alone.mkdir()
    shutil.copy2(bole.program, alone / "bole")
    program, bole.program = bole.program, alone / "bole"
    done = bole.run("up", "--foreground", "--port", "0", check=None)
    bole.program = program
    assert done.returncode == 6, done
    assert "bole-supervise" in done.stderr and "install all of Bole" in done.stderr, done.stderr


STEPS = (emulation_is_kept, plain_says_so, without_its_programs_it_does_not_start)


def main():
    if os.path.exists("/dev/nvidiactl"):
        print("skipped: a real driver is here, nothing is emulated unasked")
        return 77
    for step in STEPS:
        begun = time.monotonic()
        with Bole(sys.argv[1]) as bole:
            step(bole)
        print(f"{step.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    return 0


sys.exit(main())
