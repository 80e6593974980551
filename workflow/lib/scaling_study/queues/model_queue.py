"""Train a list of models, n at once: each slot starts the next model as soon as its last has ended.

``python -P model_queue.py --models FILE --logs FOLDER --slot CPUS POLICY … -- BINDER -- COMMAND``

FILE holds the arguments of one model on each line, quoted as for a shell; empty lines and
lines that begin with ``#`` are skipped. Each ``--slot`` runs one process at a time, with its CPUs
('' for unbound) and its memory policy. BINDER is a command line of ``bind.py``. With ``--start
fresh``, a model's arguments are appended to COMMAND. With ``forked``, COMMAND starts
``model_server.py``, and each slot has a server of its own.

FOLDER gets a log for each model, and ``queue.jsonl`` with a line for each model that ended. The
same command resumes the list; a model that was interrupted or has failed starts anew. Exit
status: 0 all trained, 1 a model failed, 2 wrong input, 130 and 143 stopped by SIGINT and SIGTERM.

Several queues, each with a ``--share NAME`` of its own, train one list together, on one machine or
on several that see FOLDER: each takes the next model that no queue has claimed (see ``Claims``).

The module needs nothing but the standard library. Durations are of the monotonic clock.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import math
import os
import re
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn

if TYPE_CHECKING:
    import resource
    from collections.abc import Iterator, Mapping, Sequence

# Loaded by its path, because a queue runs without the package.
BIND = runpy.run_path(str(Path(__file__).with_name("bind.py")))

IMPORTS = "imports.json"
CLAIMS = "claims"
WRONG_INPUT = 2  # as argparse
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Time for models to end by themselves after SIGTERM; then they are killed.
GRACE_S = 2.0
# Time for a server to end after its last model: exit handlers of scripts run then.
EXIT_S = 30.0

# Within this time, a signal to all processes of a queue has reached each of them, and the kernel
# has killed the models of a queue that was killed.
SETTLE_S = 1.0
MOMENT_S = 1e-3
LOOK_AGAIN_S = 0.05

# With a time limit for models, a server that imports for this long hangs.
IMPORTS_S = 600.0

# poll(2) takes no more than 24 days.
LONGEST_WAIT_S = 86_400.0

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Ended:
    """A process, or a model, that has ended in a slot.

    Attributes:
        ended_s: when (s of the monotonic clock).
        status: its return code, as subprocess gives it: below 0, the signal that killed it.
        peak_kib: the most memory that it had (maximum resident set size); 0 if unknown.
        usage: what it used, with all children that it waited for; None for a forked model.
    """

    slot: int
    ended_s: float
    status: int
    peak_kib: int = 0
    usage: resource.struct_rusage | None = None


class Begun(NamedTuple):
    """A model that has begun, and may have ended.

    Attributes:
        pid: its process.
        at_s: when (s of the monotonic clock).
        ahead: whether its imports were made before it was forked.
    """

    pid: int
    at_s: float
    ahead: bool = False


class _Running(NamedTuple):
    pid: int
    pidfd: int


@dataclass(eq=False)
class FreshModels:
    """Runs one process at a time in each of n slots, a process for each model.

    Each process has a group of its own.

    Attributes:
        commands: the command of each slot, to which a model's arguments are appended.
        env: the environment of processes; None for this process's.
        folder: their working directory; None for this process's.
        begun: the latest model of each slot, once it has begun.
    """

    commands: Sequence[Sequence[str]]
    env: Mapping[str, str] | None = None
    folder: str | None = None
    begun: dict[int, Begun] = field(init=False, default_factory=dict)
    _running: dict[int, _Running] = field(init=False, default_factory=dict)
    _busy: set[int] = field(init=False, default_factory=set)

    @property
    def free(self) -> list[int]:
        """Slots without a model."""
        return [slot for slot in range(len(self.commands)) if slot not in self._busy]

    def train(
        self, slot: int, arguments: Sequence[str], log: Path, errors: Path | None = None
    ) -> None:
        """Have a free slot train a model.

        Args:
            slot: the slot.
            arguments: the script's arguments.
            log: gets the model's output, and is overwritten.
            errors: gets its standard error; None to send it where the output goes.
        """
        began_s = time.monotonic()
        self._start(slot, [*self.commands[slot], *arguments], log, errors)
        self._busy.add(slot)
        self.begun[slot] = Begun(self._running[slot].pid, began_s)

    def _start(
        self,
        slot: int,
        command: Sequence[str],
        log: Path | None,
        errors: Path | None = None,
        orders: int = subprocess.DEVNULL,
    ) -> None:
        """Start a process in a free slot.

        Args:
            slot: the slot.
            command: the program and its arguments.
            log: gets its output, and is overwritten; None for this process's output.
            errors: gets its standard error; None to send it where the output goes.
            orders: the descriptor of its standard input.

        Raises:
            OSError: it cannot be started.
        """
        beside = subprocess.STDOUT if log else None
        with contextlib.ExitStack() as files:
            process = subprocess.Popen(
                command,
                env=self.env,
                cwd=self.folder,
                stdin=orders,
                stdout=files.enter_context(log.open("wb")) if log else None,
                stderr=files.enter_context(errors.open("wb")) if errors else beside,
                start_new_session=True,
            )
        self._running[slot] = _Running(process.pid, os.pidfd_open(process.pid))
        process.returncode = 0  # this class waits for it, not Popen

    def wait(self, timeout_s: float = math.inf, stop: int | None = None) -> list[Ended]:
        """Wait until a process has ended, the time is over, or the descriptor ``stop`` is readable.

        It may return earlier, after ``LONGEST_WAIT_S``.
        """
        watched = self._watched()
        ready = _ready([*watched, *(() if stop is None else (stop,))], timeout_s)
        ended = [self._ended(watched[descriptor]) for descriptor in ready if descriptor in watched]
        return [end for end in ended if end is not None]

    def _watched(self) -> dict[int, int]:
        """Return the descriptors that become readable at an end, with their slots."""
        return {running.pidfd: slot for slot, running in self._running.items()}

    def _ended(self, slot: int) -> Ended | None:
        """Return how a slot's model has ended; None if it has just begun."""
        return self._reap(slot, time.monotonic())

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End all processes with their own child processes.

        Args:
            grace_s: how long they may take to end by themselves; 0 kills them at once.
        """
        deadline_s = time.monotonic() + grace_s
        if grace_s > 0:
            for slot in self._running:
                self._tell_to_end(slot)
        # Reaping a leader frees the group's number, so its children are killed before that.
        waiting = {running.pidfd for running in self._running.values()}
        while waiting and (left_s := deadline_s - time.monotonic()) > 0:
            waiting.difference_update(_ready([*waiting], left_s))
        for slot in self._running:
            self.signal(slot, signal.SIGKILL)
        for slot in list(self._running):
            self._reap(slot, time.monotonic())

    def _tell_to_end(self, slot: int) -> None:
        self.signal(slot, signal.SIGTERM)

    def signal(self, slot: int, signum: int) -> None:
        """Send a signal to a slot's process and its child processes."""
        BIND["signal_group"](self._running[slot].pid, signum)

    def _reap(self, slot: int, ended_s: float) -> Ended:
        self._busy.discard(slot)
        running = self._running.pop(slot)
        os.close(running.pidfd)
        status, usage = BIND["reap"](running.pid)
        return Ended(slot, ended_s, status, usage.ru_maxrss, usage)


