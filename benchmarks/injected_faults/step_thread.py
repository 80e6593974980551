"""Fault: after every step a thread of the same process works, as one that formats metrics would.

It holds the interpreter's lock for most of that time, or with ``--native`` never: then it needs a
CPU of its own. The next step does not wait for it to end, the one after that does.
"""

import argparse
import hashlib
import queue
import threading
import time
from typing import Any

import real_workload

BLOCK = bytes(1 << 16)  # hashlib gives the lock away for more than 2 KiB


def inject(seconds: float, *, native: bool) -> None:
    """Start the thread, and give it work at each optimizer's step."""
    steps: queue.Queue[None] = queue.Queue(maxsize=1)

    def work() -> None:
        while True:
            steps.get()
            # Its own CPU time: it has the same work to do however long it waits.
            until = time.thread_time() + seconds
            while time.thread_time() < until:
                if native:
                    hashlib.sha256(BLOCK)

    def hand_over(*_: Any) -> None:
        steps.put(None)

    threading.Thread(target=work, daemon=True).start()
    real_workload.before_each_step(hand_over)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, required=True, help="CPU time for each step")
parser.add_argument("--native", action="store_true", help="without the interpreter's lock")
options, command = real_workload.options_of(parser)
real_workload.once("step_thread", lambda: inject(options.seconds, native=options.native))
real_workload.run(command)
