"""Looks up the files that a config names, relative to the working directory."""

from pathlib import Path

from scaling_study.common.problems import nearest_word, wrong


def require_path(path: str, allowed: str) -> None:
    """Check that there is a file or a folder.

    Raises:
        ConfigError: There is none, or it may not be looked at.
    """
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        raise wrong(path, "does not exist", allowed, nearest_file(path)) from None
    except OSError as error:
        raise wrong(path, str(error.strerror).lower(), allowed) from None
    except ValueError:  # NUL, or characters that no file name has
        raise wrong(path, "is not a path", allowed) from None


def require_file(path: str, allowed: str) -> None:
    """Check that there is a file.

    Raises:
        ConfigError: There is none, it is a folder, or it may not be looked at.
    """
    require_path(path, allowed)
    if Path(path).is_dir():
        raise wrong(path, "is a folder", allowed)


def nearest_file(path: str) -> str | None:
    """Return the file beside a missing one whose name is closest, as the config would have it."""
    missing = Path(path)
    try:
        names = [entry.name for entry in missing.parent.iterdir()]
    except OSError:  # no such folder either: then there is nothing to suggest
        return None
    close = nearest_word(missing.name, names)
    return repr(str(missing.parent / close)) if close else None
