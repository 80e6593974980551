"""Train a list of models, n at once: each slot starts the next model as soon as its last has ended.

``python -P model_queue.py --models FILE --logs FOLDER --slot CPUS POLICY … -- BINDER -- COMMAND``

FILE holds the arguments of one model on each line, quoted as for a shell; empty lines and
lines that begin with ``#`` are skipped. Each ``--slot`` is one process at a time, with its CPUs
('' is not bound) and its memory policy. BINDER is a command line of ``bind.py``, COMMAND what a
model's arguments are added to; with ``--reuse`` it is one of ``again.py``, which trains one model
after the other in each process.

FOLDER gets a file for each model, and ``queue.jsonl``: a line for each model that ended. The same
command goes on where it stopped: a model that was interrupted or has failed starts anew. Exit
status: 0 all trained, 1 a model failed, 2 wrong input, 130 and 143 stopped by SIGINT and SIGTERM.

The module needs nothing but the standard library. All times are of the monotonic clock.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import IO

JOURNAL = "queue.jsonl"
WRONG_INPUT = 2  # as argparse
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Time for models to end by themselves after SIGTERM; then they are killed.
GRACE_S = 2.0
# Time for a process that has trained all its models to end: what scripts have left for their end
# is done then.
EXIT_S = 30.0
LOOK_S = 0.05

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that has ended in a slot; times in s of the monotonic clock.

    Attributes:
        status: its return code, as subprocess gives it: below 0, the signal that killed it.
    """

    slot: int
    began_s: float
    ended_s: float
    status: int


@dataclass(frozen=True, slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    pidfd: int
    began_s: float


class Slots:
    """Runs one process at a time in each of n slots, each process in a group of its own."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._running: dict[int, _Running] = {}

    @property
    def free(self) -> list[int]:
        """Slots without a process."""
        return [slot for slot in range(self._count) if slot not in self._running]

    def pid(self, slot: int) -> int:
        """Return the process of a busy slot."""
        return self._running[slot].process.pid

    def start(
        self,
        slot: int,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        errors: Path | None = None,
        *,
        folder: str | None = None,
        orders: Path | None = None,
    ) -> float:
        """Start a process in a free slot.

        Args:
            slot: the slot.
            command: the program and its arguments.
            log: gets its output; what it held is lost.
            env: its environment; None for this process's.
            errors: gets its standard error; None for the log.
            folder: its working directory; None for this process's.
            orders: what it reads as standard input; None for nothing.

        Returns:
            When it began.

        Raises:
            OSError: it cannot be started.
        """
        began_s = time.monotonic()
        with contextlib.ExitStack() as files:
            given = open(orders or os.devnull, "rb")  # noqa: PTH123, SIM115 (the stack's)
            process = subprocess.Popen(
                command,
                env=env,
                cwd=folder,
                stdin=files.enter_context(given),
                stdout=files.enter_context(log.open("wb")),
                stderr=files.enter_context(errors.open("wb")) if errors else subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[slot] = _Running(process, os.pidfd_open(process.pid), began_s)
        return began_s

    def wait(self, timeout_s: float | None = None, stop: int | None = None) -> list[Ended]:
        """Wait until a process has ended, the time is over, or ``stop`` becomes readable.

        Args:
            timeout_s: None to wait without an end.
            stop: a descriptor.
        """
        poll = select.poll()
        by_pidfd = {running.pidfd: slot for slot, running in self._running.items()}
        for descriptor in (*by_pidfd, *(() if stop is None else (stop,))):
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000)
        ended_s = time.monotonic()
        return [
            self._reap(by_pidfd[descriptor], ended_s)
            for descriptor, _ in ready
            if descriptor in by_pidfd
        ]

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End all processes with their own child processes.

        Args:
            grace_s: how long they may take after SIGTERM; without any they are killed at once.
        """
        deadline_s = time.monotonic() + grace_s
        if grace_s > 0:
            self._signal(signal.SIGTERM)
        # A leader that is waited for at once would free the group's number: its children first.
        while grace_s > 0 and self._unended() and time.monotonic() < deadline_s:
            self._poll_once(deadline_s)
        self._signal(signal.SIGKILL)
        for slot in list(self._running):
            self._reap(slot, time.monotonic())

    def _unended(self) -> list[_Running]:
        """Processes that have not ended; those that have are not waited for yet."""
        return [running for running in self._running.values() if not _has_ended(running.process)]

    def _poll_once(self, deadline_s: float) -> None:
        poll = select.poll()
        for running in self._unended():
            poll.register(running.pidfd, select.POLLIN)
        poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000)

    def _signal(self, signum: int) -> None:
        for running in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.process.pid, signum)

    def _reap(self, slot: int, ended_s: float) -> Ended:
        running = self._running.pop(slot)
        # Not waited for yet: the group's number is still this process's.
        info = os.waitid(os.P_PID, running.process.pid, os.WEXITED | os.WNOWAIT)
        if info is None or info.si_code != os.CLD_EXITED or info.si_status != 0:
            # What a failed process leaves would take CPU time from the next one.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(running.process.pid, signal.SIGKILL)
        os.close(running.pidfd)
        return Ended(slot, running.began_s, ended_s, running.process.wait())


