"""Profiles of a study: what was profiled, and its operators per step and per call."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import pandas as pd
from msgspec.structs import astuple, replace

from scaling_study.common.file_errors import UnusableError
from scaling_study.common.problems import shorten
from scaling_study.config.plan import RECOMMENDED
from scaling_study.profiling.operator_groups import group_of
from scaling_study.records import codec
from scaling_study.records.columns import OPERATORS
from scaling_study.records.profile import Operators, Profiled

WHERE = ("machine", "launch", "label", "role")
NAMES, SUMS = ["operator", "phase"], ["calls", "self_s", "total_s", "flops"]
Kind = Literal["counts", "launches"]
"""The difference between two compared profiles."""
T = TypeVar("T")


class ProfileError(UnusableError):
    """A profile cannot be read."""


def profile_folders(study_folder: Path) -> list[Path]:
    """Return the folders of a study that hold a profile, in the order of their names."""
    return sorted(path.parent for path in study_folder.glob("profile/*/profile.json"))


def read_manifests(folders: Iterable[Path]) -> list[Profiled]:
    """Read what was profiled: each profile.json, with its ``folder``.

    Args:
        folders: one for each target.

    Returns:
        The default launch first, then the baseline; the recommended launch last.

    Raises:
        ProfileError: a file is missing, broken, or of another version.
    """
    return sorted(
        map(_read_manifest, folders),
        key=lambda profiled: (
            profiled.target == RECOMMENDED,
            profiled.role != "default",
            profiled.role != "baseline",
            profiled.target,
        ),
    )


def _unusable(path: Path, error: object) -> ProfileError:
    return ProfileError(
        f"{path}: {error}: delete the folder of this profile and run the same command again: it is "
        "profiled anew"
    )


def _read_manifest(folder: Path) -> Profiled:
    path = folder / "profile.json"
    try:
        return replace(codec.read_file(path, Profiled), folder=str(folder))
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from error


def read_profiles(folders: Iterable[Path]) -> tuple[list[Profiled], pd.DataFrame]:
    """Read what was profiled, and its rows of tables/operators.

    The operators of a launch that several targets share are read once.

    Raises:
        ProfileError: a file is missing, broken, or of another version.
    """
    manifests = read_manifests(folders)
    frames: dict[tuple[str, str | None, int], pd.DataFrame] = {}
    for manifest in manifests:
        for point in manifest.points:
            profile = point.profile("operators")
            key = (manifest.machine, manifest.launch, point.n)
            if profile is None or key in frames:
                continue
            path = manifest.place(point.n) / "operators.json"
            try:
                frames[key] = operator_rows(
                    codec.read_file(path, Operators),
                    **{name: getattr(manifest, name) for name in WHERE},
                    n=point.n,
                    overhead=profile.overhead,
                )
            except (OSError, ValueError) as error:
                raise _unusable(path, shorten(error)) from error
    rows = pd.concat(frames.values(), ignore_index=True) if frames else None
    return manifests, OPERATORS.frame(rows)


def operator_rows(
    content: Operators, *, overhead: float | None, **where: str | int
) -> pd.DataFrame:
    """Return the rows of tables/operators for one profiled point.

    Args:
        content: operators.json.
        overhead: step time while profiled, over that of unprofiled windows; None if unknown.
        where: machine, launch, label and role, and the number n of members that trained.

    Returns:
        Columns of ``OPERATORS``, one row for each operator and phase.

    Raises:
        ValueError: the profile covers no step.
    """
    steps = content.steps
    if steps < 1:
        raise ValueError(f"a profile of {where['label']} with {where['n']} covers no step")
    rows = pd.DataFrame(map(astuple, content.rows), columns=[*NAMES, *SUMS])
    rows[SUMS] = rows[SUMS].astype(float)
    # min_count: a sum without a known term is unknown.
    sums = rows.groupby(NAMES, sort=False)[SUMS].sum(min_count=1).reset_index()
    calls = sums["calls"].where(sums["calls"] > 0)
    return OPERATORS.frame(
        sums.assign(
            **where,
            group=[group_of(name) for name in sums["operator"]],
            **{f"{name}_per_step": sums[name] / steps for name in SUMS},
            **{f"{name}_per_call": sums[name] / calls for name in ("self_s", "total_s")},
            steps=steps,
            overhead=float("nan") if overhead is None else overhead,
        )
    )


def choose_pairs(
    manifests: Sequence[Profiled], profiles: Mapping[str, Mapping[int, T]]
) -> list[tuple[Kind, T, T]]:
    """Choose the pairs of profiles of one machine to compare.

    Args:
        manifests: those of one machine, from ``read_manifests``.
        profiles: profiles by launch and process count.

    Returns:
        For each launch, the lowest and the highest process count; then the default and the
        recommended launch, at the highest count that both have.
    """
    pairs: list[tuple[Kind, T, T]] = [
        ("counts", points[min(points)], points[max(points)])
        for points in profiles.values()
        if len(points) > 1
    ]
    default = next((entry.launch for entry in manifests if entry.role == "default"), None)
    recommended = next((entry.launch for entry in manifests if entry.target == RECOMMENDED), None)
    both = profiles.get(default or "", {}).keys() & profiles.get(recommended or "", {}).keys()
    if both and default != recommended:
        n = max(both)
        pairs.append(("launches", profiles[default or ""][n], profiles[recommended or ""][n]))
    return pairs
