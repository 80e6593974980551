"""Train models one after the other in this process, each as ``python SCRIPT ARGS`` would.

``python -P again.py [--switches FILE] --answers FD -- SCRIPT``

Python, torch and what the script imports are loaded once. Each line of standard input is a model: a
JSON object with its ``arguments`` and the file for its output, ``log``. The answer to each, a line
on descriptor FD, is its exit status. A model finds what the ones before it have left in the
process: imported modules with their state, the random state, settings of torch.

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


def train(script: str, arguments: list[str]) -> int:
    """Run the script once; return its exit status, as Python would give it."""
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 (whatever it is, Python would end with it)
        traceback.print_exc()
        return 1
    return 0


def write_to(log: str) -> None:
    """Let output go to a file, which is emptied."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def main(argv: list[str]) -> None:
    """Parse the command line and train what standard input asks for, until it ends."""
    parser = argparse.ArgumentParser(description="Train models one after the other.")
    parser.add_argument("--switches", help="file that changes this process when torch is imported")
    parser.add_argument("--answers", type=int, required=True, help="descriptor for exit statuses")
    at = argv.index("--")
    options, (script,) = parser.parse_args(argv[:at]), argv[at + 1 :]
    if options.switches is not None:
        runpy.run_path(options.switches, run_name="switches")
    # What a script starts holds neither end of the line to the queue, and reads nothing from it.
    os.set_inheritable(options.answers, False)
    orders = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))  # noqa: PTH100, PTH120 (no pathlib)
    folder, pid = os.getcwd(), os.getpid()  # noqa: PTH109
    for line in orders:
        order = json.loads(line)
        write_to(order["log"])
        os.chdir(folder)  # the last model may have left it
        status = train(script, order["arguments"])
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # the script's to close
                stream.flush()
        if os.getpid() != pid:  # a child that the script has forked
            os._exit(status)
        gc.collect()  # a script's globals refer to each other
        os.write(options.answers, f"{status}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
