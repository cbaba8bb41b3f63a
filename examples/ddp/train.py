#!/usr/bin/python3
"""Data-parallel training with PyTorch, as small as it can be and still be whole.

Runs alone, under torchrun, or as a gang in Bole (bole.yaml): RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say where this
process stands. Gradients are averaged by DistributedDataParallel over Gloo, so it needs no GPU. See README.md.
"""
import argparse
import copy
import hashlib
import io
import json
import os
import re
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SIDE = 12
GLYPHS = (  # 5 x 7 points, row by row
    "01110 10001 10011 10101 11001 10001 01110", "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111", "11110 00001 00001 01110 00001 00001 11110",
    "00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 00100 00100 00100",
    "01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00010 01100")
DIGEST = hashlib.sha256().digest_size


def say(text):
    """One write for whole lines; also from a signal handler that interrupts another say(), where print() may not."""
    os.write(1, (text + "\n").encode())


def make_digits(count, seed):
    """`count` pictures of digits at random places, with noise, and their labels; the same on every rank."""
    random = torch.Generator().manual_seed(seed)
    glyphs = torch.tensor([[[float(c) for c in row] for row in text.split()] for text in GLYPHS])
    labels = torch.randint(10, (count,), generator=random)
    rows = torch.randint(1, 4, (count,), generator=random)
    columns = torch.randint(2, 5, (count,), generator=random)
    images = 0.25 * torch.randn(count, SIDE, SIDE, generator=random)
    for image, label, row, column in zip(images, labels, rows, columns):
        image[row:row + 7, column:column + 5] += glyphs[label]
    return images.view(count, SIDE * SIDE), labels


class Checkpoints:
    """Files DIR/epoch-NNNN.pt, complete or absent: temporary name, fsync, rename; a SHA-256 at the end."""

    def __init__(self, directory):
        self.directory = directory

    def save(self, state):
        os.makedirs(self.directory, exist_ok=True)
        buffer = io.BytesIO()
        torch.save(state, buffer)
        data = buffer.getvalue()
        path = os.path.join(self.directory, f"epoch-{state['epoch']:04d}.pt")
        with open(path + ".tmp", "wb") as file:
            file.write(data + hashlib.sha256(data).digest())
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".tmp", path)
        directory = os.open(self.directory, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        say(f"BOLE checkpoint path={path} epoch={state['epoch']}")

    def newest(self):
        """The newest complete one, or None."""
        names = os.listdir(self.directory) if os.path.isdir(self.directory) else []
        for name in sorted((n for n in names if re.fullmatch(r"epoch-\d{4,}\.pt", n)), reverse=True):
            path = os.path.join(self.directory, name)
            with open(path, "rb") as file:
                data = file.read()
            if hashlib.sha256(data[:-DIGEST]).digest() == data[-DIGEST:]:
                return torch.load(io.BytesIO(data[:-DIGEST]))
            print(f"skipping checkpoint {path}: it is torn or damaged", file=sys.stderr, flush=True)
        return None


class Training:
    def __init__(self, options, rank, world_size):
        self.options, self.rank, self.world_size = options, rank, world_size
        self.checkpoints = Checkpoints(options.checkpoint_dir) if options.checkpoint_dir else None
        torch.manual_seed(options.seed)  # the same first weights and the same order of pictures everywhere
        self.images, self.labels = make_digits(options.samples, options.seed)
        self.tests = make_digits(1000, options.seed + 1)
        self.network = nn.Sequential(nn.Linear(SIDE * SIDE, 128), nn.ReLU(), nn.Linear(128, 10))
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=options.lr)
        self.epoch, self.loss, self.kept, self.saved_epoch = 0, 0.0, None, 0
        self.resume()
        # Takes the weights of rank 0, so that all ranks begin alike.
        self.model = DistributedDataParallel(self.network) if world_size > 1 else self.network

    def resume(self):
        """Rank 0 finds the checkpoint and the others get it from there: they need no common file system."""
        found = [self.checkpoints.newest() if self.checkpoints and self.rank == 0 else None]
        if self.world_size > 1:
            dist.broadcast_object_list(found, src=0)
        if found[0] is None:
            return
        self.network.load_state_dict(found[0]["network"])
        self.optimizer.load_state_dict(found[0]["optimizer"])
        self.epoch, self.loss, self.saved_epoch = found[0]["epoch"], found[0]["loss"], found[0]["epoch"]
        if self.rank == 0:
            say(f"resumed after epoch {self.epoch} of {self.options.epochs}")

    def save(self):
        """Saves the last whole epoch; rank 0 alone, for all have the same."""
        if self.rank == 0 and self.checkpoints and self.kept and self.kept["epoch"] != self.saved_epoch:
            self.checkpoints.save(self.kept)
            self.saved_epoch = self.kept["epoch"]

    def run(self):
        while self.epoch < self.options.epochs:
            begun = time.monotonic()
            self.train_epoch(self.epoch + 1)
            accuracy = self.accuracy()
            time.sleep(max(0.0, self.options.sleep_ms / 1000 - (time.monotonic() - begun)))
            if self.rank == 0:
                rate = self.options.samples / (time.monotonic() - begun)
                say(f"epoch {self.epoch:2d}/{self.options.epochs}  loss {self.loss:.4f}  test accuracy {accuracy:.4f}\n"
                    f"BOLE progress epoch={self.epoch} epochs={self.options.epochs} loss={self.loss:.4f} "
                    f"accuracy={accuracy:.4f} samples_per_second={rate:.0f}")
            if self.epoch % self.options.checkpoint_every == 0 or self.epoch == self.options.epochs:
                self.save()
        self.finish()

    def train_epoch(self, epoch):
        # One order for all ranks, new in each epoch; each takes its part of every batch.
        order = torch.randperm(len(self.labels), generator=torch.Generator().manual_seed(self.options.seed + epoch))
        batches = order.split(self.options.batch)
        total = torch.zeros(1)
        for batch in batches:
            own = batch[self.rank::self.world_size]
            loss = nn.functional.cross_entropy(self.model(self.images[own]), self.labels[own])
            self.optimizer.zero_grad()
            loss.backward()  # averages the gradients over the ranks
            self.optimizer.step()
            total += loss.detach()
        if self.world_size > 1:
            dist.all_reduce(total)
        self.epoch, self.loss = epoch, total.item() / (len(batches) * self.world_size)
        self.kept = copy.deepcopy({"epoch": epoch, "loss": self.loss, "network": self.network.state_dict(),
                                   "optimizer": self.optimizer.state_dict()})

    @torch.no_grad()
    def accuracy(self):
        images, labels = self.tests
        return (self.network(images).argmax(dim=1) == labels).float().mean().item()

    def finish(self):
        weights = hashlib.sha256()
        for parameter in self.network.parameters():
            weights.update(parameter.detach().numpy().tobytes())
        mine, everyone = weights.hexdigest()[:16], [None] * self.world_size
        if self.world_size > 1:
            dist.all_gather_object(everyone, mine)
            if set(everyone) != {mine}:
                sys.exit(f"rank {self.rank}: the ranks ended with different weights: {everyone}")
        say(f"rank {self.rank} of {self.world_size}: done after epoch {self.epoch}, weights {mine}")
        if self.rank == 0 and self.options.result:
            with open(self.options.result, "w", encoding="utf-8") as file:
                json.dump({"epochs": self.epoch, "loss": self.loss, "accuracy": self.accuracy(), "weights": mine}, file)


