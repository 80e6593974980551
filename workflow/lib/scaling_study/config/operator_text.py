"""Reads the text tables that torch's profiler prints: ``prof.key_averages().table()``.

Memory, device, FLOPs, shape and stack columns are there as asked for, and people save such tables
with text around them or without their ruled lines. Format: ``_build_table`` in
torch/autograd/profiler_util.py (torch 1.8 and later).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MICRO = ("us", "\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s")
SECONDS = {"ns": 1e-9, **dict.fromkeys(MICRO, 1e-6), "ms": 1e-3, "s": 1.0}
TIME_ALLOWED = "a number with ns, us, ms or s"
NAME = "name"
MEANINGS = {
    "name": NAME,
    "self cpu": "self",
    "self cpu %": "self share",
    "cpu total": "total",
    "cpu total %": "total share",
    "cpu time avg": "mean",
    "# of calls": "calls",
}
"""What is read, by the header's words in lower case."""
FLOPS = re.compile(r"Total ([KMGTP]?)FLOPs", re.IGNORECASE)
"""``MFLOPS`` without ``Total`` (torch 1.8) is a rate, not an amount, and is not read."""
POWERS = {letter: 1000.0**power for power, letter in enumerate(["", "K", "M", "G", "T", "P"])}
TRUNCATED = "..."

_CELL = re.compile(r"\S+(?: \S+)*")  # columns are at least two blanks apart
_RULE = re.compile(r"\s*-{3,}(?:\s+-{3,})*\s*")
_TOTAL = re.compile(r"\s*Self CPU time total:\s*(.*?)\s*")
_FOOTER = re.compile(r"\s*(?:Self )?\w+ time total:.*")
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TIME = re.compile(rf"({_NUMBER})\s*({'|'.join(SECONDS)})")
_PERCENT = re.compile(rf"({_NUMBER})\s*%")
_COUNT = re.compile(r"\d{1,15}")
_PLAIN = re.compile(_NUMBER)
_ABSENT = {"", "-", "--"}


@dataclass(frozen=True, slots=True)
class Mistake:
    """What cannot be read.

    Attributes:
        line: where, from 1; None for the text as a whole.
        what: what is wrong.
        allowed: what would be right.
    """

    line: int | None
    what: str
    allowed: str

    def __str__(self) -> str:
        """Say it all in one line."""
        place = "" if self.line is None else f"line {self.line}: "
        return f"{place}{self.what}; allowed: {self.allowed}"


