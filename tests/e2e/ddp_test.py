#!/usr/bin/env python3
"""PyTorch DistributedDataParallel in a gang: the example as it is, started directly, and by torchrun, unchanged."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

from bole import SKIP, Bole

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch
# Debian 12's torchrun fails with its own default of --redirects and --tee under Python 3.11 (an IntFlag of 0 is not iterated).
TORCHRUN = "torchrun --redirects 0:1,1:1 --tee 0:1,1:1 --log_dir torchrun-logs"
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/ddp"
SMALL = "--epochs 4 --samples 1536 --batch 96 --checkpoint-every 2 --result result.json"


def train(bole, name, spec):
    directory = bole.directory / name
    directory.mkdir()
    shutil.copy(EXAMPLE / "train.py", directory)
    (directory / "bole.yaml").write_text(spec)
    done = bole.run("submit", "--follow", str(directory / "bole.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    detail = bole.job(name)
    result = json.loads(pathlib.Path(detail["working_directory"], "result.json").read_text())
    print(name, result)
    return detail, done.stdout, result


def example(bole):
    """The file that people are pointed to, from where it lies, to its last epoch."""
    done = bole.run("submit", "--follow", str(EXAMPLE / "bole.yaml"), check=0)
    detail = bole.job("ddp")
    assert detail["summary"]["state"] == "SUCCEEDED" and len(detail["attempts"]) == 1, detail
    assert all(f"rank {rank} of 4: done after epoch 10" in done.stdout for rank in range(4)), done.stdout
    accuracies = [float(x) for x in re.findall(r"epoch +\d+/10 .*test accuracy ([0-9.]+)", done.stdout)]
    assert len(accuracies) == 10 and accuracies[-1] > 0.9, accuracies
    assert len(set(re.findall(r"weights (\w+)", done.stdout))) == 1, "all ranks end alike"
    assert detail["checkpoint"]["epoch"] == 10, detail["checkpoint"]
    print(f"examples/ddp/bole.yaml: accuracy {accuracies[0]} to {accuracies[-1]}")


def main():
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        print("skipped: no PyTorch here (apt install python3-torch)")
        return SKIP
    with Bole(sys.argv[1]) as bole:
        bole.up()
        example(bole)
        detail, shown, direct = train(bole, "direct", f"""
name: direct
tasks:
  - {{name: w, replicas: 3, gpus: 1, cpus: 0.5, command: {PYTHON} train.py {SMALL}}}
checkpoint: {{path: checkpoints, every: 2}}
""")
        assert detail["checkpoint"]["epoch"] == 4, detail["checkpoint"]
        assert all(f"rank {rank} of 3: done" in shown for rank in range(3)), shown
        # Two replicas of two GPUs each: torchrun starts a process for each GPU, four in all.
        detail, shown, spread = train(bole, "torchrun", f"""
name: torchrun
tasks:
  - {{name: w, replicas: 2, gpus: 2, cpus: 0.5, command: '{TORCHRUN} train.py {SMALL}'}}
""")
        assert all(f"rank {rank} of 4: done" in shown for rank in range(4)), shown
        assert direct["epochs"] == spread["epochs"] == 4
        assert direct["accuracy"] > 0.7 and spread["accuracy"] > 0.7, "a guess is right in one of ten"
    return 0


if __name__ == "__main__":
    sys.exit(main())
