"""Config files: their YAML, the mistakes that only the text shows, and the lines of mistakes."""

import codecs
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from scaling_study.common.problems import MASK, ConfigError, Problem, shorten
from scaling_study.common.storage import PROJECT

MOST_BYTES = 1 << 20  # far above any config
# With this key, Snakemake runs a config as a template (https://yte-template-engine.github.io).
YTE = "__use_yte__"
SHIPPED = ("scripts/workloads/", "config/tables/")
"""Folders of the files that shipped configs name."""
TEXTS = {("workload", "command"), ("workload", "args"), ("workload", "env")}
"""Lists and sections of texts, whatever YAML takes the texts for."""
NULL, INT = "tag:yaml.org,2002:null", "tag:yaml.org,2002:int"
DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)")


def read_config(path: Path) -> object:
    """Read a config file, and check its YAML alone.

    Raises:
        ConfigError: The file cannot be read, is not YAML (with line and column), is larger than any
            config, has a key twice in one section (YAML would silently keep the last) or a number
            that is another one to YAML (010 is 8), or would make Snakemake run code in it.
    """
    root, value = _read(path)
    problems = list(_mistakes(root, (), set())) if root else []
    if isinstance(value, dict) and YTE in value:
        what = "makes Snakemake run the Python expressions in the file"
        problems.append(Problem((YTE,), shorten(value[YTE]), what, "a config without this key"))
    if problems:
        raise located(ConfigError(problems), [path])
    return value


def located(error: ConfigError, paths: Iterable[Path], given: Collection[str] = ()) -> ConfigError:
    """Return an error with the file and the line of each mistake.

    Args:
        error: What is wrong with a config.
        paths: Files of the config. A value comes from the last one that has its key.
        given: Keys that the command line sets, in place of the files.
    """
    if all(problem.place for problem in error.problems):
        return error
    roots = [(path, root) for path in paths if (root := _read(path)[0])]

    def locate(problem: Problem) -> tuple[int, Problem]:
        if problem.place or not roots or set(problem.loc[:1]) & set(given):
            return 0, problem
        # The file that has most of the path; the last one of several, as Snakemake merges them.
        found = [(*_deepest(root, problem.loc), path) for path, root in roots]
        depth, line, path = max(reversed(found), key=lambda one: one[0])
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        place = f"{shown}, line {line}" if depth else str(shown)
        return line if depth else 0, replace(problem, place=place)

    problems = sorted(map(locate, error.problems), key=lambda one: one[0])
    return ConfigError(problem for _, problem in problems)


def as_written(config: object, paths: Iterable[Path]) -> object:
    """Return a config whose arguments and variables are texts as the files have them: 3.10, 0x10.

    Args:
        config: What YAML has made of the files, merged.
        paths: The files; a later one replaces lists of earlier ones, and single variables.
    """
    written: dict[object, dict[object, str]] = {}
    for path in paths:
        for name, _, section in _children(_read(path)[0]):
            for key, _, node in _children(section):
                if (name, key) in TEXTS:
                    known = written.get(key, {}) if isinstance(node, yaml.MappingNode) else {}
                    written[key] = known | _texts(node)
    if not isinstance(config, dict) or not isinstance(workload := config.get("workload"), dict):
        return config
    workload = {**workload}
    for key, texts in written.items():
        if isinstance(value := workload.get(key), dict):
            workload[key] = {name: texts.get(name, one) for name, one in value.items()}
        elif isinstance(value, list):
            workload[key] = [texts.get(at, one) for at, one in enumerate(value)]
    return {**config, "workload": workload}


def merged(first: object, second: object = None) -> object:
    """Return a config with the keys of another one, which come before its own; None is none."""
    if isinstance(first, dict) and isinstance(second, dict):
        common = {key: merged(first[key], second[key]) for key in first.keys() & second.keys()}
        return {**first, **second, **common}
    return first if second is None else second


def _texts(node: yaml.Node) -> dict[object, str]:
    """Return the texts in a list or section, without what is empty or nested."""
    return {
        key: item.value
        for key, _, item in _children(node)
        if isinstance(item, yaml.ScalarNode) and item.tag != NULL
    }