@dataclass(eq=False)
class ServedModels(FreshModels):
    """Runs a server in each of n slots, which forks one model after the other.

    A server that ends is started again. Each command is one of ``model_server.py``.
    """

    # A server reads orders from its line, and answers there.
    _lines: dict[int, socket.socket] = field(init=False, default_factory=dict)

    def train(
        self, slot: int, arguments: Sequence[str], log: Path, errors: Path | None = None
    ) -> None:
        """Have a free slot train a model, which begins after the server's imports."""
        self._busy.add(slot)
        self.begun.pop(slot, None)
        if slot not in self._lines:
            self._lines[slot], theirs = socket.socketpair()
            # A queue's server prints to the queue's terminal.
            with theirs:
                self._start(slot, self.commands[slot], errors and log, errors, theirs.fileno())
        order = {"arguments": list(arguments), "log": str(log), "errors": errors and str(errors)}
        with contextlib.suppress(ConnectionError):  # a server that died is noticed by ``_ended``
            self._lines[slot].sendall(json.dumps(order).encode() + b"\n")

    def signal(self, slot: int, signum: int) -> None:
        """Send a signal to a slot's model and its child processes; SIGKILL to its server too."""
        trains = slot in self._busy and slot in self.begun
        if trains:
            BIND["signal_group"](self.begun[slot].pid, signum)
        if not trains or signum == signal.SIGKILL:
            super().signal(slot, signum)

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End all servers and their models."""
        super().stop(grace_s if self._busy or not grace_s else EXIT_S)

    def _tell_to_end(self, slot: int) -> None:
        self._lines[slot].shutdown(socket.SHUT_WR)  # the server ends after its model
        if slot in self._busy:
            super()._tell_to_end(slot)

    def _watched(self) -> dict[int, int]:
        return {self._lines[slot].fileno(): slot for slot in self._busy}

    def _ended(self, slot: int) -> Ended | None:
        now_s = time.monotonic()
        numbers: list[int] = []
        with contextlib.suppress(ConnectionError):  # the server ended before it read the order
            numbers = list(map(int, self._lines[slot].recv(64).split()))
        if numbers and slot not in self.begun:
            pid, ahead, *numbers = numbers
            self.begun[slot] = Begun(pid, now_s, bool(ahead))
            if not numbers:
                return None
        if numbers:
            status, peak_kib = numbers
        else:
            self._lines.pop(slot).close()
            self.signal(slot, signal.SIGKILL)
            status, peak_kib = self._reap(slot, now_s).status or 1, 0
        self._busy.discard(slot)
        return Ended(slot, now_s, status, peak_kib)


def _ready(descriptors: Sequence[int], timeout_s: float) -> list[int]:
    """Wait until some of these descriptors can be read from; return them."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    wait_s = max(0.0, min(timeout_s, LONGEST_WAIT_S))
    return [number for number, _ in poll.poll(wait_s * 1000)]


