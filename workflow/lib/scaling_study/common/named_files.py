"""Looks up the files that a config names."""

from __future__ import annotations

from pathlib import Path

from scaling_study.common.problems import nearest_word, wrong


def require_path(path: str, allowed: str, folder: str = "") -> None:
    """Check that there is a file or a folder.

    Args:
        path: As the config has it.
        allowed: What is allowed, for the message.
        folder: Where a relative path starts; empty for the working directory.

    Raises:
        ConfigError: There is none, or it may not be looked at.
    """
    try:
        Path(folder, path).stat()
    except (FileNotFoundError, NotADirectoryError):
        where = f"does not exist in {folder}" if folder else "does not exist"
        raise wrong(path, where, allowed, nearest_file(path, folder)) from None
    except OSError as error:
        raise wrong(path, str(error.strerror).lower(), allowed) from None
    except ValueError:  # NUL, or characters that no file name has
        raise wrong(path, "is not a path", allowed) from None


def require_file(path: str, allowed: str, folder: str = "") -> None:
    """Check that there is a file; the arguments are those of ``require_path``.

    Raises:
        ConfigError: There is none, it is a folder, or it may not be looked at.
    """
    require_path(path, allowed, folder)
    if Path(folder, path).is_dir():
        raise wrong(path, "is a folder", allowed)


def require_folder(path: str, allowed: str) -> None:
    """Check that there is a folder.

    Raises:
        ConfigError: There is none, it is a file, or it may not be looked at.
    """
    require_path(path, allowed)
    if not Path(path).is_dir():
        raise wrong(path, "is no folder", allowed)


def nearest_file(path: str, folder: str = "") -> str | None:
    """Return the file beside a missing one with the closest name, as a config would write it."""
    missing = Path(path)
    try:
        names = [entry.name for entry in Path(folder, missing.parent).iterdir()]
    except OSError:  # no such folder either: then there is nothing to suggest
        return None
    close = nearest_word(missing.name, names)
    return repr(str(missing.parent / close)) if close else None