class FreshSlots(Slots):
    """Runs a process for each model.

    Args:
        commands: of each slot, what a model's arguments are added to.
    """

    anew = 0

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        super().__init__(len(commands))
        self._commands = commands

    def train(self, slot: int, arguments: Sequence[str], log: Path) -> None:
        """Start a free slot's process for a model; as ``ReusedSlots.train``."""
        self.start(slot, [*self._commands[slot], *arguments], log)

    def wait_trained(self, stop: int) -> list[Ended]:
        """Wait until a model has ended, or ``stop`` becomes readable."""
        return self.wait(stop=stop)


@dataclass(slots=True)
class _Trainer:
    """A process of ``again.py``, and the model in it.

    Attributes:
        orders: it reads models from there.
        answers: a status comes from there for each.
        trained: models that it has trained.
        model: the order and the time at which it began; None while there is none.
    """

    process: subprocess.Popen[bytes]
    orders: IO[bytes]
    answers: int
    trained: int = 0
    model: tuple[bytes, float] | None = None


class ReusedSlots:
    """Runs one process in each of n slots, each of which trains one model after the other.

    A model that fails where another one was trained before it starts anew in a fresh process: what
    a script cannot do twice in a process is no fault of the model. A process whose model has failed
    trains no other one.

    Args:
        commands: of each slot: of ``again.py``, with the program after the last ``--``.
    """

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        self._commands = commands
        self._trainers: dict[int, _Trainer] = {}
        self.anew = 0

    @property
    def free(self) -> list[int]:
        """Slots without a model."""
        busy = {slot for slot, trainer in self._trainers.items() if trainer.model}
        return [slot for slot in range(len(self._commands)) if slot not in busy]

    def train(self, slot: int, arguments: Sequence[str], log: Path) -> None:
        """Have a free slot train a model.

        Args:
            slot: the slot.
            arguments: of the script.
            log: gets the model's output; what it held is lost.
        """
        order = json.dumps({"arguments": list(arguments), "log": str(log)}).encode() + b"\n"
        self._give(slot, order, time.monotonic())

    def wait_trained(self, stop: int) -> list[Ended]:
        """Wait until a model has ended, or ``stop`` becomes readable."""
        poll = select.poll()
        by_answers = {one.answers: slot for slot, one in self._trainers.items() if one.model}
        for descriptor in (*by_answers, stop):
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll()
        ended = [self._answered(by_answers[one]) for one, _ in ready if one in by_answers]
        return [one for one in ended if one is not None]

    def stop(self) -> None:
        """End all processes with their own child processes."""
        busy = len(self._commands) - len(self.free)
        deadline_s = time.monotonic() + (GRACE_S if busy else EXIT_S)
        for trainer in self._trainers.values():
            if trainer.model is None:  # there is no further one: it ends as a script does
                trainer.orders.close()
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(trainer.process.pid, signal.SIGTERM)
        while time.monotonic() < deadline_s:
            if all(map(_has_ended, [one.process for one in self._trainers.values()])):
                break
            time.sleep(LOOK_S)
        for slot in list(self._trainers):
            self._end(slot)

    def _give(self, slot: int, order: bytes, began_s: float) -> None:
        trainer = self._trainers.get(slot) or self._begin(slot)
        trainer.model = (order, began_s)
        with contextlib.suppress(BrokenPipeError):  # its end is seen where its answer is awaited
            trainer.orders.write(order)
            trainer.orders.flush()

    def _begin(self, slot: int) -> _Trainer:
        answers, theirs = os.pipe()
        command = list(self._commands[slot])
        last = len(command) - command[::-1].index("--") - 1  # before the program
        command[last:last] = ["--answers", str(theirs)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            pass_fds=[theirs],
            start_new_session=True,
        )
        os.close(theirs)
        if process.stdin is None:
            raise RuntimeError("the process has no standard input")
        self._trainers[slot] = _Trainer(process, process.stdin, answers)
        return self._trainers[slot]

    def _answered(self, slot: int) -> Ended | None:
        """Return how a slot's model has ended; None where it starts anew."""
        trainer, ended_s = self._trainers[slot], time.monotonic()
        if trainer.model is None:
            return None
        order, began_s = trainer.model
        text = os.read(trainer.answers, 64)
        trainer.model = None
        if text and int(text) == 0:
            trainer.trained += 1
            return Ended(slot, began_s, ended_s, 0)
        code = self._end(slot)
        if not trainer.trained:
            return Ended(slot, began_s, ended_s, int(text) if text else code or 1)
        self.anew += 1
        self._give(slot, order, began_s)
        return None

    def _end(self, slot: int) -> int:
        """End a process and its children; return its return code."""
        trainer = self._trainers.pop(slot)
        # Not waited for yet: the group's number is still this process's.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(trainer.process.pid, signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            trainer.orders.close()
        os.close(trainer.answers)
        return trainer.process.wait()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended, which is not waited for yet."""
    how = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, how) is not None


@dataclass(frozen=True, slots=True)
class Model:
    """One model: its number in the list, from 1, and its line."""

    number: int
    text: str

    @property
    def arguments(self) -> list[str]:
        """The line as a shell would split it."""
        return shlex.split(self.text)


def parse_models(text: str) -> list[Model]:
    """Return the models of a list.

    Raises:
        ValueError: a line cannot be split, or there is no model.
    """
    models: list[Model] = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            shlex.split(stripped)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}: {stripped}") from None
        models.append(Model(len(models) + 1, stripped))
    if not models:
        raise ValueError("there is no model in it: write the arguments of one on each line")
    return models


def parse_journal(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the journal's lines, and how many bytes of it are whole lines.

    Raises:
        ValueError: a line is not one of this program's.
    """
    whole = data.rfind(b"\n") + 1
    ended = [json.loads(line) for line in data[:whole].splitlines()]
    for one in ended:
        if not isinstance(one, dict) or not {"model", "arguments", "status"} <= one.keys():
            raise ValueError(f"{one!r} is no line of a queue")
    return ended, whole


