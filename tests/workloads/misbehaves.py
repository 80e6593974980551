"""Marked steps, and after some of them one thing that no script should do."""

import argparse
import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path

import torch

from scaling_study import mark
from size import scaled

MIB = 1024 * 1024

parser = argparse.ArgumentParser()
parser.add_argument("--how", default="")
parser.add_argument("--at", type=int, default=20, help="steps that go well")
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--member", type=int, default=1, help="0 does nothing wrong")
parser.add_argument("--beside", type=Path, help="a file that is named from where it was started")
args = parser.parse_args()


vector = torch.ones(scaled(1_000_000))


def work():
    return (vector * vector).sum()


def forks():
    """Three children that sleep for long, as daemons do: in sessions of their own, deaf."""
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                ignores()
                time.sleep(600)
            os._exit(0)


def trains():
    """A child that makes steps of its own for a moment, then goes on to the script's end."""
    global steps  # noqa: PLW0603 (a script counts like this)
    if os.fork() == 0:
        for _ in range(20):
            work()
            mark()
        steps = args.steps


def ignores():
    for name in ("TERM", "INT", "HUP", "QUIT", "USR1"):
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)


def closes():
    os.closerange(0, 4096)


def moves():
    os.chdir("/")


def prints():
    """100 MB, in lines."""
    for _ in range(100):
        sys.stdout.write(("x" * 99 + "\n") * 10_000)
    sys.stdout.flush()


def leaves():
    os._exit(0)


def exits():
    sys.exit(0)


def segfaults():
    ctypes.string_at(0)


def hangs():
    """In C, with the interpreter's lock."""
    ctypes.PyDLL(None).pause()


def eats():
    """Memory, until the kernel kills."""
    kept = []
    while True:
        kept.append(b"x" * (64 * MIB))


def starves():
    """Memory, until there is no more: 300 MiB beside what it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit_bytes = pages * resource.getpagesize() + 300 * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, resource.RLIM_INFINITY))
    eats()


steps = 0
if args.beside is not None:
    args.beside.read_bytes()
while steps < args.steps:
    work()
    mark()
    steps += 1
    if steps == args.at and args.member and args.how:
        globals()[args.how]()
