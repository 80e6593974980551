"""Give this process its CPUs, memory policy and environment, then become the command.

``python bind.py --cpus 0-3 --mempolicy bind:0 --env OMP_NUM_THREADS=1 -- python train.py``

With ``--ranks 2`` it stays, and starts the command as torchrun does: as a group of two cooperating
processes on this machine, with all of torchrun's variables, on the loopback interface and on a
fresh port. They share its CPUs and policy. A process that fails ends its group.

Affinity (sched_setaffinity(2)) and memory policy (set_mempolicy(2)) both survive ``execve``, so
everything that the command allocates and every thread that it starts is placed from its first
instruction on. The preloads are part of the new environment and never apply to this process.
The module needs nothing but the standard library, and py-libnuma if a policy is asked for.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import resource
    from collections.abc import Callable, Iterable

PR_SET_PDEATHSIG = 1

# set_mempolicy(2) by its number: only libnuma has a function for it.
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "ppc64le": 261, "s390x": 270}
MPOL_DEFAULT, MPOL_PREFERRED, MPOL_PREFERRED_MANY = 0, 1, 5
LONG_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)

# Time for the other ranks to end by themselves after one has failed; then they are killed.
GRACE_S = 2

# Ports that need no privilege. This many below those that the kernel assigns are enough.
FIRST_PORT, LAST_PORT = 1024, 65_536
PORTS = 16_384


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


def handle(signums: Iterable[int], handler: Callable[[int, object], object]) -> None:
    """Install a handler, except for signals that this process was started to ignore (nohup)."""
    for signum in signums:
        if signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, handler)


def unwatchable() -> str:
    """Return why this system cannot report the end of a process; empty if it can."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return f"no pidfd_open ({error}): use Linux 5.3 or newer, and a Python built for it"
    return ""


def signal_group(leader: int, signum: int) -> None:
    """Send a signal to a group of processes, if there still is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signum)


def reap(leader: int) -> tuple[int, resource.struct_rusage]:
    """Wait for a child that leads a group; end what it leaves there if it has failed.

    Such processes would take CPU time from the next one.

    Returns:
        Its status, as subprocess gives it, and what it and its own children have used.
    """
    info = os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)
    # The child is not reaped yet, so the group's number is still its own.
    if info is None or info.si_code != os.CLD_EXITED or info.si_status != 0:
        signal_group(leader, signal.SIGKILL)
    _, status, usage = os.wait4(leader, 0)
    return os.waitstatus_to_exitcode(status), usage


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
        mempolicy: ``"default"``, ``"bind:NODES"``, ``"interleave:NODES"`` or ``"prefer:NODES"``.

    Raises:
        OSError: the kernel refuses the CPUs or the policy.
        ValueError: a CPU or a node cannot be used, or the policy's name is unknown.
    """
    if cpus is not None:
        wanted = set(parse_ids(cpus))
        os.sched_setaffinity(0, wanted)
        # The kernel accepts a list if one CPU of it can be used.
        if refused := wanted - os.sched_getaffinity(0):
            raise ValueError(f"CPUs {sorted(refused)} cannot be used")
    mode, _, nodes = mempolicy.partition(":")
    if mode == "default":
        # This drops a policy that numactl has set for the caller. Without NUMA there is none.
        with contextlib.suppress(OSError):
            set_mempolicy(MPOL_DEFAULT, [])
        return
    if mode == "prefer":
        ids = parse_ids(nodes)
        set_mempolicy(MPOL_PREFERRED_MANY if len(ids) > 1 else MPOL_PREFERRED, ids)
        return
    # py-libnuma loads libnuma.so.1 when it is imported, which only a policy needs.
    from numa import memory  # noqa: PLC0415

    setters = {"bind": memory.set_membind_nodes, "interleave": memory.set_interleave_nodes}
    if mode not in setters:
        known = ", ".join(f"{each}:NODES" for each in (*setters, "prefer"))
        raise ValueError(f"memory policy {mempolicy!r}: use default, {known}")
    ids = parse_ids(nodes)
    # For an unknown node libnuma returns a null pointer, which py-libnuma would pass on.
    if unknown := set(ids) - set(memory.get_allocation_allowed_nodes()):
        raise ValueError(f"nodes {sorted(unknown)} cannot be used")
    setters[mode](*ids)


def set_mempolicy(mode: int, nodes: list[int]) -> None:
    """Set this process's memory policy (set_mempolicy(2)).

    Raises:
        OSError: the kernel refuses it: several preferred nodes need Linux 5.15.
    """
    number = SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        raise OSError(f"the number of set_mempolicy on {os.uname().machine} is not known")
    mask = (ctypes.c_ulong * (max(nodes, default=0) // LONG_BITS + 1))()
    for node in nodes:
        mask[node // LONG_BITS] |= 1 << node % LONG_BITS
    # set_mempolicy(2) reads one bit less than this number says.
    bits = ctypes.c_ulong(len(mask) * LONG_BITS + 1)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), mode, mask if nodes else None, bits) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"memory policy of nodes {nodes}: {os.strerror(error)}")


def enter_fresh_folder(parent: str) -> str:
    """Change to a new folder with links to all that the present one holds; return its path.

    Args:
        parent: the folder in which it is made.
    """
    source = os.getcwd()  # noqa: PTH109 (this module imports no pathlib)
    folder = os.path.join(parent, f"start-{os.getpid()}-{time.monotonic_ns()}")  # noqa: PTH118
    os.mkdir(folder)  # noqa: PTH102
    for name in os.listdir(source):  # noqa: PTH208
        os.symlink(os.path.join(source, name), os.path.join(folder, name))  # noqa: PTH118, PTH211
    os.chdir(folder)
    return folder