def left_to_train(models: Sequence[Model], ended: Sequence[Mapping[str, Any]]) -> list[Model]:
    """Return the models that have not been trained yet, in the order of the list.

    Raises:
        ValueError: the list was edited where models have been trained already.
    """
    texts = {model.number: model.text for model in models}
    trained = {one["model"]: one["arguments"] for one in ended if one["status"] == 0}
    for number, arguments in sorted(trained.items()):
        if texts.get(number) != arguments:
            now = texts.get(number, "missing")
            raise ValueError(
                f"model {number} was trained as: {arguments}; in the list it is now: {now}. Restore"
                " that line and add new models at the end, or name another folder for the logs"
            )
    return [model for model in models if model.number not in trained]


class Queue:
    """The running of one list.

    Args:
        commands: of each slot, what a model's arguments are added to.
        logs: folder of logs and journal.
        journal: a descriptor of it.
        reuse: each process trains one model after the other.
    """

    def __init__(
        self, commands: Sequence[Sequence[str]], logs: Path, journal: int, *, reuse: bool
    ) -> None:
        self._logs = logs
        self._journal = journal
        self._slots = ReusedSlots(commands) if reuse else FreshSlots(commands)
        self._models: dict[int, Model] = {}
        self.trained = 0
        self.failed: list[tuple[Model, str]] = []

    def run(self, models: Sequence[Model], stop: int) -> bool:
        """Train the models; return False if ``stop`` became readable before all had ended."""
        waiting = list(reversed(models))
        try:
            while waiting or self._models:
                for slot in self._slots.free if waiting else ():
                    if waiting:
                        self._start(slot, waiting.pop())
                for ended in self._slots.wait_trained(stop):
                    self._end(ended)
                if select.select([stop], [], [], 0)[0]:
                    return False
        finally:
            self._slots.stop()
        return True

    @property
    def anew(self) -> int:
        """Models that were started again in a fresh process."""
        return self._slots.anew

    def log(self, model: Model) -> Path:
        """Return the file of a model's output."""
        return self._logs / f"model-{model.number:05}.log"

    def _start(self, slot: int, model: Model) -> None:
        self._models[slot] = model
        self._slots.train(slot, model.arguments, self.log(model))

    def _end(self, ended: Ended) -> None:
        model = self._models.pop(ended.slot)
        line = {
            "model": model.number,
            "arguments": model.text,
            "status": ended.status,
            "slot": ended.slot,
            "seconds": round(ended.ended_s - ended.began_s, 3),
        }
        _write_whole(self._journal, (json.dumps(line) + "\n").encode())
        if ended.status == 0:
            self.trained += 1
        else:
            how = _describe(ended.status)
            self.failed.append((model, how))
            print(f"model {model.number} {how}; see {self.log(model)}", file=sys.stderr)


