"""How long reading 200,000 window records takes: pydantic's dataclasses against msgspec's structs.

Both check the same types and bounds. Records are of one member with ten steps, and of 64 members
of which eight have 400 steps and the others 30. On two CPUs (AMD EPYC, Python 3.11, pydantic 2.14,
msgspec 0.22), beside other work:

    records                   | pydantic     | msgspec
    200,000 of one member     | 5.7 to 8.9 s | 0.9 to 1.0 s
    3,125 of 64 members       | 4.5 to 5.3 s | 1.4 to 2.0 s

So records are structs. Usage: python benchmarks/decoding.py
"""

import dataclasses
import functools
import operator
import time
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pydantic
from msgspec import Meta, Struct, structs

from scaling_study.records import codec
from scaling_study.records.window import DECODER, Window

RECORDS = 200_000
STRICT = pydantic.ConfigDict(strict=True, allow_inf_nan=False)
MEMBER = {
    **dict.fromkeys(("load_s", "forward_s", "backward_s", "optimizer_s"), 0.10526810000000084),
    **dict.fromkeys(("cpu_user_s", "cpu_system_s", "runqueue_s"), 0.7446527121860466),
    **dict.fromkeys(("trainer_user_s", "trainer_system_s", "trainer_runqueue_s"), 0.2304047520001),
    **dict.fromkeys(("minor_faults", "major_faults", "voluntary_switches"), 9283),
    **dict.fromkeys(("involuntary_switches", "migrations", "threads", "processes"), 13),
    "rss_bytes": 819175424,
    "active_s": 0.707047251,
    "steps_active": 125,
    "restarts": 0,
    "first_step": 7,
    "settled_us": [4970],
    "inside": 83,
    "after_us": [4642],
    "fresh": [],
}
MACHINE = {
    **dict.fromkeys(("foreign_cpu_s", "sleeping_cpu_s", "steal_s", "psi_cpu_some_s"), 0.2654830001),
    **dict.fromkeys(("psi_memory_some_s", "psi_io_some_s", "throttled_s", "frequency_mhz")),
}
WINDOW = {
    **dict.fromkeys(("cohort", "attempt", "window", "block"), 0),
    "kind": "window",
    "valid": True,
    "flags": [],
    "window_s": 0.700957097,
    "overlap": 1.0,
    "start_skew_s": 0.0,
    "machine": MACHINE,
}
"""A record with numbers as long as real ones, without its members."""


def line(*steps: int) -> bytes:
    """Return the line of a window whose members have so many steps."""
    members = [
        {
            **MEMBER,
            "slot": slot,
            "steps": count,
            "step_us": [20_000 + 37 * at for at in range(count)],
        }
        for slot, count in enumerate(steps)
    ]
    return codec.encode({**WINDOW, "n": len(steps), "members": members})


def as_pydantic(hint: Any) -> Any:
    """Return a type, of structs and with msgspec's bounds, as pydantic has it."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        return dataclass_of(hint)
    arguments = get_args(hint)
    if get_origin(hint) is Annotated:
        metas = (one for one in arguments[1:] if isinstance(one, Meta))
        bounds = [pydantic.Field(ge=one.ge, le=one.le) for one in metas if one.ge is not None]
        return Annotated[(as_pydantic(arguments[0]), *bounds)] if bounds else arguments[0]
    if not arguments or get_origin(hint) is Literal:
        return hint
    parts = tuple(map(as_pydantic, arguments))
    outer = get_origin(hint)
    return functools.reduce(operator.or_, parts) if outer is types.UnionType else outer[parts]


def dataclass_of(record: type[Struct]) -> type:
    """Return a frozen dataclass with the fields of a struct, which pydantic checks as strictly."""
    hints = get_type_hints(record, include_extras=True)
    known = sorted(structs.fields(record), key=lambda one: not one.required)
    rows = [
        (one.name, as_pydantic(hints[one.name]))
        if one.required
        else (one.name, as_pydantic(hints[one.name]), dataclasses.field(default=one.default))
        for one in known
    ]
    made = dataclasses.make_dataclass(record.__name__, rows, frozen=True, slots=True)
    made.__pydantic_config__ = STRICT  # type: ignore[attr-defined]
    return made


def seconds(decode: Callable[[bytes], object], text: bytes, times: int) -> float:
    """Return how long (s) decoding a line so often takes."""
    began = time.perf_counter()
    for _ in range(times):
        decode(text)
    return time.perf_counter() - began


if __name__ == "__main__":
    validate: Callable[[bytes], object] = pydantic.TypeAdapter(dataclass_of(Window)).validate_json
    for steps in ((10,), (400,) * 8 + (30,) * 56):
        text, times = line(*steps), RECORDS // len(steps)
        slow, fast = (seconds(decode, text, times) for decode in (validate, DECODER.decode))
        print(f"{len(steps)} members | {len(text)} bytes | {slow:.2f} s | {fast:.2f} s")
