"""Pages through faults: the leader is killed, the member that takes the writes, the server."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.grid import BrowserGrid
from tests.browser.test_jobs import shows, submit
from tests.integration.procs import until


def test_a_page_goes_on_through_the_death_of_the_leader(grid: BrowserGrid, page: Page) -> None:
    """Without a reload: what it shows is live again, and what is ordered there is done by the next
    leader."""
    leader = grid.leader()
    follower = (leader + 1) % 3
    page.goto(grid.url(follower))
    page.evaluate("() => { window.sameDocument = true; }")
    expect(page.get_by_test_id("link")).to_have_attribute("data-state", "live")
    grid.kill(f"member{leader}")
    until(lambda: grid.leader() != leader)
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.locator("[data-nav=submit]").click()
    page.get_by_test_id("submit-exec").fill("hello")
    page.get_by_test_id("submit-args").fill("after the leader")
    page.get_by_test_id("submit").click()
    shows(page, "ok")
    expect(page.get_by_test_id("link")).to_have_attribute("data-state", "live")
    assert page.evaluate("() => window.sameDocument")
    grid.start_member(leader)
    until(lambda: grid.is_ready(leader))


def test_a_page_whose_server_is_gone_says_so_and_comes_back(grid: BrowserGrid, page: Page) -> None:
    member = (grid.leader() + 2) % 3
    page.goto(grid.url(member))
    page.evaluate("() => { window.sameDocument = true; }")
    expect(page.get_by_test_id("link")).to_have_attribute("data-state", "live")
    grid.kill(f"member{member}")
    expect(page.get_by_test_id("banner-lost")).to_be_visible()
    grid.start_member(member)
    expect(page.get_by_test_id("link")).to_have_attribute("data-state", "live")
    expect(page.get_by_test_id("banner-lost")).to_have_count(0)
    assert page.evaluate("() => window.sameDocument")


def test_a_page_shows_what_it_knows_while_nobody_leads(grid: BrowserGrid, page: Page) -> None:
    """Two of three are gone: the third still shows jobs, and says that nobody leads."""
    job_id = submit(page, grid.url(0), "hello", "before")
    shows(page, "ok")
    until(lambda: grid.ask(2, f"/api/v1/jobs/{job_id}").get("state") == "ok")
    for number in (0, 1):
        grid.kill(f"member{number}")
    page.goto(f"{grid.url(2)}/jobs")
    expect(page.get_by_test_id("banner-leaderless")).to_be_visible()
    expect(page.get_by_test_id("jobs")).to_contain_text(job_id[:8])
    for number in (0, 1):
        grid.start_member(number)
    expect(page.get_by_test_id("banner-leaderless")).to_have_count(0)
    for number in (0, 1):
        until(lambda number=number: grid.is_ready(number))  # type: ignore[misc]
