"""Chromium, driven by Playwright, before the pages of a real grid."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.grid import BrowserGrid
from tests.integration.patience import DEADLINE_S

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",  # it shows nothing but our own pages
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=DEADLINE_S * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the tests of a file: while Playwright runs, its thread has a loop, and the tests of
    other files that run loops of their own would fail."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserGrid]:
    """Three members with pages, two workers."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with BrowserGrid(tmp_path_factory.mktemp("grid")) as grid:
        yield grid


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser of a new visitor, on a desk, in English."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id="Asia/Tokyo"
    )
    context.set_default_timeout(DEADLINE_S * 1000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page on which no script may fail."""
    page = context.new_page()
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    yield page
    assert not failures
