"""Sampled stacks of a member: from py-spy's raw text to time per step.

``py-spy record --format raw --threads --idle --native --subprocesses`` writes one line for each
distinct stack: processes, thread and frames, outermost first, separated by ``;``, then a space and
the number of samples. Every thread is sampled once per tick, so the trainer's samples count ticks.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scaling_study.profiling import stack_frames
from scaling_study.records.profile import Turn

TRAINER = "trainer"
THREADS = "other threads"
WORKERS = "child processes"
IDLE = "other threads, waiting"

Stack = tuple[str, ...]
"""A stack's place in a flamegraph: owner, running or waiting, phase or thread, frames."""

_COUNT = re.compile(r" (\d+)$", re.MULTILINE)
# A command line may hold ";" and '"': it ends where the next process or the thread begins.
_PROCESS = re.compile(r'process (\d+):"(.*?)"(?:;(?=process \d+:"|thread \()|$)', re.DOTALL)
_THREAD = re.compile(r"thread \((?P<tid>0x[0-9a-fA-F]+|\d+)\)(?:: (?P<name>[^;]*))?")
_NUMBERED = re.compile(r"[-_ #]?\d+(?= \(|$)")  # Thread-3 (_serve), pool_0


class StackError(ValueError):
    """A file without readable stacks; the message names the line, if there is one."""


class Sample:
    """One line of the raw format.

    Args:
        body: the line without its number of samples.
        count: that number.

    Attributes:
        processes: ids, outermost first; more than one for a child of the profiled process; none
            where the sampler did not write them.
        tid: the thread's id, or None where the sampler did not write it.
        thread: the thread's name, or ``""``.
        frames: outermost first.
    """

    def __init__(self, body: str, count: int) -> None:
        self.count = count
        self.processes: list[int] = []
        while match := _PROCESS.match(body):
            self.processes.append(int(match[1]))
            body = body[match.end() :]
        self.tid, self.thread = None, ""
        if match := _THREAD.match(body):
            self.tid, self.thread = int(match["tid"], 0), (match["name"] or "").strip('"')
            body = body[match.end() :].removeprefix(";")
        self.frames = [stack_frames.read_frame(text) for text in body.split(";") if text]


@dataclass(frozen=True, slots=True)
class Folded:
    """The stacks of one profile.

    Attributes:
        stacks: seconds per step of each distinct stack, in the order of their text.
        step_s: step time of the same point without the sampler, in seconds.
        sampled_step_s: step time while sampled: the sum of the trainer's stacks, without samples
            outside of any window.
        samples: samples of the trainer inside of windows.
        sample_s: seconds per step that one sample stands for.
        label: name of what was profiled, such as ``default, n = 4``.
        native: whether there are frames of libraries.
    """

    stacks: dict[Stack, float]
    step_s: float
    sampled_step_s: float
    samples: int
    sample_s: float
    label: str
    native: bool


def parse(text: str) -> Iterator[Sample]:
    """Parse py-spy's raw format.

    Raises:
        StackError: a line is not a stack.
    """
    start = 0
    for count in _COUNT.finditer(text):  # a command line may hold a line's end
        yield Sample(text[start : count.start()].lstrip(), int(count[1]))
        start = count.end()
    if rest := text[start:].strip():
        line = text.count("\n", 0, text.index(rest, start)) + 1
        raise StackError(f"line {line}: a stack without a number of samples: {rest[:80]!r}")


def read_point(folder: Path, turns: Sequence[Turn], *, step_s: float, label: str = "") -> Folded:
    """Read and fold the stacks of all members that were sampled at one point.

    Times are seconds per step: means over the steps of all turns.

    Args:
        folder: folder of the point.
        turns: at least one.
        step_s: step time of the point without the sampler, in seconds.
        label: name of what was profiled.

    Raises:
        OSError: a file cannot be read.
        StackError: a file holds no stacks, a line is none, or no sample is the trainer's.
    """
    steps = sum(turn.steps for turn in turns)
    seconds: defaultdict[Stack, float] = defaultdict(float)
    counted = 0
    for turn in turns:
        path = folder / turn.file
        try:
            samples = list(parse(path.read_text(encoding="utf-8", errors="replace")))
            counts, tick_s = _fold(samples, turn)
        except StackError as error:
            raise StackError(f"{path}: {error}") from None
        for stack, count in counts.items():
            seconds[stack] += count * tick_s / steps
            counted += count if stack[0] == TRAINER else 0
    sampled_step_s = sum(time_s for stack, time_s in seconds.items() if stack[0] == TRAINER)
    return Folded(
        stacks=dict(sorted(seconds.items())),
        step_s=step_s,
        sampled_step_s=sampled_step_s,
        samples=counted,
        sample_s=sampled_step_s / max(1, counted),
        label=label,
        native=any(frame.endswith((".so)", ".so]")) for stack in seconds for frame in stack),
    )


def _fold(samples: Sequence[Sample], turn: Turn) -> tuple[Counter[Stack], float]:
    """Return the samples of each stack of a turn, and the time between two samples (s).

    Raises:
        StackError: there are no samples, or none of the trainer's.
    """
    if not samples:
        raise StackError("no stacks")
    trainer = _find_trainer(samples, turn.trainer_tid)
    ticks = sum(sample.count for sample in samples if sample.tid == trainer)
    # The sampler knows a new thread's name only after a while.
    names = {sample.tid: sample.thread for sample in samples if sample.thread}
    counts: Counter[Stack] = Counter()
    for sample in samples:
        wait = stack_frames.wait_of(sample.frames)
        if sample.tid != trainer:
            owner = _owner(sample, names.get(sample.tid, ""), wait)
        elif stack_frames.is_asleep(sample.frames):
            continue
        else:
            phase = stack_frames.phase_of(sample.frames) or "other"
            owner = (TRAINER, f"waiting {wait}" if wait else "running", f"phase: {phase}")
        counts[*owner, *(stack_frames.fold(sample.frames) or ("[no frames]",))] += sample.count
    return counts, turn.seconds / ticks


def _find_trainer(samples: Sequence[Sample], tid: int | None) -> int | None:
    """Return the training thread's id as the sampler wrote it.

    Before Python 3.11 the sampler may know only pthread's ids. Then the trainer is the thread of
    the outermost process with the most samples in the script or in a phase of a step.

    Raises:
        StackError: no thread trains.
    """
    if any(sample.tid == tid for sample in samples):
        return tid
    trains: Counter[int | None] = Counter()
    for sample in samples:
        if len(sample.processes) == 1 and (
            stack_frames.phase_of(sample.frames)
            or stack_frames.is_asleep(sample.frames)
            or any(frame.name == "<module>" for frame in sample.frames)
        ):
            trains[sample.tid] += sample.count
    if not trains:
        raise StackError("no thread trains")
    return trains.most_common(1)[0][0]


def _owner(sample: Sample, thread: str, wait: str) -> Stack:
    """Return the place of a thread that does not train."""
    named = f"thread: {_NUMBERED.sub('', thread) or 'without a name'}"
    child = len(sample.processes) > 1
    if not wait:
        return WORKERS if child else THREADS, named
    return (IDLE, WORKERS, named) if child else (IDLE, named)
