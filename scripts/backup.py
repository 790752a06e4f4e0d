"""A backup as many make one: `tar` of files, read from the disk in order and sent away; for scripts that measure what is beside it.

What tar sends is counted and dropped. The files are read again and again, never from memory: the page cache forgets each before tar comes to it.
"""

import os
import subprocess
import threading
import time

from emulated import run

FILE_BYTES = 64 << 20
PIECE_BYTES = 1 << 20


def make_archive(folder, size_bytes, rest_bytes):
    """Files of bytes that no disk can leave out, `size_bytes` in all, in the folder of a file system of its own; their paths.

    Another one, of which nothing is written or read, takes `rest_bytes` behind them, so that what comes next lies as far away as on a disk in
    use. Room is taken before anything is written: so two file systems of one size have all of it in the same places.
    """
    paths = [os.path.join(folder, f"archive-{number:03}") for number in range(-(-size_bytes // FILE_BYTES))]
    sizes = [min(FILE_BYTES, size_bytes - number * FILE_BYTES) for number in range(len(paths))]
    for path, size in [*zip(paths, sizes), (os.path.join(folder, "archive-rest"), rest_bytes)]:
        run("fallocate", "--length", size, path)
    for path, size in zip(paths, sizes):
        with open(path, "r+b", buffering=0) as file:
            for _ in range(size // PIECE_BYTES):
                file.write(os.urandom(PIECE_BYTES))
            os.fsync(file.fileno())
    return paths


class Backup:
    """A backup of `paths` that goes on as long as it is entered. `before` stands in front of tar's command."""

    def __init__(self, paths, before=()):
        self.paths, self.before = paths, before
        self.bytes, self.is_wanted = 0, True
        self.has_begun = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)

    def __enter__(self):
        self.reader.start()
        if not self.has_begun.wait(60):
            self.is_wanted = False
            raise SystemExit(f"backup: expected tar to read {self.paths[0]}, found nothing within a minute")
        return self

    def __exit__(self, *_):
        self.is_wanted = False
        self.reader.join(60)

    def read(self):
        while self.is_wanted:
            self.forget()
            tar = subprocess.Popen(
                [*self.before, "tar", "--create", "--file=-", "--blocking-factor=2048", "--absolute-names", *self.paths],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            while self.is_wanted and (piece := os.read(tar.stdout.fileno(), PIECE_BYTES)):
                self.bytes += len(piece)
                self.has_begun.set()
            tar.stdout.close()
            if not self.is_wanted:
                tar.terminate()
            # `since` tells of a tar that failed: nobody reads any more.
            if tar.wait() != 0:
                return

    def forget(self):
        for path in self.paths:
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)

    def moment(self):
        return self.bytes, time.monotonic()

    def since(self, before):
        """MB/s since a `moment`."""
        (bytes_before, at_before), (bytes_after, at_after) = before, self.moment()
        if not self.reader.is_alive():
            raise SystemExit(f"backup: expected tar to go on with {self.paths[0]}, found that it failed")
        return (bytes_after - bytes_before) / 1e6 / (at_after - at_before)
