"""Ceilings of this machine for a data loader: disk, page cache, loopback network, JPEG files.

One process measures each in a short time, with nothing else running. A loader should expect no
more; but a fast device that wants many requests at once gives more to many processes. The
memory's and the cache's rates are those of the microbenchmarks' kernels.
"""

import io
import logging
import mmap
import os
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from scaling_study.host import page_cache
from scaling_study.records.experiment import Ceiling

FILE_BYTES = 1 << 26
BLOCK_BYTES = 1 << 20
PAGE_BYTES = 4096
TIME_S = 0.4
IMAGE_PIXELS = 160
"""The width and height of the JPEG file that is decoded, as the workload's images have."""

Rate = Callable[[Path], tuple[float, str]]
"""Measures something of a file or of the machine; returns a rate, and how it was measured."""

log = logging.getLogger("microbenchmarks")


def measure(folder: Path) -> list[Ceiling]:
    """Measure all of them.

    Args:
        folder: on the disk that is measured; a file of 64 MiB is there meanwhile.
    """
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".ceiling-") as file:
        path = Path(file.name)
        with suppress(OSError):  # the disk is full
            _fill(path)
        return [_ceiling(path, *kind) for kind in KINDS]


def _ceiling(path: Path, name: str, title: str, unit: str, rate: Rate) -> Ceiling:
    log.info("%s", title)
    per_s: float | None
    try:
        per_s, note = rate(path)
    except (OSError, ImportError) as error:
        per_s, note = None, str(error)
    if per_s == 0:  # there is no file, since the disk is full
        per_s, note = None, "nothing could be read"
    return Ceiling(name=name, title=title, per_s=per_s, unit=unit, note=note)


def _rate(work: Callable[[], int]) -> float:
    """Return the rate of work that reports how much it has done (1/s)."""
    done, began = 0, time.perf_counter()
    while (taken_s := time.perf_counter() - began) < TIME_S:
        done += work()
    return done / taken_s


def _fill(path: Path) -> None:
    block = random.Random(0).randbytes(BLOCK_BYTES)  # noqa: S311 (what does not compress)
    with path.open("wb") as file:
        for _ in range(FILE_BYTES // BLOCK_BYTES):
            file.write(block)
        os.fsync(file.fileno())


def _page_cache(path: Path) -> tuple[float, str]:
    page_cache.load([path])
    buffer = bytearray(BLOCK_BYTES)
    with path.open("rb", buffering=0) as file:
        return _rate(lambda: file.readinto(buffer) or file.seek(0)), "one process, reads of 1 MiB"


def _in_order(path: Path) -> tuple[float, str]:
    return _from_disk(path, BLOCK_BYTES, list(range(0, FILE_BYTES, BLOCK_BYTES)))


def _at_random(path: Path) -> tuple[float, str]:
    places = random.Random(1).sample(range(0, FILE_BYTES, PAGE_BYTES), FILE_BYTES // PAGE_BYTES)  # noqa: S311
    return _from_disk(path, PAGE_BYTES, places)


def _from_disk(path: Path, size: int, places: list[int]) -> tuple[float, str]:
    """Read pieces of a file from the disk, each once, past the page cache where possible."""
    page_cache.drop([path])
    how = "one process, one read after the other"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:  # a file system that has no such reads
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        how += ", through the page cache, emptied before"
    buffer = mmap.mmap(-1, size)  # aligned, as such reads want it
    done, began = 0, time.perf_counter()
    try:
        for place in places:
            done += os.preadv(descriptor, [buffer], place)
            if time.perf_counter() - began > TIME_S:
                break
    finally:
        os.close(descriptor)
    return done / (time.perf_counter() - began), f"{how}; a virtual machine's host may cache"


def _loopback(_: Path) -> tuple[float, str]:
    block, buffer = bytes(BLOCK_BYTES), bytearray(BLOCK_BYTES)
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(server.getsockname()))
        there = stack.enter_context(server.accept()[0])
        threading.Thread(target=_send, args=(client, block), daemon=True).start()
        return _rate(lambda: there.recv_into(buffer)), "one connection, TCP"


def _send(client: socket.socket, block: bytes) -> None:
    try:
        while True:
            client.sendall(block)
    except OSError:  # the other side has seen enough
        return


def _decodes(_: Path) -> tuple[float, str]:
    from PIL import Image  # noqa: PLC0415 (few studies need it)

    packed = io.BytesIO()
    noise = random.Random(2).randbytes(3 * (IMAGE_PIXELS // 8) ** 2)  # noqa: S311
    small = Image.frombytes("RGB", (IMAGE_PIXELS // 8, IMAGE_PIXELS // 8), noise)
    small.resize((IMAGE_PIXELS, IMAGE_PIXELS)).save(packed, "JPEG", quality=90)

    def decode() -> int:
        packed.seek(0)
        with Image.open(packed) as image:
            image.load()
        return 1

    return _rate(decode), f"one core, {IMAGE_PIXELS} x {IMAGE_PIXELS} pixels, Pillow"


KINDS: tuple[tuple[str, str, str, Rate], ...] = (
    ("page_cache", "files in the page cache", "B", _page_cache),
    ("disk_in_order", "the disk, in order", "B", _in_order),
    ("disk_at_random", "the disk, 4 KiB at random", "B", _at_random),
    ("loopback", "the network on this machine (loopback)", "B", _loopback),
    ("jpeg", "JPEG files decoded", "files", _decodes),
)
