"""The values of ``workload.env``, one of which may be a key that nobody else must see.

They lie in one file for each study, readable by its owner alone, and reach members through their
environment. Everything else (plan, jobs, records, report) holds their names with a mask. A rerun
notices a changed value by an HMAC: a plain hash of a short value could be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scaling_study.common import file_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MASK = "••••"
"""Stands for a value wherever people look."""

OWNER_ONLY = 0o600
KEY_BYTES = 32  # of HMAC-SHA256: a longer key adds nothing (RFC 2104)


def masked(names: Iterable[str]) -> dict[str, str]:
    """Return variables of these names with a mask for each value."""
    return dict.fromkeys(names, MASK)


@dataclass(frozen=True, slots=True)
class WorkloadEnv:
    """The variables of one study.

    Attributes:
        file: where they are kept.
        key: of the HMAC; it stays the same for as long as the file is there.
        values: by name.
    """

    file: Path
    key: str
    values: Mapping[str, str]

    @classmethod
    def of(cls, file: Path, values: Mapping[str, str]) -> Self:
        """Return a study's variables with the key that is kept, or a new one; nothing is written.

        Raises:
            UnusableError: the file is damaged.
        """
        key = _read(file)["key"] if file.exists() else secrets.token_hex(KEY_BYTES)
        return cls(file, key, values)

    def reference(self) -> dict[str, str] | None:
        """Return what jobs get in place of the values; None where there are none."""
        if not self.values:
            return None
        return {"file": str(self.file), "hmac": _digest(self.key, self.values)}

    def keep(self) -> None:
        """Write the file, for which the study's lock is held.

        Raises:
            UnusableError: another run has written a key since this one has looked.
        """
        content = {"key": self.key, "env": dict(self.values)}
        if self.file.exists():
            kept = _read(self.file)
            if kept["key"] != self.key:
                raise file_errors.UnusableError(
                    f"another run has just made {self.file}: run the same command again"
                )
            if kept == content and stat.S_IMODE(self.file.stat().st_mode) == OWNER_ONLY:
                return
        elif not self.values:
            return
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self.file, content)


def read(reference: Mapping[str, str]) -> dict[str, str]:
    """Return the values that a reference stands for.

    Raises:
        UnusableError: the file is missing, damaged, or holds other values than those.
    """
    file = Path(reference["file"])
    if not file.exists():
        raise file_errors.UnusableError(
            f"{file}, with the values of workload.env, is missing: run the study's command again,"
            " which writes it"
        )
    kept = _read(file)
    values: dict[str, str] = kept["env"]
    if not hmac.compare_digest(_digest(kept["key"], values), reference["hmac"]):
        raise file_errors.UnusableError(
            f"{file} holds other values of workload.env than this job was made for: run the study's"
            " command again"
        )
    return values


def write_private(file: Path, content: object) -> None:
    """Write JSON, whole or not at all, that its owner alone may read, from the first byte on."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.new")
    beside.unlink(missing_ok=True)  # what a killed process left
    with file_errors.of(file):
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        with open(descriptor, "w", encoding="utf-8") as opened:  # noqa: PTH123 (a descriptor)
            json.dump(content, opened)
            opened.flush()
            os.fsync(descriptor)
        beside.replace(file)


def _digest(key: str, values: Mapping[str, str]) -> str:
    text = json.dumps(values, sort_keys=True)
    return hmac.new(bytes.fromhex(key), text.encode(), hashlib.sha256).hexdigest()


def _read(file: Path) -> dict[str, Any]:
    # No error quotes the file: what is damaged may be a value.
    damaged = file_errors.unreadable(file, ValueError("it is no file of workload.env"))
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        bytes.fromhex(content["key"])
        dict(content["env"])
    except (ValueError, KeyError, TypeError):
        raise damaged from None
    return dict(content)
