"""A config as a file: YAML, with the mistakes that only its text shows."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from scaling_study.common.problems import ConfigError, Problem


def read_config(path: Path) -> object:
    """Read a config file, unchecked but for its YAML.

    Raises:
        ConfigError: The file cannot be read or is no YAML (with line and column), or a section has
            a key twice, of which YAML would silently keep the last.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, str(error.strerror), "a readable file") from error
    try:
        root = yaml.compose(content, yaml.SafeLoader)
        problems = list(_duplicates(root, (), set())) if root else []
        value: object = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _unreadable(path, f"{error.problem}{place}", "YAML") from error
    except (yaml.YAMLError, ValueError) as error:  # bytes that are no text; an impossible date
        raise _unreadable(path, " ".join(str(error).split()), "YAML") from error
    except RecursionError as error:
        raise _unreadable(path, "is nested too deeply", "YAML") from error
    if problems:
        raise ConfigError(problems)
    return value


def _unreadable(path: Path, what: str, allowed: str) -> ConfigError:
    return ConfigError([Problem((path,), "", what, allowed)])


def _duplicates(node: yaml.Node, loc: tuple[object, ...], seen: set[int]) -> Iterator[Problem]:
    """Find repeated keys; a node that aliases repeat is looked at once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _duplicates(item, (*loc, index), seen)
    if isinstance(node, yaml.MappingNode):
        first_lines: dict[object, int] = {}
        for key, item in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "(a key that is no word)"
            line = key.start_mark.line + 1
            if name in first_lines:
                what = f"the key stands in line {first_lines[name]} and again in line {line}"
                yield Problem((*loc, name), "", what, "each key once")
            first_lines.setdefault(name, line)
            yield from _duplicates(item, (*loc, name), seen)
