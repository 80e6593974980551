"""Values that are not words, as several axes take them: counts, libraries, ids."""

from __future__ import annotations

from scaling_study.common.problems import found, require_file, wrong
from scaling_study.common.topology import format_cpu_list, parse_cpu_list
from scaling_study.launch.axes.axis import Others

# Far above any machine; a larger count is a slip of the keyboard.
MOST_THREADS = 4096


def counts(least: int) -> Others:
    """Return whole numbers from ``least`` on as the values of an axis."""
    allowed = f"a whole number from {least} to {MOST_THREADS}"

    def read(value: object, _files: bool) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        if not least <= value <= MOST_THREADS:
            raise wrong(value, "is not allowed", allowed)
        return value

    return Others(allowed, read)


def _read_library(value: object, files: bool) -> str | None:
    if not isinstance(value, str) or "/" not in value:
        return None
    if files:
        require_file(value, LIBRARY.allowed)
    return value


def read_id_list(value: object, allowed: str) -> str:
    """Read a list of ids such as ``0-3,8``, or one id.

    Raises:
        ConfigError: the value is neither.
    """
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number and not isinstance(value, str):
        raise wrong(value, found(value), allowed)
    try:
        ids = parse_cpu_list(str(value))
    except ValueError:
        ids = ()
    if not ids:
        raise wrong(value, "is not a list of ids", allowed)
    return format_cpu_list(ids)


COUNT = counts(1)
LIBRARY = Others("the path of a shared library (with a /)", _read_library)
