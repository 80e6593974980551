"""Reading the profiles of a study: what was profiled, and the operators in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pandas as pd

from scaling_study.common.file_errors import UnusableError
from scaling_study.common.problems import shorten
from scaling_study.common.storage import read_json
from scaling_study.profiling.operators import operator_rows
from scaling_study.records.columns import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SCHEMA_VERSION = 3
RECOMMENDED = "recommended"
"""The target whose launch the analysis chose; all others are named by their launch."""
ROLES = ("default", "baseline")
"""Come first, in this order; the recommended launch comes last."""

Manifest = dict[str, Any]
Kind = Literal["counts", "launches"]
"""What two compared profiles differ in."""
Profile = TypeVar("Profile")


class ProfileError(UnusableError):
    """A profile cannot be read."""


def profile_folders(study_folder: Path) -> list[Path]:
    """Folders of a study that hold a profile, in the order of their names."""
    return sorted(path.parent for path in study_folder.glob("profile/*/profile.json"))


def read_manifests(folders: Iterable[Path]) -> list[Manifest]:
    """Read what was profiled: the content of each profile.json, with its ``folder``.

    Args:
        folders: of one target each.

    Returns:
        The default first, the recommended launch last.

    Raises:
        ProfileError: a file is missing, broken, or of another version.
    """
    manifests = [_read_manifest(folder) for folder in folders]

    def place(manifest: Manifest) -> tuple[bool, int, str]:
        role = manifest["role"]
        return (
            manifest["target"] == RECOMMENDED,
            ROLES.index(role) if role in ROLES else len(ROLES),
            manifest["target"],
        )

    return sorted(manifests, key=place)


def _unusable(path: Path, what: object) -> ProfileError:
    return ProfileError(
        f"{path}: {what}: delete the folder of this profile and run the same command again: it is "
        "profiled anew"
    )


def _read_manifest(folder: Path) -> Manifest:
    path = folder / "profile.json"
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        what = f"version {shorten(version)}, this program reads {SCHEMA_VERSION}"
        raise _unusable(path, what)
    return {**content, "folder": folder}


def kind_of(point: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """A point's profile of one kind, if it was taken."""
    return next(
        (entry for entry in point["kinds"] if entry["kind"] == kind and entry["status"] == "ok"),
        None,
    )


def read_operators(manifests: Iterable[Manifest]) -> pd.DataFrame:
    """Read the operators of all profiled points into one table.

    Args:
        manifests: of ``read_manifests``. A launch that several targets share is read once.

    Raises:
        ProfileError: a file is missing or broken.
    """
    frames: dict[tuple[str, str, int], pd.DataFrame] = {}
    for manifest in manifests:
        for point in manifest["points"]:
            profile = kind_of(point, "operators")
            key = (manifest["machine"], manifest["launch"], point["n"])
            if profile is None or key in frames:
                continue
            path = manifest["folder"] / str(point["n"]) / "operators.json"
            try:
                frames[key] = operator_rows(
                    read_json(path),
                    **{name: manifest[name] for name in ("machine", "launch", "label", "role")},
                    n=point["n"],
                    overhead=profile["overhead"],
                )
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise _unusable(path, shorten(error)) from error
    return OPERATORS.frame(pd.concat(frames.values(), ignore_index=True) if frames else None)


def read_profiles(folders: Iterable[Path]) -> tuple[list[Manifest], pd.DataFrame]:
    """Read what was profiled, and its rows of tables/operators.

    Raises:
        ProfileError: a file is missing, broken, or of another version.
    """
    manifests = read_manifests(folders)
    return manifests, read_operators(manifests)


def choose_pairs(
    manifests: Sequence[Mapping[str, Any]], found: Mapping[str, Mapping[int, Profile]]
) -> list[tuple[Kind, Profile, Profile]]:
    """Choose which profiles of one machine are compared.

    Args:
        manifests: of one machine, of ``read_manifests``.
        found: a profile of each launch and process count that has one.

    Returns:
        For each launch the lowest against the highest process count; then the default against the
        recommended launch, at the highest count that both have.
    """
    pairs: list[tuple[Kind, Profile, Profile]] = [
        ("counts", own[min(own)], own[max(own)]) for own in found.values() if len(own) > 1
    ]
    default = next((one["launch"] for one in manifests if one["role"] == ROLES[0]), None)
    recommended = next((one["launch"] for one in manifests if one["target"] == RECOMMENDED), None)
    both = found.get(default or "", {}).keys() & found.get(recommended or "", {}).keys()
    if both and default != recommended:
        n = max(both)
        pairs.append(("launches", found[default or ""][n], found[recommended or ""][n]))
    return pairs