def free_port() -> int:
    """Return a free port of this machine, if possible one that the kernel assigns to nobody.

    Rank 0 takes it seconds later. Meanwhile other groups look for theirs, and the kernel assigns
    several ports of its own choice to every rank (ip_local_port_range in ip(7)).
    """
    import socket  # noqa: PLC0415 (takes longer to import than all the rest)

    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:  # noqa: PTH123
        first = int(file.read().split()[0])
    least, most = max(FIRST_PORT, first - PORTS), first
    if most - least < PORTS // 2:
        least, most = FIRST_PORT, LAST_PORT
    while True:
        port = least + int.from_bytes(os.urandom(4), "big") % (most - least)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def rank_variables(count: int, number: int) -> dict[str, str]:
    """Return torchrun's variables for every rank of a group (its manual, "Environment Variables").

    Args:
        count: how many ranks.
        number: how many groups were started before this one.
    """
    sizes = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE")
    return {
        **dict.fromkeys(sizes, str(count)),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "TORCHELASTIC_RUN_ID": f"{os.getpid()}-{number}",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        # There is no agent to hold the store, so rank 0 does.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }


def run_ranks(count: int, command: list[str], environment: dict[str, str], number: int) -> int:
    """Run a group of ranks to its end; return the first status other than 0 (negative: a signal).

    Args:
        count: how many ranks.
        command: the command line of each rank.
        environment: variables of all ranks; torchrun's own replace them.
        number: how many groups were started before this one.
    """
    # As with torchrun, several ranks have one thread each unless the environment sets a number.
    usual = {"OMP_NUM_THREADS": "1"} if count > 1 else {}
    # Otherwise gloo resolves the machine's name, which may fail or give another address.
    usual["GLOO_SOCKET_IFNAME"] = "lo"
    shared = {**usual, **environment, **rank_variables(count, number)}
    parent, ranks = os.getpid(), {}
    for rank in range(count):
        variables = dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(rank))
        pid = os.fork()
        if pid == 0:
            die_with_parent(parent)
            become(command, {**shared, **variables})
        ranks[pid] = rank

    def stop(signum: int, _frame: object) -> None:
        for pid in ranks:
            with contextlib.suppress(ProcessLookupError):  # it has just been waited for
                os.kill(pid, signal.SIGKILL if signum == signal.SIGALRM else signum)
        signal.alarm(GRACE_S)

    handle([signal.SIGTERM], stop)
    signal.signal(signal.SIGALRM, stop)
    failed = 0
    while ranks:
        pid, status = os.wait()
        if pid not in ranks:  # left behind by a rank that has ended
            continue
        rank = ranks.pop(pid)
        if status and not failed:
            failed = code = os.waitstatus_to_exitcode(status)
            how = f"failed with status {code}" if code > 0 else f"was killed by signal {-code}"
            print(f"rank {rank} of {count} {how}: its group ends", file=sys.stderr, flush=True)
            stop(signal.SIGTERM, None)
    signal.alarm(0)
    return failed


def become(command: list[str], environment: dict[str, str]) -> None:
    """Replace this process by a command; end it if the command cannot be run."""
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 (no shell is wanted)
    except OSError as error:
        print(f"bind: cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(1)


def main(argv: list[str]) -> None:
    """Parse the command line, bind, and exec."""
    parser = argparse.ArgumentParser(description="Bind this process, then become the command.")
    parser.add_argument("--cpus", help="CPU list, such as 0-3,8")
    parser.add_argument("--mempolicy", default="default", help="default, bind:0 or interleave:0-1")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--keep-env",
        action="append",
        metavar="NAME",
        help="inherit only the variables so named, and drop all others",
    )
    parser.add_argument(
        "--fresh-folder", metavar="PARENT", help="run in a new folder of links to this one's files"
    )
    parser.add_argument("--die-with", type=int, metavar="PID", help="end when this parent ends")
    parser.add_argument("--die-signal", default="KILL", help="by this signal (default KILL)")
    parser.add_argument(
        "--ranks", type=int, metavar="COUNT", help="start a group, as torchrun does"
    )
    parser.add_argument("--again", action="store_true", help="start the next group after its end")
    arguments, command = split_command(argv)
    options = parser.parse_args(arguments)
    if not command:
        parser.error("no command after --")
    if options.die_with is not None:
        die_signal = signal.Signals[f"SIG{options.die_signal}"]
        with contextlib.suppress(OSError):  # SIGKILL cannot be ignored
            signal.signal(die_signal, signal.SIG_DFL)  # the caller may ignore it
        die_with_parent(options.die_with, die_signal)
    try:
        apply(options.cpus, options.mempolicy)
    except (OSError, ValueError, ImportError, AttributeError) as error:
        # AttributeError: py-libnuma was imported where there is no libnuma.so.1.
        sys.exit(f"bind: cpus {options.cpus}, memory policy {options.mempolicy}: {error}")
    if options.fresh_folder is not None:
        enter_fresh_folder(options.fresh_folder)
    inherited = os.environ if options.keep_env is None else options.keep_env
    environment = {name: os.environ[name] for name in inherited if name in os.environ}
    environment.update(item.split("=", 1) for item in options.env)
    if options.ranks is None:
        become(command, environment)
    status, groups = 0, 0
    while not status and (options.again or not groups):
        status = run_ranks(options.ranks, command, environment, groups)
        groups += 1
    if status < 0:  # end as the rank did
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