class TableError(ValueError):
    """All that is wrong with a table; its text has one line for each mistake."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, mistakes)))


@dataclass(frozen=True, slots=True)
class Row:
    """An operator, as a line shows it; its times are sums over all calls.

    Attributes:
        name: as printed; ends in ``...`` where torch has cut it.
        line: in the text, from 1.
        calls: how often it was called.
        self_s: time in it, without the operators that it called.
        self_share: `self_s` over that of all operators, as printed; None where it is not.
        total_s: time in it; None where no column tells.
        mean_s: `total_s` for each call, as printed where it is.
        flops: floating-point operations; None where torch does not know.
    """

    name: str
    line: int
    calls: int
    self_s: float
    self_share: float | None
    total_s: float | None
    mean_s: float | None
    flops: float | None


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """A table of torch's profiler.

    Attributes:
        rows: in the order of the text.
        self_s: self time of all operators, also of those that the table leaves out, from the line
            below the table or from the largest percentage; None where there is neither.
        unread: names of the columns that are not used.
    """

    rows: tuple[Row, ...]
    self_s: float | None
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Header:
    """The line with the columns' names.

    Attributes:
        line: its index.
        names: of the columns.
        spans: start and end of each column, where a ruled line shows them.
    """

    line: int
    names: tuple[str, ...]
    spans: tuple[tuple[int, int], ...] | None

    @property
    def meanings(self) -> list[str | None]:
        """What each column means, None for those that are not read."""
        return [_meaning(name) for name in self.names]

    @property
    def flops_scale(self) -> float:
        """Floating-point operations that one unit of the FLOPs column holds."""
        matches = filter(None, map(FLOPS.fullmatch, self.names))
        return next((POWERS[match[1].upper()] for match in matches), 1.0)


def parse_time(text: str) -> float:
    """Read a time with its unit, in seconds.

    Raises:
        ValueError: it is none; the message says what was found.
    """
    match = _TIME.fullmatch(text)
    seconds = float(match[1]) * SECONDS[match[2]] if match else math.nan
    if not math.isfinite(seconds):
        raise ValueError(f"{text!r} is no time")
    return seconds


def parse_table(text: str) -> OperatorTable:
    """Read the one table in a text.

    Raises:
        TableError: there is none or more than one, columns that are needed are missing, or a line
            cannot be read; with all mistakes.
    """
    lines = [line.expandtabs() for line in text.removeprefix("\ufeff").splitlines()]
    headers = [line for line in range(len(lines)) if _is_header(lines[line])]
    if not headers:
        raise TableError([Mistake(None, "there is no table of torch's profiler in it", _HEADING)])
    header = _read_header(lines, headers[0])
    if len(headers) > 1:
        places = ", ".join(str(line + 1) for line in headers)
        what = f"tables begin in the lines {places}"
        raise TableError([Mistake(headers[1] + 1, what, "one table in each file")])
    self_s = _read_total(lines)
    _require_columns(header, self_s)
    rows: list[Row] = []
    mistakes: list[Mistake] = []
    for line, cells in _find_rows(lines, header):
        found = (
            cells
            if isinstance(cells, Mistake)
            else _read_row(line + 1, cells, header.flops_scale, self_s)
        )
        if isinstance(found, Row):
            rows.append(found)
        else:
            mistakes.append(found)
    if not rows and not mistakes:
        mistakes.append(Mistake(header.line + 1, "no row follows this header", "rows of operators"))
    if mistakes:
        raise TableError(mistakes)
    unread = tuple(
        name for name, what in zip(header.names, header.meanings, strict=True) if what is None
    )
    return OperatorTable(tuple(rows), self_s or _total_of(rows), unread)


_HEADING = "a line that begins with Name and Self CPU, columns at least two blanks apart"


def _meaning(name: str) -> str | None:
    return "flops" if FLOPS.fullmatch(name) else MEANINGS.get(name.lower())


def _is_header(line: str) -> bool:
    cells = _CELL.findall(line)
    return len(cells) > 1 and cells[0].lower() == NAME and any(map(_meaning, cells[1:]))


def _read_header(lines: Sequence[str], line: int) -> _Header:
    matches = list(_CELL.finditer(lines[line]))
    before = next(filter(str.strip, reversed(lines[:line])), "")
    after = next(filter(str.strip, lines[line + 1 :]), "")
    spans = None
    for rule in filter(_RULE.fullmatch, (before, after)):
        found = tuple(match.span() for match in re.finditer("-+", rule))
        spans = found if len(found) == len(matches) else spans
    return _Header(
        line,
        tuple(match[0] for match in matches),
        spans,
    )


def _read_total(lines: Sequence[str]) -> float | None:
    """The self time of all operators, from the line below a table.

    Raises:
        TableError: the line is there and its time cannot be read.
    """
    for line, text in enumerate(lines, 1):
        match = _TOTAL.fullmatch(text)
        if match:
            try:
                return parse_time(match[1])
            except ValueError as error:
                raise TableError([Mistake(line, str(error), TIME_ALLOWED)]) from None
    return None


def _total_of(rows: Sequence[Row]) -> float | None:
    """The self time of all operators, from the row whose percentage is the most exact."""
    largest = max(rows, key=lambda row: row.self_share or 0.0)
    return largest.self_s / largest.self_share if largest.self_share else None


def _require_columns(header: _Header, self_s: float | None) -> None:
    """Check that calls and self times are there, or what they follow from.

    Raises:
        TableError: they are not, or a column is there twice.
    """
    columns = [meaning for meaning in header.meanings if meaning]
    line = header.line + 1
    mistakes = [
        Mistake(line, f"two columns hold the {meaning}", "each column once")
        for meaning in dict.fromkeys(columns)
        if columns.count(meaning) > 1
    ]
    if "calls" not in columns and not {"total", "mean"} <= set(columns):
        mistakes.append(
            Mistake(line, "no column of calls", "# of Calls, or CPU total with CPU time avg")
        )
    if "self" not in columns and not ("self share" in columns and self_s is not None):
        allowed = "Self CPU, or Self CPU % with the line 'Self CPU time total' below the table"
        mistakes.append(Mistake(line, "no column of self times", allowed))
    if mistakes:
        raise TableError(mistakes)


def _find_rows(
    lines: Sequence[str], header: _Header
) -> Iterator[tuple[int, Mapping[str, str] | Mistake]]:
    """Find the table's rows below its header, each with its line's index.

    What stands between rows and is none is a mistake. What follows after the last row is text
    around the table, unless it follows at once: then a row is damaged.
    """
    found: list[tuple[int, Mapping[str, str] | Mistake]] = []
    waiting: list[tuple[int, Mistake]] = []
    gap = False
    for line in range(header.line + 1, len(lines)):
        text = lines[line]
        ruled = _RULE.fullmatch(text)
        if (ruled and found) or _FOOTER.fullmatch(text):
            break
        if ruled or not text.strip():
            gap = True
            continue
        cells = _split(text, header)
        if cells is not None and not any(cells.values()):
            continue  # further lines of a stack stand in a column that is not read
        if cells is None or not _looks_like_row(cells):
            what = f"{_short(text)} is no row of the table above"
            waiting.append((line, Mistake(line + 1, what, f"the {len(header.names)} columns")))
            if not gap or not found:
                found += waiting
                waiting.clear()
            continue
        found += waiting
        waiting.clear()
        found.append((line, cells))
        gap = False
    yield from found


def _short(text: str) -> str:
    shown = " ".join(text.split())
    return repr(shown if len(shown) <= 50 else f"{shown[:47]}...")  # noqa: PLR2004 (half a line)


def _looks_like_row(cells: Mapping[str, str]) -> bool:
    """Whether a line has an operator's name and at least one number in its column."""
    numbers = [text for meaning, text in cells.items() if meaning != NAME]
    return bool(cells[NAME]) and any(text[:1].isdigit() for text in numbers)


