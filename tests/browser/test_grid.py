"""The grid on the pages: dead letters, workers, queues, members, arrays, languages."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from rollq import JobSpec
from rollq.documents.jobs import batch_id
from tests.browser.grid import BrowserGrid
from tests.browser.pages import is_drawn
from tests.browser.test_jobs import shows
from tests.integration.procs import until


def row(page: Page, table: str, text: str) -> Locator:
    return page.get_by_test_id(table).locator("tbody tr", has_text=text)


def test_a_dead_letter_is_redriven_with_other_arguments(grid: BrowserGrid, page: Page) -> None:
    """It keeps its id, and ends well."""
    job = grid.client.submit("checks", ["bad"], max_attempts=1, retry_exit_codes=(4,))
    until(lambda: (view := grid.client.status(job.id)) is not None and view.state == "dead")
    page.goto(f"{grid.url(0)}/dead")
    expect(page.get_by_test_id("groups")).to_contain_text("checks")
    row(page, "dead", job.id[:8]).get_by_test_id("redrive-edited").click()
    page.get_by_test_id("args").fill("good")
    page.get_by_test_id("confirm").click()
    expect(row(page, "dead", job.id[:8])).to_have_count(0)
    page.goto(f"{grid.url(1)}/jobs/{job.id}")
    shows(page, "ok")
    result = grid.client.result_of(job.id)
    assert result.stdout == "fine\n"


def test_dead_letters_are_purged_together(grid: BrowserGrid, page: Page) -> None:
    jobs = [
        grid.client.submit("fails", [str(n)], max_attempts=1, retry_exit_codes=(3,))
        for n in range(3)
    ]
    until(lambda: len(list(grid.client.dead())) >= 3)
    page.goto(f"{grid.url(0)}/dead?exec=fails")
    expect(row(page, "dead", "fails")).to_have_count(3)
    page.get_by_test_id("purge-all").click()
    page.get_by_test_id("confirm").click()
    expect(row(page, "dead", "fails")).to_have_count(0)
    assert not {view.job_id for view in grid.client.dead()} & {job.id for job in jobs}


def test_a_worker_is_drained_and_serves_again(grid: BrowserGrid, page: Page) -> None:
    page.goto(f"{grid.url(0)}/workers")
    worker = row(page, "workers", "worker1")
    worker.get_by_test_id("drain").click()
    page.get_by_test_id("confirm").click()
    expect(worker).to_contain_text("drained")
    worker.get_by_test_id("undrain").click()
    expect(worker.get_by_test_id("drain")).to_be_visible()


def test_a_queue_is_paused_and_its_job_says_so(grid: BrowserGrid, page: Page) -> None:
    grid.client.submit("hello", queue="held").result()
    page.goto(f"{grid.url(2)}/queues")
    queue = row(page, "queues", "held")
    queue.get_by_test_id("pause").click()
    expect(queue).to_contain_text("paused")
    job = grid.client.submit("hello", queue="held")
    page.goto(f"{grid.url(2)}/jobs/{job.id}")
    expect(page.get_by_test_id("explain")).to_contain_text("paused")
    page.goto(f"{grid.url(2)}/queues")
    queue.get_by_test_id("resume").click()
    page.goto(f"{grid.url(2)}/jobs/{job.id}")
    shows(page, "ok")


def test_each_member_shows_its_disk(grid: BrowserGrid, page: Page) -> None:
    page.goto(f"{grid.url(1)}/cluster")
    for address in grid.addresses:
        disk = row(page, "members", address).get_by_test_id("member-disk")
        expect(disk).to_contain_text("free")
        expect(disk).to_contain_text("used")
        expect(disk).to_contain_text(re.compile(r"log \d"))


def test_leadership_is_handed_over(grid: BrowserGrid, page: Page) -> None:
    leader = grid.leader()
    wanted = (leader + 1) % 3
    page.goto(f"{grid.url(leader)}/cluster")
    row(page, "members", grid.addresses[wanted]).get_by_test_id("transfer").click()
    page.get_by_test_id("confirm").click()
    expect(row(page, "members", grid.addresses[wanted])).to_contain_text("leader")
    until(lambda: grid.leader() == wanted)


def test_an_array_shows_its_progress_and_its_failures(grid: BrowserGrid, page: Page) -> None:
    array = grid.client.submit_array("odd", 4)
    page.goto(f"{grid.url(1)}/arrays/{array.id}")
    expect(page.get_by_test_id("failures")).to_contain_text("2")
    page.goto(f"{grid.url(1)}/arrays")
    expect(page.get_by_test_id("arrays")).to_contain_text(array.id[:8])


def test_a_batch_shows_how_far_it_came_and_what_failed(grid: BrowserGrid, page: Page) -> None:
    specs = [JobSpec("checks", (name,)) for name in ("good", "bad", "worse")]
    part = grid.client.stage("night run/1", "0", specs)
    page.goto(f"{grid.url(1)}/batches")
    listed = row(page, "batches", "night run/1")
    expect(listed).to_contain_text("staged")
    expect(listed).to_contain_text("0 of 3")
    grid.client.commit("night run/1", [part])
    expect(listed).to_contain_text("accepted")
    listed.get_by_role("link").click()
    expect(page.get_by_test_id("entered")).to_contain_text("3 of 3")
    expect(page.get_by_test_id("failures")).to_contain_text("Exit code 4")
    page.get_by_test_id("language").click()
    expect(page.get_by_test_id("entered")).to_contain_text("3 件中 3 件")


def test_a_batch_that_is_not_known_is_said_to_be_so(grid: BrowserGrid, page: Page) -> None:
    page.goto(f"{grid.url(1)}/batches/{batch_id('tests', 'never')}")
    expect(page.get_by_test_id("error")).to_contain_text("UNKNOWN_BATCH")


def test_the_overview_counts_what_happens(grid: BrowserGrid, page: Page) -> None:
    page.goto(grid.url(0))
    expect(page.get_by_test_id("workers")).to_contain_text("2")
    failed = grid.client.counts().failed
    expect(page.get_by_test_id("count-failed")).to_contain_text(f"failed{failed}")
    grid.client.submit("fails")
    expect(page.get_by_test_id("count-failed")).to_contain_text(f"failed{failed + 1}")


def test_a_reader_of_japanese_is_spoken_to_in_japanese(grid: BrowserGrid, page: Page) -> None:
    page.goto(f"{grid.url(0)}/queues")
    page.get_by_test_id("language").click()
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    expect(page.get_by_role("heading", level=1)).to_have_text("キュー")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("キュー")


def test_pages_are_reached_by_keys(grid: BrowserGrid, page: Page) -> None:
    page.goto(grid.url(0))
    is_drawn(page)
    for key, path in (("w", "/workers"), ("q", "/queues"), ("c", "/cluster"), ("j", "/jobs")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"**{path}")
