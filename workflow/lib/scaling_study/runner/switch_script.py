"""The command of a recommended launch's program, and the file that applies its switches."""

import inspect
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from scaling_study.common.axis_values import Axes, Value
from scaling_study.common.problems import ConfigError
from scaling_study.launch.axes import training
from scaling_study.launch.axes.axis_table import AXES, DEFAULTS, read_value
from scaling_study.member import after_torch
from scaling_study.queues import model_server, program

TEXT = '''\
"""Start a script with {label}, in its own process.

    python {name} SCRIPT ARGUMENTS...
    python {name} -m MODULE ARGUMENTS...

It takes effect when the script imports torch. These lines of the script, after the import, do the
same without this file:

{lines}
"""

from __future__ import annotations

{modules}


{functions}


def start():
    """Make all of it true in this process, in which torch is imported."""
{calls}


call_back(start)
if __name__ == "__main__":
    del sys.path[0]
    add_path(sys.argv[1:])
    status = run_to_end(sys.argv[1:])
    sys.exit(status if status >= 0 else 128 - status)
'''

OF_LOADERS = "# ---- loaders\n"
LOADER_FUNCTIONS = ("change_arguments", "shares_out")
"""The heading of the last part of ``after_torch``, and the functions that axes take from it."""
FUTURE = "from __future__ import annotations\n"
OWN_IMPORT = re.compile(r"^ *from scaling_study\.member\.\w+ import [\w, ]+\n\n?", re.MULTILINE)


def command(python: str | None, words: Sequence[str], switches: Path | None) -> list[str]:
    """Return the command line of one process that trains one model, without its arguments.

    Args:
        python: the interpreter; None if the words are a command of their own.
        words: the program's (``work.program``).
        switches: the file that applies a launch's switches; None if it has none.
    """
    return [*([python] if python else []), *([str(switches)] if switches else []), *words]


def served_command(
    python: str, words: Sequence[str], switches: Path | None, options: Sequence[str] = ()
) -> list[str]:
    """Return the command line of a process that trains one model after the other.

    Args:
        python: the interpreter.
        words: the program's (``work.program``).
        switches: as for ``command``.
        options: further options of ``model_server.py``.
    """
    arguments = ["--switches", str(switches)] if switches else []
    return [python, str(model_server.__file__), *options, *arguments, "--", *words]


def switched(axes: Axes) -> dict[str, Value]:
    """Return the values of a launch that are applied in the process itself, by axis.

    Raises:
        ValueError: a value is not one of its axis, and may not become part of a program.
    """
    values = {
        name: value
        for name, value in axes.items()
        if name in AXES and value != DEFAULTS[name] and AXES[name].apply is not None
    }
    for name, value in values.items():
        try:
            read_value(name, value, files=False)
        except ConfigError as error:
            raise ValueError(f"{name}: {error}") from None
    return values


def lines(axes: Axes, optimizers: Iterable[str] = ()) -> list[str]:
    """Return the lines that do the same in the script itself, after it has imported torch.

    Args:
        axes: the launch's values.
        optimizers: the classes that the script uses, as far as is known.
    """
    unknown = training.UNKNOWN
    classes = training.classes(str(axes.get("optimizer_kernel", "")), optimizers)
    return [
        line.replace(unknown, optimizer)
        for name, value in switched(axes).items()
        for line in AXES[name].lines(value).splitlines()
        for optimizer in (classes if unknown in line else [unknown])
    ]


def render_switches(axes: Axes, name: str, optimizers: Iterable[str] = ()) -> str | None:
    """Return the text of the file that applies a launch's switches; None if it has none.

    Args:
        axes: the launch's values.
        name: the name of the file.
        optimizers: the classes that the script uses, as far as is known.
    """
    values = switched(axes)
    if not values:
        return None
    return TEXT.format(
        label=", ".join(f"{axis} {value}" for axis, value in values.items()),
        name=name,
        lines="\n".join(f"    {line}" for line in lines(axes, optimizers)),
        modules=_modules(values),
        functions="\n\n".join(map(_function, values)).rstrip(),
        calls="\n".join(f"    {axis}({json.dumps(value)})" for axis, value in values.items()),
    )


def _modules(axes: Iterable[str]) -> str:
    """Return the text of the modules that are copied, without parts that no switch needs."""
    after = _source(after_torch)
    if not any(name in _applied(axis) for axis in axes for name in LOADER_FUNCTIONS):
        after = after.partition(OF_LOADERS)[0].strip()
    return f"{_source(program)}\n\n\n{after}"


def _source(module: ModuleType) -> str:
    """Return a module's text without its docstring, which speaks of this package."""
    _, _, text = Path(module.__file__ or "").read_text(encoding="utf-8").partition(FUTURE)
    return OWN_IMPORT.sub("", text).strip()


def _applied(axis: str) -> str:
    return inspect.getsource(AXES[axis].apply)  # type: ignore[arg-type]


def _function(axis: str) -> str:
    return re.sub(r"^def \w+", f"def {axis}", OWN_IMPORT.sub("", _applied(axis)))
