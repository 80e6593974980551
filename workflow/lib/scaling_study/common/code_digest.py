"""A digest of the code that measures: when it changes, the study measures again.

Comments, docstrings and blank lines are removed first, so their changes do not count. The rest is
hashed as text, so that the digest is the same with every version of Python.
"""

import ast
import functools
import hashlib
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[1]


def of_modules(*names: str, further: Iterable[Path] = ()) -> str:
    """Return the SHA-256 digest of code, as 64 hexadecimal digits.

    Args:
        names: modules of this package, such as ``runner/cohort``, or folders, such as
            ``launch/counters``, for all modules in them.
        further: files outside of the package.
    """
    digest = hashlib.sha256()
    for file in [*files(*names), *further]:
        digest.update(_code_of(file).encode() + b"\0")
    return digest.hexdigest()


def files(*names: str) -> list[Path]:
    """Return the files of modules and folders, as ``of_modules`` takes them, sorted."""
    modules = {FOLDER / f"{name}.py" for name in names if (FOLDER / f"{name}.py").exists()}
    return sorted(modules.union(*((FOLDER / name).glob("*.py") for name in names)))


@functools.cache
def _code_of(file: Path) -> str:
    return code(file.read_text(encoding="utf-8"))


def code(text: str) -> str:
    """Return a module's text without comments, docstrings and blank lines.

    Raises:
        SyntaxError: the text is not Python.
    """
    lines = dict(enumerate(text.split("\n"), start=1))
    for node in ast.walk(ast.parse(text)):
        # Docstrings, also those of attributes. The formatter puts nothing else on these lines.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT:
            lines[row] = lines[row][:column]
    return "\n".join(line.rstrip() for line in lines.values() if line.strip())
