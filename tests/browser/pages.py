"""All pages by name, and a grid that has something to show on each."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page, ViewportSize, expect

from rollq import JobSpec
from rollq.documents.jobs import batch_id
from tests.browser.grid import BrowserGrid
from tests.integration.procs import until

DESK: Final[ViewportSize] = {"width": 1280, "height": 800}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
PATHS: Final = {
    "overview": "/",
    "jobs": "/jobs",
    "job": "/jobs/{failed}",
    "submit": "/submit",
    "arrays": "/arrays",
    "array": "/arrays/{array}",
    "batches": "/batches",
    "batch": "/batches/{batch}",
    "dead": "/dead",
    "workers": "/workers",
    "queues": "/queues",
    "cluster": "/cluster",
    "files": "/files",
    "history": "/history",
    "access": "/access",
    "login": "/login",
}


def fill(grid: BrowserGrid) -> None:
    """Jobs in every state, an array, batches, dead letters, a cached file."""
    client = grid.client
    client.submit_many("hello", [[f"frame-{n:04d}.exr"] for n in range(40)], queue="render.frames")
    for path in ("a.csv", "b.csv", "c.csv"):
        client.submit("checks", [path], queue="convert")
    for path in ("left", "right"):
        client.submit(
            *("fails", [path]),
            queue="convert",
            max_attempts=2,
            retry_exit_codes=(3,),
            retry_base=0.001,
        )
    client.pause("night")
    for number in range(5):
        client.submit("hello", [f"night-{number}"], queue="night", key=f"night-{number}")
    client.submit("gated", [str(grid.gate("shown"))], queue="render.frames")
    grid.failed = client.submit("checks", ["日本語.csv"], queue="convert").id
    grid.array = client.submit_array("odd", 6, queue="sweep").id
    rows = [JobSpec("hello", (f"row-{number}",), key=f"row-{number}") for number in range(300)]
    client.commit("orders-2026-11", [client.stage("orders-2026-11", "0", rows)])
    client.stage("orders-2026-12", "0", rows[:40])
    grid.batch = batch_id("tests", "orders-2026-11")
    client.cache_put("model", {"weights.bin": b"weights" * 1000})
    until(lambda: client.counts().failed >= 4 and client.counts().dead >= 2)


def path_of(grid: BrowserGrid, name: str) -> str:
    """Where a page is."""
    return PATHS[name].format(failed=grid.failed, array=grid.array, batch=grid.batch)


def is_drawn(page: Page) -> None:
    """Wait until a page shows what it asked for."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_test_id("loading")).to_have_count(0)
