"""Train models one after the other in this process, each as ``python SCRIPT ARGS`` would.

``python again.py [--switches FILE] [--answers FD] -- SCRIPT`` or ``… -- -m MODULE``

Python, torch and what the script imports are loaded once. Each line of standard input is a model: a
JSON object with its ``arguments``, the file for its output, ``log``, and a file for standard error
if that is to be apart, ``errors``. The answer to each, a line on descriptor FD, is its exit status;
without FD a model that fails ends the process. A model finds what the ones before it have left in
the process: imported modules with their state, the random state, settings of torch.

The module needs the standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import runpy
import sys
import traceback

# By its path: the package is none of the program's.
PROGRAM = runpy.run_path(os.path.join(os.path.dirname(__file__), "program.py"))  # noqa: PTH118, PTH120


def train(command: list[str]) -> int:
    """Run the program once; return its exit status, as Python would give it."""
    try:
        PROGRAM["run"](command)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 (whatever it is, Python would end with it)
        traceback.print_exc()
        return 1
    return 0


def write_to(log: str, *descriptors: int) -> None:
    """Let output go to a file, which is emptied."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for descriptor in descriptors:
        os.dup2(file, descriptor)
    os.close(file)


def main(argv: list[str]) -> None:
    """Parse the command line and train what standard input asks for, until it ends."""
    parser = argparse.ArgumentParser(description="Train models one after the other.")
    parser.add_argument("--switches", help="file that changes this process when torch is imported")
    parser.add_argument("--answers", type=int, help="descriptor for exit statuses")
    at = argv.index("--")
    options, program = parser.parse_args(argv[:at]), argv[at + 1 :]
    if options.switches is not None:
        runpy.run_path(options.switches, run_name="switches")
    # What a script starts holds neither end of the line to the queue, and reads nothing from it.
    if options.answers is not None:
        os.set_inheritable(options.answers, False)
    orders = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    PROGRAM["add_path"](program)
    counter = getattr(sys, "scaling_study_counter", None)  # see ``iterations``
    folder, pid = os.getcwd(), os.getpid()  # noqa: PTH109
    for line in orders:
        order = json.loads(line)
        write_to(order["log"], 1, 2)
        if "errors" in order:
            write_to(order["errors"], 2)
        os.chdir(folder)  # the last model may have left it
        status = train([*program, *order["arguments"]])
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # the script's to close
                stream.flush()
        if os.getpid() != pid:  # a child that the script has forked
            os._exit(status)
        if status and options.answers is None:
            sys.exit(status)
        gc.collect()  # a script's globals refer to each other
        if counter is not None:
            counter.script_ended()
        if options.answers is not None:
            os.write(options.answers, f"{status}\n".encode())


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    main(sys.argv[1:])