def _split(line: str, header: _Header) -> dict[str, str] | None:
    """The cells of a line by meaning; None where the line does not fit the header."""
    cells = _by_spans(line, header) or _by_blanks(line, header)
    if cells is None:
        return None
    pairs = zip(header.meanings, cells, strict=True)
    return {meaning: cell for meaning, cell in pairs if meaning is not None}


def _by_spans(line: str, header: _Header) -> list[str] | None:
    """Cut a line where the ruled line says; None where text crosses a border."""
    spans = header.spans
    if spans is None:
        return None
    borders = [(end, start) for (_, end), (start, _) in pairwise(spans)]
    outside = [line[: spans[0][0]], *(line[end:start] for end, start in borders)]
    if any(text.strip() for text in outside):
        return None
    ends = [*(end for _, end in spans[:-1]), None]
    return [line[start:end].strip() for (start, _), end in zip(spans, ends, strict=True)]


def _by_blanks(line: str, header: _Header) -> list[str] | None:
    """Cut a line at wide blanks; what is too much belongs to the name, which holds any text."""
    cells = _CELL.findall(line)
    extra = len(cells) - len(header.names)
    if extra < 0:
        return None
    matches = list(_CELL.finditer(line))
    return [line[matches[0].start() : matches[extra].end()], *cells[extra + 1 :]]


def _read_row(
    line: int, cells: Mapping[str, str], scale: float, self_total_s: float | None
) -> Row | Mistake:
    """Read a row's numbers; the first that cannot be read is the row's mistake.

    Args:
        line: from 1.
        cells: texts by meaning.
        scale: floating-point operations that one unit of the FLOPs column holds.
        self_total_s: self time of all operators, which percentages are of.
    """
    name = cells[NAME]
    try:
        self_share = _read_share(cells, "self share")
        self_s = _read_time(cells, "self")
        if self_s is None and self_share is not None and self_total_s is not None:
            self_s = self_share * self_total_s
        total_s = _read_time(cells, "total")
        mean_s = _read_time(cells, "mean")
        calls = _read_calls(cells, total_s, mean_s)
        flops = _read_flops(cells, scale)
    except _CellError as error:
        return Mistake(line, f"{error} for {_short(name)}", error.allowed)
    if self_s is None:
        return Mistake(line, f"no self time for {_short(name)}", TIME_ALLOWED)
    if total_s is None and mean_s is not None:
        total_s = mean_s * calls
    if mean_s is None and total_s is not None:
        mean_s = total_s / calls
    return Row(name, line, calls, self_s, self_share, total_s, mean_s, flops)


class _CellError(Exception):
    """A cell cannot be read."""

    def __init__(self, what: str, allowed: str) -> None:
        self.allowed = allowed
        super().__init__(what)


def _read_time(cells: Mapping[str, str], meaning: str) -> float | None:
    text = cells.get(meaning, "")
    if text in _ABSENT:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise _CellError(str(error), TIME_ALLOWED) from None


def _read_share(cells: Mapping[str, str], meaning: str) -> float | None:
    text = cells.get(meaning, "")
    if text in _ABSENT or text == "NaN":  # of no time at all
        return None
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise _CellError(f"{text!r} is no percentage", "a number with %")
    return float(match[1]) / 100


def _read_calls(cells: Mapping[str, str], total_s: float | None, mean_s: float | None) -> int:
    """The number of calls, where need be from the time of all and of each."""
    text = cells.get("calls")
    if text is None:
        if total_s is None or not mean_s:
            raise _CellError("no number of calls", "# of Calls, or CPU total with CPU time avg")
        return max(1, round(total_s / mean_s))
    if not _COUNT.fullmatch(text) or int(text) == 0:
        raise _CellError(f"{text!r} is no number of calls", "a whole number, at least 1")
    return int(text)


def _read_flops(cells: Mapping[str, str], scale: float) -> float | None:
    text = cells.get("flops", "")
    if text in _ABSENT:
        return None
    if not _PLAIN.fullmatch(text) or not math.isfinite(float(text)):
        raise _CellError(f"{text!r} is no amount of FLOPs", "a number, or --")
    return float(text) * scale
