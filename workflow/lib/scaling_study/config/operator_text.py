"""Reads the text tables that torch's profiler prints: ``prof.key_averages().table()``.

Columns for memory, devices, FLOPs, shapes and stacks are optional. A saved table may have text
around it, or lack its ruled lines. Format: ``_build_table`` in torch/autograd/profiler_util.py
(torch 1.8 and later).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from scaling_study.common.problems import ConfigError, Problem, shorten

NAME, SELF, TOTAL, MEAN, CALLS = "Name", "Self CPU", "CPU total", "CPU time avg", "# of Calls"
KNOWN = {NAME, SELF, TOTAL, MEAN, CALLS, "Self CPU %", "CPU total %"}
"""Columns that are read, or that follow from these."""
FLOPS = re.compile(r"Total ([KMGTP]?)FLOPs")
"""``MFLOPS`` without ``Total`` (torch 1.8) is a rate, not an amount, and is not read."""
POWERS = {letter: 1000.0**power for power, letter in enumerate(["", "K", "M", "G", "T", "P"])}
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
HEADING = "a line with the columns Name, Self CPU and # of Calls, as torch prints it"

_CELL = re.compile(r"\S+(?: \S+)*")  # columns are at least two blanks apart
_RULE = re.compile(r"\s*-{3,}(?:\s+-{3,})*\s*")
_FOOTER = re.compile(r"\s*(?:Self )?\w+ time total:.*")
_TOTAL = re.compile(r"\s*Self CPU time total:\s*(.*?)\s*")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d+)?")
_TIME = re.compile(rf"({_NUMBER.pattern})({'|'.join(SECONDS)})")
_COUNT = re.compile(r"[1-9]\d{0,14}")


@dataclass(frozen=True, slots=True)
class OperatorLine:
    """An operator, as a line of the table shows it. Its times are sums over all calls.

    Attributes:
        operator: its name as printed; ends in ``...`` if torch has cut it.
        calls: how often it was called.
        self_s: time in it, without the operators that it called.
        total_s: time in it; None if the table has none.
        flops: floating-point operations; None if torch does not know them.
    """

    operator: str
    calls: int
    self_s: float
    total_s: float | None
    flops: float | None


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """A table of torch's profiler.

    Attributes:
        rows: in the order of the text.
        self_s: self time of all operators, also of those that the table leaves out, from the line
            below the table; None without that line.
        unread: names of the columns that are not used.
    """

    rows: tuple[OperatorLine, ...]
    self_s: float | None
    unread: tuple[str, ...]


def parse_table(text: str) -> OperatorTable:
    """Read the one table in a text.

    Raises:
        ConfigError: there is none or more than one, or lines cannot be read; with all mistakes.
    """
    lines = [line.expandtabs() for line in text.removeprefix("\ufeff").splitlines()]
    headers = [at for at, line in enumerate(lines) if _is_header(line)]
    if not headers:
        raise _mistake("has no table of torch's profiler", HEADING)
    if len(headers) > 1:
        places = ", ".join(str(at + 1) for at in headers)
        raise _mistake(f"has tables that begin in the lines {places}", "one table in each file")
    (header,) = headers
    columns = _CELL.findall(lines[header])
    name_end = lines[header].index(NAME) + len(NAME)
    rows: list[OperatorLine] = []
    problems: list[Problem] = []
    for number, line in enumerate(lines[header + 1 :], header + 2):
        if _FOOTER.fullmatch(line) or (_RULE.fullmatch(line) and (rows or problems)):
            break
        if not line[:name_end].strip(" -"):  # a rule, or further lines of a stack
            continue
        try:
            rows.append(_read_row(line, columns))
        except ConfigError as error:
            problems += [replace(one, what=f"line {number}: {one.what}") for one in error.problems]
    if problems:
        raise ConfigError(problems)
    if not rows:
        raise _mistake("has no row below its header", "rows of operators")
    total = next(filter(None, map(_TOTAL.fullmatch, lines)), None)
    return OperatorTable(
        rows=tuple(rows),
        self_s=_read_time(total[1]) if total else None,
        unread=tuple(name for name in columns if name not in KNOWN and not FLOPS.fullmatch(name)),
    )


def _mistake(what: str, allowed: str) -> ConfigError:
    return ConfigError([Problem((), "", what, allowed)])


def _is_header(line: str) -> bool:
    columns = _CELL.findall(line)
    return {SELF, CALLS} <= set(columns) and columns[0] == NAME


def _read_row(line: str, columns: Sequence[str]) -> OperatorLine:
    """Read an operator. Its name may have wide blanks; a stack after the numbers may be missing.

    Raises:
        ConfigError: a number is missing, or is not a number.
    """
    found = _CELL.findall(line)
    extra = max(0, len(found) - len(columns))
    name = "  ".join(found[: extra + 1])
    cells = dict(zip_longest(columns, [name, *found[extra + 1 :]], fillvalue=""))
    if not _COUNT.fullmatch(cells[CALLS]):
        what = f"{shorten(cells[CALLS])} is no number of calls"
        raise _mistake(what, "a whole number, at least 1")
    calls, self_s = int(cells[CALLS]), _read_time(cells[SELF])
    total_s = _read_time(cells[TOTAL]) if TOTAL in cells else None
    if MEAN in cells:  # it has more digits than the sum
        total_s = calls * _read_time(cells[MEAN])
    return OperatorLine(name, calls, self_s, total_s, _read_flops(cells))


def _read_time(text: str) -> float:
    match = _TIME.fullmatch(text)
    if not match:
        raise _mistake(f"{shorten(text)} is no time", "a number with us, ms or s")
    return float(match[1]) * SECONDS[match[2]]


def _read_flops(cells: Mapping[str, str]) -> float | None:
    for column, text in cells.items():
        power = FLOPS.fullmatch(column)
        if power and text not in {"", "--"}:
            if not _NUMBER.fullmatch(text):
                raise _mistake(f"{shorten(text)} is no amount of FLOPs", "a number, or --")
            return float(text) * POWERS[power[1]]
    return None
