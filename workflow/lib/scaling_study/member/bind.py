"""Give this process its CPUs, memory policy and environment, then become the command.

``python bind.py --cpus 0-3 --mempolicy bind:0 --env OMP_NUM_THREADS=1 -- python train.py``

Affinity (sched_setaffinity(2)) and memory policy (set_mempolicy(2)) both survive ``execve``, so
everything that the command allocates and every thread that it starts is placed from its first
instruction on. The preloads are part of the new environment and never apply to this process.
The module needs nothing but the standard library, and py-libnuma where a policy is asked for.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, sig: int = signal.SIGKILL) -> None:
    """Have the kernel send ``sig`` to this process when its parent ends (prctl(2)).

    Args:
        parent: the parent's process id; if it is gone already, this process ends at once.
        sig: the signal to get.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(sig)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    if os.getppid() != parent:
        os.kill(os.getpid(), sig)


def parse_ids(text: str) -> list[int]:
    """Turn ``"0-2,8"`` into ``[0, 1, 2, 8]``."""
    ids: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ids.extend(range(int(first), int(last or first) + 1))
    return ids


def split_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """Split ``OPTIONS -- COMMAND``; argparse treats ``--`` differently from version to version."""
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]


def apply(cpus: str | None, mempolicy: str) -> None:
    """Bind the calling process.

    Args:
        cpus: a CPU list such as ``"0-3,8"``, or None to leave the affinity alone.
        mempolicy: ``"default"``, ``"bind:NODES"`` or ``"interleave:NODES"``.

    Raises:
        OSError: the kernel refuses a CPU or a node.
        ValueError: the policy's name is unknown.
    """
    if cpus is not None:
        wanted = set(parse_ids(cpus))
        os.sched_setaffinity(0, wanted)
        # The kernel is content with one CPU of the list that can be used.
        if refused := wanted - os.sched_getaffinity(0):
            raise ValueError(f"CPUs {sorted(refused)} cannot be used")
    mode, _, nodes = mempolicy.partition(":")
    if mode == "default":
        return
    # py-libnuma loads libnuma.so.1 when it is imported: only who asks for a policy needs it.
    from numa import memory  # noqa: PLC0415

    setters = {"bind": memory.set_membind_nodes, "interleave": memory.set_interleave_nodes}
    if mode not in setters:
        raise ValueError(f"memory policy {mempolicy!r}: use default, bind:NODES, interleave:NODES")
    ids = parse_ids(nodes)
    # libnuma answers an unknown node with a null pointer, and py-libnuma would hand it on.
    if unknown := set(ids) - set(memory.get_allocation_allowed_nodes()):
        raise ValueError(f"nodes {sorted(unknown)} cannot be used")
    setters[mode](*ids)


def read_variables(path: str) -> dict[str, str]:
    """Read variables from a JSON file; what is wrong with it ends this process."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 (pathlib takes 10 ms to import)
            return {str(name): str(value) for name, value in json.load(file).items()}
    except OSError as error:
        sys.exit(f"bind: {path}: {error.strerror}")
    except (ValueError, AttributeError):  # no error quotes it: a piece of it may be a key
        sys.exit(f"bind: {path} is no JSON object of variables")


def main(argv: list[str]) -> None:
    """Parse the command line, bind, and exec."""
    parser = argparse.ArgumentParser(description="Bind this process, then become the command.")
    parser.add_argument("--cpus", help="CPU list, such as 0-3,8")
    parser.add_argument("--mempolicy", default="default", help="default, bind:0 or interleave:0-1")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--env-file", metavar="JSON", help="variables that no command line may show, by name"
    )
    parser.add_argument(
        "--keep-env",
        action="append",
        metavar="NAME",
        help="inherit only the variables so named, and drop all others",
    )
    parser.add_argument("--die-with", type=int, metavar="PID", help="end when this parent ends")
    parser.add_argument("--die-signal", default="KILL", help="by this signal (default KILL)")
    arguments, command = split_command(argv)
    options = parser.parse_args(arguments)
    if not command:
        parser.error("no command after --")
    if options.die_with is not None:
        die_with_parent(options.die_with, signal.Signals[f"SIG{options.die_signal}"])
    try:
        apply(options.cpus, options.mempolicy)
    except (OSError, ValueError, ImportError, AttributeError) as error:
        # AttributeError: py-libnuma was imported where there is no libnuma.so.1.
        sys.exit(f"bind: cpus {options.cpus}, memory policy {options.mempolicy}: {error}")
    inherited = os.environ if options.keep_env is None else options.keep_env
    environment = {name: os.environ[name] for name in inherited if name in os.environ}
    environment.update(item.split("=", 1) for item in options.env)
    if options.env_file is not None:
        environment.update(read_variables(options.env_file))
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 (no shell is wanted)
    except OSError as error:
        sys.exit(f"bind: cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
