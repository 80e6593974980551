"""Train models, each in a process that is forked from one that has imported what they need.

``python model_server.py [OPTIONS] -- SCRIPT`` or ``… -- -m MODULE``

Standard input is a socket. Each of its lines is a model: a JSON object with its ``arguments``, a
file for its output (``log``) and a file or null for its standard error alone (``errors``). When a
model begins, its process id is written there, and 1 if its imports were made ahead, otherwise 0;
when it has ended, its exit status (below 0: the signal that killed it) and peak memory in KiB.

The first model is forked from a process that has imported nothing. Then this process imports what
that model had imported by its end, unless a fresh process would differ from a fork of it (see
``ahead``). A model begins as ``__main__``, in a session of its own, with this process's CPUs,
memory policy and environment. Random states that a fresh process draws from entropy are drawn
anew; only the seed of Python's hashes is the same in all models. The model ends without unloading
its modules.

The module needs the standard library only.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import os
import runpy
import shutil
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
# Loaded by their paths, because the program must not find the package.
PROGRAM, AHEAD, BIND, ENDING = (
    runpy.run_path(os.path.join(HERE, f"{name}.py"))
    for name in ("program", "ahead", "bind", "ending")
)


class Server:
    """Trains each model in a process that is forked from this one.

    Args:
        program: the words after the options.
        imports: file of the imports to make ahead; the first model writes it.
        line: the descriptor of orders and answers, which models do not keep.
        folders: where each model gets a new folder; None if it runs in this process's.
    """

    def __init__(
        self, program: Sequence[str], imports: str, line: int, *, folders: str | None
    ) -> None:
        self._program, self._imports, self._folders = program, imports, folders
        self._line, self._pid, self._imported = line, os.getpid(), False
        # SIGTERM to all processes ends the model; this process still reports how it ended.
        self._sigterm = signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def prepare(self) -> None:
        """Import ahead, once the first model has written what."""
        if self._imported or not os.path.exists(self._imports):
            return
        AHEAD["load"](self._imports, self._program)
        self._imported = True
        gc.collect()
        gc.freeze()  # a collection in a child would copy all of its pages

    def train(
        self, arguments: Sequence[str], log: str, errors: str | None = None
    ) -> tuple[int, int]:
        """Train a model; return its exit status and peak memory (KiB).

        Args:
            arguments: the script's.
            log: gets the model's output, and is overwritten.
            errors: gets its standard error; None to send it where the output goes.
        """
        folder = None
        if self._folders is not None:
            source = os.getcwd()
            folder = BIND["enter_fresh_folder"](self._folders)
        child = os.fork()
        if child == 0:
            self._be_model(arguments, log, errors)
        status, usage = BIND["reap"](child)
        if folder is not None:
            os.chdir(source)
            shutil.rmtree(folder, ignore_errors=True)
        return status, usage.ru_maxrss

    def _be_model(self, arguments: Sequence[str], log: str, errors: str | None) -> None:
        signal.signal(signal.SIGTERM, self._sigterm)
        os.setsid()
        BIND["die_with_parent"](self._pid)
        os.write(self._line, f"{os.getpid()} {self._imported:d}\n".encode())
        os.close(self._line)
        for path, descriptors in ((log, (1, 2)), (errors, (2,))):
            if path is not None:
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
                for descriptor in descriptors:
                    os.dup2(file, descriptor)
                os.close(file)
        AHEAD["renew"]()
        if not os.path.exists(self._imports):
            _learn(self._imports)
        ENDING["end"](PROGRAM["run_to_end"]([*self._program, *arguments]))


def _learn(imports: str) -> None:
    """Write what this process, a first model, imports until it ends."""
    write, leave, pid = AHEAD["learning"](imports), os._exit, os.getpid()

    def write_and_leave(status: int) -> NoReturn:  # some scripts end like this
        if os.getpid() == pid:  # not a child that the script has forked
            write()
        leave(status)

    os._exit = write_and_leave


def main(argv: list[str]) -> None:
    """Parse the command line and train what standard input asks for, until it ends."""
    parser = argparse.ArgumentParser(description="Train models in processes that are forked.")
    parser.add_argument("--switches", help="file that changes this process when torch is imported")
    parser.add_argument("--imports", required=True, help="file of what is imported ahead")
    parser.add_argument("--fresh-folder", metavar="PARENT", help="where each model gets a folder")
    at = argv.index("--")
    options, program = parser.parse_args(argv[:at]), argv[at + 1 :]
    if options.switches is not None:
        runpy.run_path(options.switches, run_name="switches")
    PROGRAM["add_path"](program)
    if isinstance(sys.stdout, io.TextIOWrapper):  # of a terminal, unlike the models' own
        sys.stdout.reconfigure(line_buffering=False)
    # Programs that a script starts must not hold the line to the queue, or read from it.
    line = os.dup(0)
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    server = Server(program, options.imports, line, folders=options.fresh_folder)
    orders = open(line, "rb")  # noqa: SIM115 (to the end of the process)
    server.prepare()
    for order in orders:
        status, peak_kib = server.train(**json.loads(order))
        os.write(line, f"{status} {peak_kib}\n".encode())
        server.prepare()


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    main(sys.argv[1:])