class Model(NamedTuple):
    """One model: its number in the list, from 1, its line, and the line split as by a shell."""

    number: int
    text: str
    arguments: Sequence[str] = ()


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
            models.append(Model(len(models) + 1, stripped, shlex.split(stripped)))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}: {stripped}") from None
    if not models:
        raise ValueError("there is no model in it: write the arguments of one on each line")
    return models


class Line(NamedTuple):
    """A line of the journal: a model that ended."""

    model: int
    arguments: str
    status: int


def parse_journal(data: bytes) -> list[Line]:
    """Return the journal's lines, without one that a crash cut off.

    Raises:
        ValueError: a line is not one of this program's.
    """
    ended = []
    for text in data[: data.rfind(b"\n") + 1].splitlines():
        line = json.loads(text)
        if not isinstance(line, dict) or not set(Line._fields) <= line.keys():
            raise ValueError(f"{line!r} is no line of a queue")
        ended.append(Line(*(line[name] for name in Line._fields)))
    return ended


class Claims:
    """Claims on models, if several queues work through one list.

    A claim is a symbolic link: named by the model, pointing to the queue's journal. Making one is a
    single operation that only one queue succeeds in, on NFS too. A queue lives as long as its
    journal is locked; any queue may take a model that a dead one had claimed and not ended. A file
    that queues lock for a moment keeps two of them from starting or releasing claims at once.

    Args:
        logs: the folder that queues share.
        journal: the path of this queue's journal, which is locked.
    """

    def __init__(self, logs: Path, journal: Path) -> None:
        self._logs, self._journal = logs, journal
        self._folder = logs / CLAIMS
        self._folder.mkdir(exist_ok=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other queues from starting and releasing claims."""
        with (self._logs / f"{CLAIMS}.lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def hold(self, journal: BinaryIO) -> bool:
        """Lock this queue's open journal; return False if another queue holds it."""
        with self._alone():
            deadline_s = time.monotonic() + SETTLE_S
            while not (held := _lock(journal.fileno())) and time.monotonic() < deadline_s:
                time.sleep(LOOK_AGAIN_S)
            return held

    def take(self, model: Model) -> bool:
        """Claim a model; return whether it is this queue's now."""
        link = self._folder / str(model.number)
        try:
            link.symlink_to(f"../{self._journal.name}")
        except FileExistsError:
            # It may be this queue's: a failed model starts again, or an answer of NFS was lost.
            with contextlib.suppress(FileNotFoundError):  # it has just been released
                return link.readlink().name == self._journal.name
            return False
        return True

    def release(self, *, failed: bool) -> tuple[list[Line], set[int]]:
        """Release the models that no living queue trains.

        Args:
            failed: whether to release failed models and this queue's own claims, too.

        Returns:
            The lines of all queues' journals, and the numbers of the models that stay claimed.

        Raises:
            ValueError: a journal cannot be read.
        """
        ended = []
        owned: dict[str, set[int]] = {}
        released: set[int] = set()
        with self._alone():
            for link in self._folder.iterdir():
                owned.setdefault(link.readlink().name, set()).add(int(link.name))
            # A journal that was deleted is made anew, empty: its queue's models start again.
            journals = {path.name for path in self._logs.glob("queue*.jsonl")}
            for name in sorted(journals | owned.keys()):
                with (self._logs / name).open("a+b") as journal:
                    dead = failed if name == self._journal.name else _lock(journal.fileno())
                    journal.seek(0)
                    lines = parse_journal(journal.read())
                ended += lines
                over = {line.model for line in lines if line.status == 0 or not failed}
                released |= owned.get(name, set()) - over if dead else set()
            if released:
                time.sleep(SETTLE_S)  # the kernel may not have killed a dead queue's models yet
            for number in released:
                (self._folder / str(number)).unlink()
        return ended, set().union(*owned.values()) - released


def _lock(descriptor: int) -> bool:
    """Lock an open file; return False if another process holds the lock."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def left_to_train(models: Sequence[Model], ended: Sequence[Line]) -> list[Model]:
    """Return the models that have not been trained yet, in the order of the list.

    Raises:
        ValueError: the list was edited where models have been trained already.
    """
    texts = {model.number: model.text for model in models}
    trained = {line.model: line.arguments for line in ended if line.status == 0}
    for number, arguments in sorted(trained.items()):
        if texts.get(number) != arguments:
            now = texts.get(number, "missing")
            raise ValueError(
                f"model {number} was trained as: {arguments}; in the list it is now: {now}. Restore"
                " that line and add new models at the end, or name another folder for the logs"
            )
    return [model for model in models if model.number not in trained]


@dataclass(slots=True)
class _Training:
    """A model in a slot.

    Attributes:
        next_s: when it gets the next signal, because it exceeds its time limit (s of the monotonic
            clock).
        signals: number of signals that it has got.
    """

    model: Model
    next_s: float
    signals: int = 0


@dataclass(eq=False)
class Queue:
    """Trains the models of one list.

    Attributes:
        slots: the slots in which models are trained.
        logs: folder of logs and journal.
        journal: the open journal.
        claims: this queue's claims.
        limit_s: the time that a model may take, without its server's imports.
        retries: how often a model that has failed starts again, after the others.
        ended_s: when the latest model has ended (s of the monotonic clock).
        stopped_by: the signal that has stopped the queue; 0 if none has.
        trained: number of models that were trained.
        failed: the models that have failed, and do not start again.
    """

    slots: FreshModels
    logs: Path
    journal: BinaryIO
    claims: Claims
    limit_s: float
    retries: int
    ended_s: float = field(init=False, default_factory=time.monotonic)
    stopped_by: int = field(init=False, default=0)
    trained: int = field(init=False, default=0)
    failed: list[Model] = field(init=False, default_factory=list)
    _training: dict[int, _Training] = field(init=False, default_factory=dict)
    _attempts: Counter[int] = field(init=False, default_factory=Counter)
    # Models that have ended, in this order, with their lines of the journal.
    _ends: deque[tuple[Model, str, Ended, dict[str, object]]] = field(
        init=False, default_factory=deque
    )

    def run(self, models: Sequence[Model], stop: int) -> bool:
        """Train the models; return False if ``stop`` became readable before all had ended."""
        waiting = deque(models)
        try:
            while (
                self._fill(waiting)
                or self._ends
                or (self._take_over(models, waiting) and self._fill(waiting))
            ):
                for slot, entry in self._training.items():
                    if not entry.signals and slot in self.slots.begun:
                        entry.next_s = self.slots.begun[slot].at_s + self.limit_s
                due_s = [training.next_s for training in self._training.values()]
                due_s += [ended.ended_s + SETTLE_S for *_, ended, _ in self._ends]
                for ended in self.slots.wait(min(due_s) - time.monotonic(), stop):
                    self._end(ended)
                if _ready([stop], 0):
                    self.stopped_by = os.read(stop, 1)[0]
                waiting.extend(self._record())
                if self.stopped_by:
                    return False
                for slot, entry in self._training.items():
                    if entry.next_s <= time.monotonic():
                        self.slots.signal(slot, signal.SIGKILL if entry.signals else signal.SIGTERM)
                        entry.signals += 1
                        entry.next_s = time.monotonic() + GRACE_S
        finally:
            self.slots.stop()
        return True

    def log(self, model: Model) -> Path:
        """Return the file of a model's output."""
        return self.logs / f"model-{model.number:05}.log"

    def _fill(self, waiting: deque[Model]) -> bool:
        """Start a model in each free slot; return whether any is being trained."""
        for slot in self.slots.free:
            while waiting:
                model = waiting.popleft()
                if self.claims.take(model):
                    self._start(slot, model)
                    break
        return bool(self._training)

    def _take_over(self, models: Sequence[Model], waiting: deque[Model]) -> bool:
        """Add the models that no living queue has claimed; return whether any model waits."""
        ended, taken = self.claims.release(failed=False)
        taken.update(line.model for line in ended if line.status == 0)
        waiting.extend(model for model in models if model.number not in taken)
        return bool(waiting)

    def _start(self, slot: int, model: Model) -> None:
        imported_s = time.monotonic() + (IMPORTS_S if self.limit_s < math.inf else math.inf)
        self._training[slot] = _Training(model, imported_s)
        self.slots.train(slot, model.arguments, self.log(model))

    def _end(self, ended: Ended) -> None:
        """Note how a model has ended."""
        self.ended_s = ended.ended_s
        training, begun = self._training.pop(ended.slot), self.slots.begun.get(ended.slot)
        how, now = _describe(ended.status), datetime.now(UTC)
        if training.signals:
            how = f"did not begin within {IMPORTS_S:g} s: what it imports hangs"
            how = f"took more than {self.limit_s:g} s" if begun else how
        seconds = ended.ended_s - begun.at_s if begun else 0.0
        line = {
            "model": training.model.number,
            "arguments": training.model.text,
            "status": ended.status,
            "slot": ended.slot,
            "began": (now - timedelta(seconds=seconds)).isoformat(timespec="milliseconds"),
            "ended": now.isoformat(timespec="milliseconds"),
            "seconds": round(seconds, 3),
            "peak_memory_mib": round(ended.peak_kib / 1024, 1),
        }
        self._ends.append((training.model, how, ended, line))

    def _record(self) -> list[Model]:
        """Record the ends of models, in their order; return the models that start again.

        An end waits: if this queue is stopped, too, the model was interrupted, and some scripts
        then end with status 0. Ctrl-C reaches no model, so one with status 0 was trained.
        """
        again = []
        settled_s = time.monotonic() - SETTLE_S
        while self._ends:
            model, how, ended, line = self._ends[0]
            recent = ended.ended_s > settled_s
            if recent and not self.stopped_by:
                break
            self._ends.popleft()
            if recent and (ended.status or self.stopped_by != signal.SIGINT):
                continue
            self.journal.write((json.dumps(line) + "\n").encode())
            self.journal.flush()
            os.fsync(self.journal.fileno())
            if ended.status == 0:
                self.trained += 1
            elif self._retry(model, how):
                again.append(model)
        return again

    def _retry(self, model: Model, how: str) -> bool:
        """Print how a model has failed; return whether it starts again."""
        self._attempts[model.number] += 1
        again = self._attempts[model.number] <= self.retries
        what_next = "it starts again after the others; " if again else ""
        _say(f"model {model.number} {how}; {what_next}see {self.log(model)}")
        if not again:
            self.failed.append(model)
        return again


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(text, file=sys.stderr, flush=True)


def _describe(status: int) -> str:
    if status >= 0:
        return f"failed with status {status}"
    return f"was killed by {signal.Signals(-status).name}"


def _fail(message: str) -> NoReturn:
    print(f"queue: {message}", file=sys.stderr)
    sys.exit(WRONG_INPUT)


def _parse(argv: list[str]) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Return the options, the binder and the command."""
    parser = argparse.ArgumentParser(description="Train a list of models, several at once.")
    parser.add_argument("--models", type=Path, required=True, help="a line of arguments per model")
    parser.add_argument("--logs", type=Path, required=True, help="folder of logs and journal")
    parser.add_argument("--start", choices=["fresh", "forked"], default="fresh")
    parser.add_argument("--imports", type=Path, help="what is imported before a model is forked")
    parser.add_argument("--limit", type=_positive, default=math.inf, metavar="SECONDS")
    parser.add_argument("--retries", type=int, default=0, metavar="COUNT")
    parser.add_argument("--share", type=_named, metavar="NAME", help="of one list, by name")
    parser.add_argument(
        "--slot", action="append", nargs=2, metavar=("CPUS", "POLICY"), required=True
    )
    arguments, rest = BIND["split_command"](argv)
    options, (binder, command) = parser.parse_args(arguments), BIND["split_command"](rest)
    if not command:
        parser.error("no BINDER -- COMMAND after --")
    return options, binder, command


def _positive(text: str) -> float:
    if not float(text) > 0:
        raise ValueError
    return float(text)


def _named(text: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,100}", text, re.ASCII):
        raise argparse.ArgumentTypeError("a name has up to 100 letters, digits, _ . and -")
    return text


def _slots(
    options: argparse.Namespace, binder: list[str], command: list[str], imports: Path
) -> FreshModels:
    """Return the slots in which models are trained.

    Args:
        options: options of the command line.
        binder: a command line of ``bind.py``.
        command: the command to bind.
        imports: file that lists the imports to make before a model is forked.
    """
    served = options.start != "fresh"
    if served:
        if options.imports is not None and options.imports.exists():
            shutil.copyfile(options.imports, imports)
        at = command.index("--")  # before the program
        command[at:at] = ["--imports", str(imports)]
    end = ["--die-with", str(os.getpid()), "--", *command]
    commands = [
        [*binder, *(["--cpus", cpus] if cpus else []), "--mempolicy", policy, *end]
        for cpus, policy in options.slot
    ]
    return ServedModels(commands) if served else FreshModels(commands)


def main(argv: list[str]) -> int:
    """Parse the command line and train the models."""
    options, binder, command = _parse(argv)
    if reason := BIND["unwatchable"]():
        _fail(reason)
    try:
        models = parse_models(options.models.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        _fail(f"{options.models}: {error}")
    share = f"-{options.share}" if options.share else ""
    path = options.logs / f"queue{share}.jsonl"
    try:
        options.logs.mkdir(parents=True, exist_ok=True)
        journal = path.open("a+b")
        claims = Claims(options.logs, path)
        if not claims.hold(journal):
            _fail(
                f"{path} is another queue's, which runs: wait for it, share the list under another"
                " name (--share), or name another folder"
            )
        ended, _ = claims.release(failed=True)
        waiting = left_to_train(models, ended)
    except ValueError as error:
        _fail(f"{options.logs}: {error}")
    except OSError as error:
        _fail(
            f"{options.logs}: {error}: name a folder for the logs that can be written, on a file"
            " system with locks (flock)"
        )
    journal.truncate(path.read_bytes().rfind(b"\n") + 1)  # a line that a crash cut off
    imports = options.logs.resolve() / f"imports{share}.json"
    slots = _slots(options, binder, command, imports)
    queue = Queue(slots, options.logs, journal, claims, options.limit, options.retries)
    return _train(queue, waiting, len(models) - len(waiting))


def _train(queue: Queue, waiting: Sequence[Model], before: int) -> int:
    """Train the models that wait and print the outcome; return the exit status."""
    stop, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup)
    BIND["handle"](STOP_SIGNALS, lambda *_: None)  # a signal's number is in the wake-up pipe
    began_s = time.monotonic()
    done = queue.run(waiting, stop)
    seconds = max(queue.ended_s - began_s, MOMENT_S)
    status = int(bool(queue.failed))
    if queue.failed:
        names = ", ".join(str(model.number) for model in queue.failed)
        _say(f"failed: models {names}; the same command trains them again")
    if not done:
        status = 128 + queue.stopped_by
        _say("stopped; the same command goes on, interrupted models anew")
    rate = queue.trained * SECONDS_PER_HOUR / seconds
    earlier = f", {before} trained before" if before else ""
    print(
        f"{rate:,.1f} models/hour: {queue.trained} trained in {seconds:,.1f} s,"
        f" {len(queue.slots.commands)} at once{earlier}",
        flush=True,
    )
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
