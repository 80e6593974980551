"""A digest of the code that measures: when it changes, the study measures again.

The digest of a stage covers the modules that it imports, directly or through others, anywhere in
their text except for type checking. Comments, docstrings and blank lines are removed first, so
their changes do not count. The rest is hashed as text, so that the digest is the same with every
version of Python.
"""

import ast
import functools
import hashlib
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PACKAGE = "scaling_study"
FOLDER = Path(__file__).parents[1]


class Module(NamedTuple):
    """A module's text without comments and docstrings, and the package's modules it imports."""

    code: str
    imports: tuple[str, ...]


def of_modules(*roots: str, further: Iterable[Path] = ()) -> str:
    """Return the SHA-256 digest of code, as 64 hexadecimal digits.

    Args:
        roots: modules of this package, such as ``runner/measure``, or folders, such as
            ``launch/axes``, for all modules in them. Modules that they import are included.
        further: files outside of the package.
    """
    found = hashlib.sha256()
    for file in [*(FOLDER / f"{name}.py" for name in imported(*roots)), *further]:
        found.update(_module(file).code.encode() + b"\0")
    return found.hexdigest()


def imported(*roots: str) -> list[str]:
    """Return some modules and all that they import from this package, sorted.

    Args:
        roots: as for ``of_modules``.
    """
    modules: set[str] = set()
    left = [name for root in roots for name in _named(root)]
    while left:
        name = left.pop()
        if name not in modules:
            modules.add(name)
            left += _module(FOLDER / f"{name}.py").imports
    return sorted(modules)


def _named(root: str) -> list[str]:
    files = (FOLDER / root).glob("*.py")
    return [f"{root}/{file.stem}" for file in files if file.stem != "__init__"] or [root]


@functools.cache
def _module(file: Path) -> Module:
    return read(file.read_text(encoding="utf-8"))


def read(text: str) -> Module:
    """Return a module's code and imports.

    Raises:
        SyntaxError: the text is not Python.
    """
    lines = dict(enumerate(text.split("\n"), start=1))
    names: set[str] = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        # Docstrings, also those of attributes. The formatter puts nothing else on these lines.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT:
            lines[row] = lines[row][:column]
    paths = {one.removeprefix(f"{PACKAGE}.").replace(".", "/") for one in names}
    return Module(
        "\n".join(line.rstrip() for line in lines.values() if line.strip()),
        tuple(path for path in sorted(paths) if (FOLDER / f"{path}.py").is_file()),
    )
