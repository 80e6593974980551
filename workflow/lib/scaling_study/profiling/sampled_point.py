"""The stacks of one profiled point: members are sampled in turn, and read as one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scaling_study.profiling import stacks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scaling_study.profiling.stacks import Folded, Stack


def read_point(
    folder: Path, profile: Mapping[str, Any], *, step_s: float, label: str = ""
) -> Folded:
    """Read the stacks of all members that were sampled at one point.

    Args:
        folder: of the point.
        profile: its stacks, as profile.json holds them.
        step_s: step time of the point without the sampler, in seconds.
        label: of what was profiled.

    Raises:
        OSError: a file cannot be read.
        StackError: as for ``stacks.read``.
    """
    return pool(
        [
            (
                stacks.read(
                    folder / turn["file"],
                    seconds=turn["seconds"],
                    steps=turn["steps"],
                    step_s=step_s,
                    trainer_tid=turn["trainer_tid"],
                    label=label,
                ),
                turn["steps"],
            )
            for turn in profile["turns"]
        ]
    )


def pool(parts: Sequence[tuple[Folded, int]]) -> Folded:
    """Put the stacks of several turns together: seconds per step, as a mean over all their steps.

    Args:
        parts: what was sampled in each turn, at least one, and the steps that it covers.
    """
    total = sum(steps for _, steps in parts)
    seconds: defaultdict[Stack, float] = defaultdict(float)
    for folded, steps in parts:
        for stack in folded.stacks:
            seconds[replace(stack, seconds=0.0)] += stack.seconds * steps / total
    samples = sum(folded.samples for folded, _ in parts)
    sampled_step_s = sum(folded.sampled_step_s * steps for folded, steps in parts) / total
    return replace(
        parts[0][0],
        stacks=tuple(
            replace(stack, seconds=found)
            for stack, found in sorted(seconds.items(), key=lambda item: item[0].path)
        ),
        sampled_step_s=sampled_step_s,
        samples=samples,
        sample_s=sampled_step_s / samples if samples else parts[0][0].sample_s,
        native=any(folded.native for folded, _ in parts),
    )