def _describe(status: int) -> str:
    if status >= 0:
        return f"failed with status {status}"
    return f"was killed by {signal.Signals(-status).name}"


def _write_whole(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
    os.fsync(descriptor)


def slot_command(
    binder: Sequence[str], cpus: str, policy: str, command: Sequence[str]
) -> list[str]:
    """Return the command line of a slot, without a model's arguments.

    Args:
        binder: a command line of ``bind.py``.
        cpus: a list of CPUs; '' is not bound.
        policy: a memory policy.
        command: what is bound.
    """
    options = ["--cpus", cpus] if cpus else []
    return [*binder, *options, "--mempolicy", policy, "--die-with", str(os.getpid()), "--",
            *command]  # fmt: skip


def _noted(_signum: int, _frame: FrameType | None) -> None:
    """Do nothing: Python has written the signal's number into the wake-up pipe."""


def summary(trained: int, before: int, seconds: float, slots: int) -> str:
    """Say how many models an hour that was."""
    rate = trained * SECONDS_PER_HOUR / seconds if trained else 0.0
    earlier = f", {before} trained before" if before else ""
    return (
        f"{rate:,.1f} models/hour: {trained} trained in {seconds:,.1f} s, {slots} at once{earlier}"
    )


def _fail(message: str) -> NoReturn:
    print(f"queue: {message}", file=sys.stderr)
    sys.exit(WRONG_INPUT)


def _parse(argv: list[str]) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Return the options, the binder and the command."""
    parser = argparse.ArgumentParser(description="Train a list of models, several at once.")
    parser.add_argument("--models", type=Path, required=True, help="a line of arguments per model")
    parser.add_argument("--logs", type=Path, required=True, help="folder of logs and journal")
    parser.add_argument(
        "--reuse", action="store_true", help="each process trains one model after the other"
    )
    parser.add_argument(
        "--slot", action="append", nargs=2, metavar=("CPUS", "POLICY"), required=True
    )
    # By hand: argparse treats -- differently from version to version.
    first = argv.index("--") if "--" in argv else len(argv)
    options, rest = parser.parse_args(argv[:first]), argv[first + 1 :]
    if "--" not in rest:
        parser.error("no BINDER -- COMMAND after --")
    second = rest.index("--")
    return options, rest[:second], rest[second + 1 :]


def main(argv: list[str]) -> int:
    """Parse the command line and train the models."""
    options, binder, command = _parse(argv)
    try:
        models = parse_models(options.models.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        _fail(f"{options.models}: {error}")
    options.logs.mkdir(parents=True, exist_ok=True)
    path = options.logs / JOURNAL
    journal = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _fail(f"{options.logs} is another queue's, which runs: wait for it, or name another folder")
    try:
        ended, whole = parse_journal(path.read_bytes())
        waiting = left_to_train(models, ended)
    except ValueError as error:
        _fail(f"{path}: {error}")
    os.ftruncate(journal, whole)  # a line that a crash cut off
    commands = [slot_command(binder, cpus, policy, command) for cpus, policy in options.slot]
    queue = Queue(commands, options.logs, journal, reuse=options.reuse)
    return _train(models, waiting, queue, len(commands))


def _train(models: Sequence[Model], waiting: Sequence[Model], queue: Queue, slots: int) -> int:
    """Run the queue and say what came out; return the exit status."""
    stop, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup)
    for signum in STOP_SIGNALS:
        signal.signal(signum, _noted)
    before = len(models) - len(waiting)
    began_s = time.monotonic()
    done = queue.run(waiting, stop)
    seconds = time.monotonic() - began_s
    status = int(bool(queue.failed))
    if queue.failed:
        names = ", ".join(str(model.number) for model, _ in queue.failed)
        print(f"failed: models {names}; the same command trains them again", file=sys.stderr)
    if queue.anew:
        print(
            f"{queue.anew} models failed where another one was trained before, and were trained in"
            " a process of their own: this script may not run twice in a process",
            file=sys.stderr,
        )
    if not done:
        status = 128 + os.read(stop, 1)[0]
        print("stopped; the same command goes on, interrupted models anew", file=sys.stderr)
    print(summary(queue.trained, before, seconds, slots), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