def read_options():
    parser = argparse.ArgumentParser(description="Trains a small network to read generated digits.")
    parser.add_argument("--epochs", type=int, default=10, help="in all, those before a resume included")
    parser.add_argument("--checkpoint-dir", default=os.environ.get("BOLE_CHECKPOINT_DIR", ""),
                        help="write checkpoints here and resume from the newest complete one")
    parser.add_argument("--checkpoint-every", type=int, default=5, help="epochs between checkpoints")
    parser.add_argument("--samples", type=int, default=8192, help="training pictures of all ranks together")
    parser.add_argument("--batch", type=int, default=256, help="pictures a step, of all ranks together")
    parser.add_argument("--lr", type=float, default=0.005, help="learning rate")
    parser.add_argument("--seed", type=int, default=1, help="decides pictures, first weights and order")
    parser.add_argument("--timeout", type=int, default=60, help="seconds to wait for other ranks")
    parser.add_argument("--sleep-ms", type=int, default=0, help="an epoch takes at least so long, for watching")
    parser.add_argument("--result", default="", help="write loss, accuracy and a hash of the weights here")
    return parser.parse_args()


def main():
    options = read_options()
    world_size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if options.samples % options.batch or options.batch % world_size:
        sys.exit(f"--samples ({options.samples}) must be a multiple of --batch ({options.batch}), and that of the "
                 f"number of ranks ({world_size})")
    torch.set_num_threads(1)  # the ranks share the CPUs
    if world_size > 1:
        if os.environ.get("MASTER_ADDR", "").startswith("127."):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # or Gloo looks this host's name up
        dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout))
    training = Training(options, rank, world_size)

    def stop(number, _frame):
        training.save()
        os._exit(128 + number)  # other ranks may be gone: nothing is taken down in an orderly way

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    training.run()


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        # Mostly Gloo, when another rank has ended. A stop of the whole gang may be why: give its signal a moment.
        print(f"rank {os.environ.get('RANK', '0')}: {error}", file=sys.stderr, flush=True)
        time.sleep(0.5)
        os._exit(1)
