"""Pictures of every page for the documents: `python -m tests.browser.screenshots docs/pages`.

Each page on a desk and on a phone, in both colours and languages, empty and with an error, each of
a few ten kilobytes. They are made by hand when the pages change, and looked at. The Japanese ones
need a font that has the letters, for instance the package fonts-ipafont-gothic.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.browser.grid import BrowserGrid
from tests.browser.pages import DESK, PATHS, PHONE, fill, is_drawn, path_of

QUALITY = 40


def main() -> None:
    """Make them."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots")
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with BrowserGrid(Path(folder)) as grid:
            for name in ("overview", "jobs", "dead", "arrays", "batches", "files"):
                shoot(browser, grid, directory / f"empty-{name}.jpeg", PATHS[name])
            fill(grid)
            for name in PATHS:
                path = path_of(grid, name)
                shoot(browser, grid, directory / f"desk-{name}.jpeg", path)
                shoot(browser, grid, directory / f"phone-{name}.jpeg", path, is_phone=True)
                shoot(browser, grid, directory / f"dark-{name}.jpeg", path, is_dark=True)
                shoot(browser, grid, directory / f"ja-{name}.jpeg", path, language="ja-JP")
            shoot(browser, grid, directory / "error-jobs.jpeg", "/jobs", error=True)
        browser.close()


def shoot(
    browser: Browser,
    grid: BrowserGrid,
    file: Path,
    path: str,
    *,
    is_phone: bool = False,
    is_dark: bool = False,
    language: str = "en-GB",
    error: bool = False,
) -> None:
    """One picture."""
    context = browser.new_context(
        viewport=PHONE if is_phone else DESK,
        color_scheme="dark" if is_dark else "light",
        locale=language,
        timezone_id="Asia/Tokyo",
    )
    page = context.new_page()
    if error:
        told = {
            "error": {
                "code": "OVERLOADED",
                "message": "4096 reads are pending",
                "todo": "ask again",
            }
        }
        page.route("**/api/v1/jobs?*", lambda route: route.fulfill(status=503, json=told))
    page.goto(f"{grid.url(0)}{path}")
    is_drawn(page)
    page.screenshot(path=file, type="jpeg", quality=QUALITY, animations="disabled")
    context.close()


if __name__ == "__main__":
    main()