def shipped(config: object) -> object:
    """Return a copy of an unchecked config that finds this project's own files from anywhere."""
    match config:
        case {"workload": {"script": script, **others}, **sections} if not others.get("cwd"):
            return {**sections, "workload": {**others, "script": _absolute(script)}}
        case {"import": {"tables": {**tables}, **others}, **sections}:
            found = {n: _absolute(table) for n, table in tables.items()}
            return {**sections, "import": {**others, "tables": found}}
        case dict():
            return {**config}
    return config


def _absolute(name: object) -> object:
    """Return the path of a shipped file, unless the working directory has a file of this name."""
    ours = isinstance(name, str) and name.startswith(SHIPPED) and (PROJECT / name).is_file()
    return str(PROJECT / str(name)) if ours and not Path(str(name)).exists() else name


def _read(path: Path) -> tuple[yaml.Node | None, object]:
    """Return a file's YAML nodes, which know their lines (None if it is empty), and its value.

    Raises:
        ConfigError: The file cannot be read, is too large, or is not YAML.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, str(error.strerror), "a readable file") from error
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _unreadable(path, "is encoded as UTF-16", "UTF-8")
    if len(content) > MOST_BYTES:
        raise _unreadable(path, f"has {len(content):,} bytes", f"at most {MOST_BYTES:,} bytes")
    try:
        return yaml.compose(content, yaml.SafeLoader), yaml.safe_load(content)
    except RecursionError as error:
        raise _unreadable(path, "is nested too deeply", "YAML") from error
    except (yaml.YAMLError, ValueError) as error:
        raise _no_yaml(path, error) from error


def _no_yaml(path: Path, error: Exception) -> ConfigError:
    """Return the error of a file that is not YAML, with a place; bad bytes and dates have none."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return _unreadable(path, " ".join(str(error).split()), "YAML")
    mark = error.problem_mark
    place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    # YAML reads an unquoted value that begins with * or ! as an alias or a tag, and its message
    # quotes the value, which may be a secret.
    problem = re.sub(r"(alias|tag|handle) .?['\"].*", rf"\1 {MASK}", str(error.problem))
    return _unreadable(path, f"{problem}{place}", "YAML")


def _unreadable(path: Path, what: str, allowed: str) -> ConfigError:
    return ConfigError([Problem((), "", what, allowed, place=str(path))])


def _children(node: yaml.Node | None) -> Iterator[tuple[object, yaml.Node, yaml.Node]]:
    """Yield the items of a node: the key or index, the node that has its line, and its value."""
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield index, item, item
    if isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            scalar = isinstance(key, yaml.ScalarNode)
            yield key.value if scalar else "(a key that is no word)", key, item


def _deepest(root: yaml.Node, loc: Iterable[object]) -> tuple[int, int]:
    """Return how many keys of a path are in a file, and the line of the last of them."""
    node, depth, line = root, 0, root.start_mark.line + 1
    for key in loc:
        below = [(mark, item) for name, mark, item in _children(node) if str(name) == str(key)]
        if not below:
            break
        mark, node = below[-1]
        depth, line = depth + 1, mark.start_mark.line + 1
    return depth, line


def _mistakes(node: yaml.Node, loc: tuple[object, ...], seen: set[int]) -> Iterator[Problem]:
    """Yield a problem for each repeated key, and for each number that is another one to YAML.

    A node that aliases repeat is checked once.
    """
    if id(node) in seen:
        return
    seen.add(id(node))
    first_lines: dict[object, int] = {}
    for key, mark, item in _children(node):
        line = mark.start_mark.line + 1
        if key in first_lines:
            what = f"the key stands in line {first_lines[key]} and again in line {line}"
            yield Problem((*loc, key), "", what, "each key once")
        first_lines.setdefault(key, line)
        if item.tag == INT and loc not in TEXTS and not DECIMAL.fullmatch(item.value):
            what = f"is {yaml.safe_load(item.value)} to YAML"
            yield Problem((*loc, key), item.value, what, "a decimal number, or a text in quotes")
        yield from _mistakes(item, (*loc, key), seen)
