"""A config as a file: YAML, with the mistakes that only its text shows."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scaling_study.common.problems import MASK, ConfigError, Problem, shorten

MOST_BYTES = 1 << 20  # far above any config
# The key by which Snakemake takes a config for a template (https://yte-template-engine.github.io).
YTE = "__use_yte__"
PROJECT = Path(__file__).parents[4]
WORKLOADS = "scripts/workloads"
"""Where the scripts of the shipped configs are."""


def read_config(path: Path) -> object:
    """Read a config file, unchecked but for its YAML.

    Raises:
        ConfigError: The file cannot be read, is no YAML (with line and column), is larger than any
            config, a section has a key twice, of which YAML would silently keep the last, or
            Snakemake is to run code that stands in the file.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, str(error.strerror), "a readable file") from error
    if len(content) > MOST_BYTES:
        raise _unreadable(path, f"has {len(content):,} bytes", f"at most {MOST_BYTES:,} bytes")
    try:
        root = yaml.compose(content, yaml.SafeLoader)
        problems = list(_duplicates(root, (), set())) if root else []
        value: object = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        # An unquoted value that begins with * or ! is an alias or a tag to YAML, which quotes it.
        problem = re.sub(r"(alias|tag|handle) .?['\"].*", rf"\1 {MASK}", str(error.problem))
        raise _unreadable(path, f"{problem}{place}", "YAML") from error
    except (yaml.YAMLError, ValueError) as error:  # bytes that are no text; an impossible date
        raise _unreadable(path, " ".join(str(error).split()), "YAML") from error
    except RecursionError as error:
        raise _unreadable(path, "is nested too deeply", "YAML") from error
    if isinstance(value, dict) and YTE in value:
        what = "makes Snakemake run the Python expressions in the file"
        problems.append(Problem((YTE,), shorten(value[YTE]), what, "a config without this key"))
    if problems:
        raise ConfigError(problems)
    return value


def shipped(config: Any) -> Any:
    """Return a copy of an unchecked config that finds this project's own workloads from anywhere.

    A file of the same path in the working directory comes first.
    """
    own = {str(file.relative_to(PROJECT)) for file in (PROJECT / WORKLOADS).glob("*.py")}
    match config:
        case {"workload": {"script": str(script), **others}} if (
            script in own and not others.get("cwd") and not Path(script).exists()
        ):
            return {**config, "workload": {**others, "script": str(PROJECT / script)}}
        case dict():
            return {**config}
    return config


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
