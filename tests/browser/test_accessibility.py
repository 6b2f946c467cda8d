"""Every page, in both colours, on a desk and a phone: nothing serious for axe, nothing cut off."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.grid import BrowserGrid
from tests.browser.pages import DESK, PATHS, PHONE, fill, is_drawn, path_of
from tests.integration.patience import DEADLINE_S

SERIOUS = ("serious", "critical")
CUT_TABLES = """() => [...document.querySelectorAll(".table-wrap")]
  .filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => `${one.scrollWidth} > ${one.clientWidth}`)"""


@pytest.fixture(scope="module")
def filled(grid: BrowserGrid) -> BrowserGrid:
    """With something to show on every page."""
    fill(grid)
    return grid


@pytest.mark.parametrize(("colours", "language"), [("light", "en-GB"), ("dark", "ja-JP")])
@pytest.mark.parametrize("name", PATHS)
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_screen(
    filled: BrowserGrid, browser: Browser, name: str, colours: str, language: str
) -> None:
    with browser.new_context(
        color_scheme="dark" if colours == "dark" else "light",
        locale=language,
        reduced_motion="reduce",
    ) as context:
        page = opened(context.new_page(), filled, name)
        found = Axe().run(page).response["violations"]
        page.set_viewport_size(DESK)
        cut = page.evaluate(CUT_TABLES)
        page.set_viewport_size(PHONE)
        width = page.evaluate("() => document.documentElement.scrollWidth")
    serious = [one for one in found if one["impact"] in SERIOUS]
    assert not serious, [(one["id"], [node["html"] for node in one["nodes"]]) for one in serious]
    assert not cut
    assert width <= PHONE["width"]


@pytest.mark.parametrize("name", ["jobs", "dead", "arrays", "batches", "queues", "files"])
def test_an_error_of_the_server_is_told_with_a_way_on(
    filled: BrowserGrid, page: Page, name: str
) -> None:
    answers = [503]

    def refuse(route: object) -> None:
        status = answers.pop() if answers else 0
        if status:
            route.fulfill(  # type: ignore[attr-defined]
                status=status,
                json={"error": {"code": "NO_LEADER", "message": "no leader", "todo": "wait"}},
            )
        else:
            route.continue_()  # type: ignore[attr-defined]

    page.route(f"**/api/v1{PATHS[name]}?*", refuse)
    page.goto(f"{filled.url(0)}{PATHS[name]}")
    expect(page.get_by_test_id("error").first).to_contain_text("no leader")
    page.get_by_test_id("error").first.get_by_role("button").click()
    expect(page.get_by_test_id("error")).to_have_count(0)


def opened(page: Page, grid: BrowserGrid, name: str) -> Page:
    page.set_default_timeout(DEADLINE_S * 1000)
    page.goto(f"{grid.url(0)}{path_of(grid, name)}")
    is_drawn(page)
    return page
