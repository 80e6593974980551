"""Count this project's lines of code by folder: no comments, docstrings or blank lines.

Python, rules, Jinja, JavaScript, CSS, YAML and Markdown are counted separately, and so are tests,
benchmarks, documents and configs.
Usage: python scripts/count_lines.py [FOLDER]
"""

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = {
    ".py": "Python", ".smk": "rules", ".j2": "Jinja", ".jinja": "Jinja", ".html": "Jinja",
    ".js": "JavaScript", ".css": "CSS", ".yaml": "YAML", ".yml": "YAML", ".md": "Markdown",
}  # fmt: skip
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
APART = {"tests", "benchmarks", "docs", "config"}


def python_lines(source: str) -> int:
    """Return how many lines hold code. A string that is a statement is documentation."""
    texts: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            texts |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT and token.type != tokenize.ENDMARKER:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - texts)


def text_lines(source: str, comment: str) -> int:
    """Return how many lines are neither blank nor a comment."""
    lines = (line.strip() for line in source.splitlines())
    return sum(bool(line) and not line.startswith(comment) for line in lines)


def count(path: Path) -> int:
    """Return a file's lines of code, or of text."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return python_lines(source)
    if path.suffix == ".smk" or path.name == "Snakefile" or KINDS[path.suffix] == "YAML":
        return text_lines(source, "#")
    return text_lines(source, "//" if path.suffix == ".js" else "\n")


def folder_of(path: Path) -> str:
    """Return the folder that a file counts under."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[:1] if parts[:1] and parts[0] in APART else parts) or "."


def main() -> None:
    """Print a row for each folder and kind, and the sums of each kind."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT)
    top = parser.parse_args().folder.resolve()
    lines: Counter[tuple[str, str]] = Counter()
    files, sums = lines.copy(), lines.copy()
    for path in sorted(top.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(ROOT).parts)
        kind = "rules" if path.name == "Snakefile" else KINDS.get(path.suffix)
        if hidden or kind is None or not path.is_file() or path.is_relative_to(ROOT / "results"):
            continue
        row, found = (folder_of(path), kind), count(path)
        lines[row] += found
        files[row] += 1
        sums[row[0] if row[0] in APART else "the project", kind] += found
    for row in sorted(lines):
        print(f"{lines[row]:7,} {files[row]:5,} files  {row[1]:11} {row[0]}")
    print()
    for (where, kind), total in sorted(sums.items()):
        print(f"{total:7,}              {kind:11} {where}")


if __name__ == "__main__":
    main()
