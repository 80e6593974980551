"""Puts this folder on the path of all tests, those in folders below it too, and opens a browser."""

import pytest

import browser


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
