"""A launcher for tests of many members: a server imports torch once, and forks every member.

``python -m scaling_study_launchers.fork FOLDER MEMBERS``, with one JSON request a line on stdin
(see ``launcher.Host``). The server runs no parallel region: a fork would lose the OpenMP
threads that its runtime had started.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from scaling_study.launch.launchers.launcher import Launcher, Request, hosted, print_apart
from scaling_study.member import worker
from scaling_study.queues import bind


def serve_member(folder: str, request: Request, server: int) -> None:
    """Become a member in a freshly forked process."""
    os.setsid()
    bind.die_with_parent(server)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    print_apart(folder, request["slot"])
    bind.apply(request["cpus"], request["mempolicy"])
    worker.main(*request["words"])


def main(folder: str) -> None:
    """Fork a member for every request, and answer with its process id."""
    import torch

    # Members share torch, with the half of it that it imports for the first optimizer. This one is
    # of the base class: making an optimizer changes its class, and a script's must stay unchanged.
    torch.optim.Optimizer([torch.zeros(1, requires_grad=True)], {})
    # Ended members are reaped by the kernel; the coordinator watches them by itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = os.getpid()
    for line in sys.stdin:
        request = json.loads(line)
        if request["mempolicy"] != "default":
            # Imported before the fork: a member's data may reuse memory that the import touches.
            import numa.memory  # noqa: F401 (loads libnuma.so.1)
        pid = os.fork()
        if pid == 0:
            serve_member(folder, request, server)
        print(pid, flush=True)


LAUNCHER = Launcher(
    "forked from one server that has imported torch",
    hosted(__name__),
    # A forked process shares nearly all of what a fresh one keeps for itself.
    least_bytes=4 * 1024**2,
)

if __name__ == "__main__":
    main(sys.argv[1])
