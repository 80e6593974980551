"""A real study with hostile names, arguments and output, without any network.

It runs in a sandbox that shows every file that was written anywhere (see ``sandbox``), through the
real command. Its script fails unless it gets its arguments and variables letter for letter.
"""

import compileall
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import hostile_study
import sandbox
import texts
from jobs import read

REASON = sandbox.reason_against()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
# What a folder's name may hold that Snakemake itself can live with.
FOLDER = f'it\'s "a" $(touch {texts.CANARY}-j);`touch {texts.CANARY}-k` & <b>\u05e2 \U0001f600'


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The study, run to its end in a sandbox, and what is left of it."""
    base = tmp_path_factory.mktemp("sandboxed")
    folder = hostile_study.make(base / FOLDER)
    # As `make` does: a person's run finds the package compiled.
    compileall.compile_dir(folder / "workflow/lib", quiet=1)
    left, home = base / "left", base / "home"
    left.mkdir()
    home.mkdir()
    env = hostile_study.environment(folder, home)
    kept = {"kept": hostile_study.FOLDERS, "output": left}
    done = sandbox.run(hostile_study.COMMAND, cwd=folder, env=env, **kept)
    return SimpleNamespace(folder=folder, left=left, done=done, report=left / hostile_study.REPORT)


def test_the_sandbox_shows_every_write_and_has_no_network(tmp_path):
    paths = ["/tmp/there", "/dev/shm/memory", "/new folder/inner", "/etc/passwd"]  # noqa: S108
    script = (
        "touch here gone /tmp/there /dev/shm/memory; rm gone /etc/passwd; "
        "mkdir -p '/new folder/inner'; cat /proc/net/dev; "
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 80))'"
    )
    done = sandbox.run(["/bin/bash", "-c", script], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    assert set(map(str, done.written)) == {f"{tmp_path}/here", "/new folder", *paths}
    assert Path("/etc/passwd").exists()
    assert re.findall(r"^ *(\w+): +\d", done.output, re.MULTILINE) == ["lo"]
    assert "Network is unreachable" in done.output


def test_it_comes_to_its_end(study):
    assert study.done.returncode == 0, study.done.output
    files = (study.left / hostile_study.RESULTS / "measure").glob("*/0.jsonl")
    assert any(
        read(path)["readback"] for path in files
    )  # members trained: they found every argument and variable as it should be
    assert study.report.exists()


def test_nothing_is_executed_or_written_outside(study):
    """Nothing in the home, /tmp, /dev/shm, the project's code or beside the script is left."""
    own = [study.folder / name for name in hostile_study.FOLDERS]
    for path in study.done.written:
        assert any(map(path.is_relative_to, own)), path
        assert texts.CANARY not in path.name, path


def test_the_terminal_gets_plain_lines(study):
    for line in study.done.output.split("\n"):
        assert line.replace("\t", " ").isprintable(), repr(line)  # Snakemake's lists have tabs
        assert len(line) < 5000, line[:200]
    assert "%s" in study.done.output  # the names are there, as text


def test_output_is_kept_as_text(study):
    """The launch that failed has its output in the records, and no byte of it was lost to HTML."""
    failed = json.loads((study.left / hostile_study.RESULTS / "analysis/failures.json")
                        .read_text())["machines"][0]  # fmt: skip
    logs = [member["log"] for member in failed["members"]]
    assert any(texts.HTML + texts.SHELL + texts.ESCAPES in log for log in logs)


OVERFLOW = """[...document.querySelectorAll('body *')].filter((e) => {
  const box = e.getBoundingClientRect();
  if (box.right <= innerWidth + 1 || !box.width) return false;
  for (let up = e.parentElement; up; up = up.parentElement) {
    const how = getComputedStyle(up).overflowX;
    if (how === 'auto' || how === 'scroll' || how === 'hidden') return false;
  }
  return true;
}).map((e) => e.tagName + '.' + e.className).slice(0, 5)"""


@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_shows_it_as_text(study, page, width):
    page.open(study.report, width=width)
    page.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    page.run("document.querySelectorAll('button').forEach((e) => e.click())")
    assert page.run(f"window.{texts.OWNED}") is None
    assert page.run("document.querySelectorAll('script:not([type])').length") == 1
    assert page.run("document.querySelectorAll('[onload], [onerror], [onmouseover]').length") == 0
    assert page.run("document.querySelectorAll('[href^=javascript]').length") == 0
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run(OVERFLOW) == []
    shown = page.run("document.body.textContent")
    for text in (texts.HTML, texts.QUOTES, texts.TEMPLATE, texts.FOUR_BYTES, texts.LONG):
        assert text in shown


def test_figures_run_nothing_of_theirs(study, page):
    figures = sorted((study.left / hostile_study.RESULTS / "figures").glob("*.svg"))
    assert figures
    for path in figures:
        page.open(path)
        assert page.run("document.documentElement.tagName") == "svg", path
        assert page.run(f"window.{texts.OWNED}") is None, path
    for path in figures[0].parent.glob("*.speedscope.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["profiles"][0]["samples"]
        folded = path.with_name(path.name.replace(".speedscope.json", ".folded"))
        for line in folded.read_text(encoding="utf-8").split("\n")[:-1]:
            assert re.fullmatch(r"\S.* [\d.]+", line)
            assert line.isprintable()
