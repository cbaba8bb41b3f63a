"""What a disk with a write cache holds after a power loss.

QEMU's blklogwrites keeps every write and flush of a disk in order. All that stood before the last flush is on the
disk, and so is what was written with FUA. Of what came later a real disk may have kept any part, in any order: here
each block of 4 KiB of it is kept with a given chance. Format of the log: Linux,
Documentation/admin-guide/device-mapper/log-writes.rst.
"""
import os
import struct

MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD = 1, 2, 4
BLOCK = 4096


class Write:
    def __init__(self, offset, data, flags):
        self.offset, self.data, self.flags = offset, data, flags


def read_log(path):
    """The writes in order; a Write without data is a flush."""
    with open(path, "rb") as log:
        magic, version, _, sector = struct.unpack("<QQQI", log.read(28))
        if magic != MAGIC or version != 1:
            raise ValueError(f"{path} is no log of writes")
        end = os.fstat(log.fileno()).st_size
        at = sector
        while at + sector <= end:
            log.seek(at)
            first, count, flags, _ = struct.unpack("<QQQQ", log.read(32))
            if (first, count, flags) == (0, 0, 0):
                return  # the end: nothing was written here yet
            at += sector
            data = b""
            if not flags & DISCARD and count:
                log.seek(at)
                data = log.read(count * sector)
                at += count * sector
            yield Write(first * sector, data, flags)


def lose_power(before, log, image, chance, rng):
    """Makes of the disk as it was `before` and the log of what was written since what a loss leaves, in `image`
    (which was written to all along). Returns how many blocks were durable, kept and lost."""
    writes = list(read_log(log))
    flushes = [index for index, write in enumerate(writes) if write.flags & FLUSH]
    last = flushes[-1] if flushes else -1
    durable = kept = lost = 0
    # Undo and redo only what the log names: the rest of the image is as it was.
    with open(before, "rb") as old, open(image, "r+b") as new:
        for write in writes[last + 1:]:
            old.seek(write.offset)
            new.seek(write.offset)
            new.write(old.read(len(write.data)).ljust(len(write.data), b"\0"))
        for index, write in enumerate(writes):
            if index <= last or write.flags & FUA:
                durable += len(write.data) // BLOCK
                new.seek(write.offset)
                new.write(write.data)
                continue
            for at in range(0, len(write.data), BLOCK):
                if rng.random() < chance:
                    kept += 1
                    new.seek(write.offset + at)
                    new.write(write.data[at:at + BLOCK])
                else:
                    lost += 1
    return durable, kept, lost
