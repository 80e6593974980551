"""Puts this folder on the path of all tests, those in folders below it too, and opens a browser."""

import contextlib
import os
import signal
from pathlib import Path

import hypothesis
import pytest

import browser
import configs
from scaling_study.config.launches import is_ours

# Studies of tests have no launch that the shell of whoever runs them makes.
for name in filter(is_ours, list(os.environ)):
    del os.environ[name]

# Studies ignore what their caller ignores, and a shell in the background ignores Ctrl-C.
for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(signum) == signal.SIG_IGN:
        signal.signal(signum, signal.SIG_DFL)

# An example takes as long as the machine is busy; none is wrong for that.
hypothesis.settings.register_profile(
    "unhurried",
    max_examples=50,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("unhurried")

HERE = Path(__file__).parent


def lines_of(name):
    """What a list of tests names."""
    lines = (HERE / name).read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


def mark_long(items):
    """Mark what tests/long.txt names, each of which must be there in the files of this run."""
    lines = lines_of("long.txt")
    unused, seen = set(lines), set()
    for item in items:
        file = str(item.path.relative_to(HERE))
        test = f"{file}::{item.originalname}"
        names = {file, test, *([f"{test}[1:]"] if test in seen else [])}
        seen |= {file, test}
        if names.intersection(lines):
            item.add_marker(pytest.mark.long)
        unused -= names
    files = {line: line.split("::")[0] for line in unused}
    unused = {line for line, file in files.items() if file in seen or not (HERE / file).exists()}
    # With a part of a file's tests asked for, the others are not here.
    whole = not any("::" in argument for argument in items[0].config.args) if items else True
    assert not (whole and unused), f"tests/long.txt names what is not there: {unused}"


@pytest.hookimpl(tryfirst=True)  # before those are left out that were not asked for
def pytest_collection_modifyitems(items):
    paths = {HERE / name for name in lines_of("alone.txt")}
    missing = [str(path) for path in paths if not path.exists()]
    assert missing == [], f"tests/alone.txt names what is not there: {missing}"
    mark_long(items)
    for item in items:
        if item.path in paths:
            item.add_marker(pytest.mark.alone)
    # Whole studies first: with them at the end, one process works while the others have nothing.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="module")
def config_folder(tmp_path_factory):
    """The working directory, with the files that the configs of tests name."""
    folder = tmp_path_factory.mktemp("configs")
    configs.make_files(folder)
    with contextlib.chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def shared_page():
    if browser.executable() is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    with browser.browse() as page:
        yield page


@pytest.fixture
def page(shared_page):
    """A page of which nothing may fail, and that asks for nothing but files."""
    shared_page.problems.clear()
    shared_page.requests.clear()
    yield shared_page
    assert shared_page.problems == []
    assert [url for url in shared_page.requests if not url.startswith(("file:", "data:"))] == []
