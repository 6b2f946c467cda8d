"""Jobs on the pages: submit, watch, tail, files, cancel, failure, run again."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.grid import BrowserGrid
from tests.browser.pages import is_drawn


def shows(page: Page, state: str) -> None:
    """The page of a job says that it is in this state."""
    expect(page.get_by_test_id("job-head")).to_have_attribute("data-state", state)


def submit(page: Page, url: str, program: str, *arguments: str) -> str:
    """By the form; the id of the job, whose page is then open."""
    page.goto(f"{url}/submit")
    page.get_by_test_id("submit-exec").fill(program)
    page.get_by_test_id("submit-args").fill("\n".join(arguments))
    page.get_by_test_id("submit").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    return page.url.rpartition("/")[2]


def test_a_job_is_submitted_and_its_output_seen(grid: BrowserGrid, page: Page) -> None:
    job_id = submit(page, grid.url(1), "hello", "big world")
    shows(page, "ok")
    expect(page.get_by_test_id("output-stdout")).to_contain_text("hello big world")
    result = grid.client.result_of(job_id)
    assert (result.exit_code, result.stdout) == (0, "hello big world\n")


def test_output_is_followed_while_the_program_writes(grid: BrowserGrid, page: Page) -> None:
    gate = grid.gate("tail")
    submit(page, grid.url(2), "gated", str(gate))
    shows(page, "running")
    expect(page.get_by_test_id("output-stdout")).to_contain_text("line one")
    expect(page.get_by_test_id("output-stdout")).not_to_contain_text("line two")
    gate.touch()
    expect(page.get_by_test_id("output-stdout")).to_contain_text("line two")
    shows(page, "ok")


def test_a_running_job_is_cancelled(grid: BrowserGrid, page: Page) -> None:
    job_id = submit(page, grid.url(0), "gated", str(grid.gate("never")))
    shows(page, "running")
    page.get_by_test_id("cancel").click()
    page.get_by_test_id("confirm").click()
    shows(page, "cancelled")
    view = grid.client.status(job_id)
    assert view is not None
    assert view.state == "cancelled"


def test_a_failed_job_says_why_and_is_run_again_with_other_arguments(
    grid: BrowserGrid, page: Page
) -> None:
    job_id = submit(page, grid.url(0), "checks", "bad")
    shows(page, "failed")
    expect(page.get_by_test_id("explain")).to_contain_text("exit code 4")
    page.get_by_test_id("tab-stderr").click()
    expect(page.get_by_test_id("output-stderr")).to_contain_text("bad argument: bad")
    page.get_by_test_id("again").click()
    page.get_by_test_id("args").fill("good")
    page.get_by_test_id("confirm").click()
    page.wait_for_url(lambda url: "/jobs/" in url and job_id not in url)
    shows(page, "ok")
    expect(page.get_by_test_id("output-stdout")).to_contain_text("fine")


def test_files_of_a_job_are_downloaded(grid: BrowserGrid, page: Page) -> None:
    submit(page, grid.url(1), "writes")
    shows(page, "ok")
    with page.expect_download() as download:
        page.get_by_test_id("files").get_by_role("link", name="table.csv").click()
    assert download.value.path().read_text() == "a,b\n1,2\n"


def test_output_is_text_whatever_it_says(grid: BrowserGrid, page: Page) -> None:
    submit(page, grid.url(0), "shouts")
    shows(page, "ok")
    expect(page.get_by_test_id("output-stdout")).to_contain_text("<script>")
    assert page.title() != "taken"
    assert page.get_by_test_id("output-stdout").locator("script, img").count() == 0


def test_jobs_are_filtered_marked_and_cancelled_together(grid: BrowserGrid, page: Page) -> None:
    grid.client.pause("batch")
    jobs = [grid.client.submit("hello", [str(n)], queue="batch") for n in range(60)]
    page.goto(f"{grid.url(1)}/jobs?queue=batch")
    rows = page.get_by_test_id("jobs").locator("tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_test_id("next").click()
    expect(rows).to_have_count(10)
    rows.nth(0).get_by_role("checkbox").check()
    rows.nth(3).get_by_role("checkbox").check()
    page.get_by_test_id("cancel-marked").click()
    page.get_by_test_id("confirm").click()
    page.goto(f"{grid.url(1)}/jobs?queue=batch&state=cancelled")
    expect(rows).to_have_count(2)
    states = [view.state for job in jobs if (view := grid.client.status(job.id)) is not None]
    assert states.count("cancelled") == 2
    grid.client.cancel(*(job.id for job in jobs))
    grid.client.resume("batch")


def test_a_job_is_found_by_its_id(grid: BrowserGrid, page: Page) -> None:
    job = grid.client.submit("hello", ["found"])
    page.goto(grid.url(0))
    is_drawn(page)
    page.keyboard.press("/")
    page.keyboard.type(job.id)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("job-id")).to_have_text(job.id)
