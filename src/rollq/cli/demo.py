"""`rollq demo`: demonstrates a fail-over. The leader is killed half way, the histories are checked,
and a report is written."""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rollq.base.errors import RollqError
from rollq.cli.options import Json

if TYPE_CHECKING:
    import asyncio

    from rollq.cli.audit import Audit
    from rollq.cli.fleet import Fleet
    from rollq.roles.client.client import Client
    from rollq.roles.member.status import ClusterView

EPILOG = """\b
Examples:
  rollq demo
  rollq demo --jobs 5000 --keep ./demo
  rollq demo --no-report
"""
PROGRAM = "sleep 0.02\necho $(($1 * $1))"
GROUP = "demo"
MEMBER_OPTIONS = ("--snapshot-entries", "200", "--group", GROUP)
WORKER_OPTIONS = ("--slots", "4", "--cpu-cap", "1")
POLL_S = 0.02
PATIENCE_S = 30.0
INSTALL: Final = "pip install 'rollq[spark]'"
# Only a few thousand events: compilation dominates, so as little as possible is compiled.
SMALL: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(slots=True)
class Observed:
    """What was observed, for the summary."""

    jobs: int
    wrong: int = 0  # results with unexpected output
    ended: int = 0
    killed: str = ""
    leader: str = ""
    term: int = 0
    failover_s: float = 0.0  # from the kill to the first response of the next leader
    run_s: float = 0.0
    results: dict[str, None] = field(default_factory=dict)  # ids
    repeated: int = 0  # duplicate results


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(demo)


def demo(
    jobs: Annotated[int, typer.Option(min=10, metavar="N", help="Number of jobs.")] = 1000,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Working directory, which is kept.")
    ] = None,
    report: Annotated[Path, typer.Option(metavar="FILE", help="HTML report to write.")] = Path(
        "rollq-demo.html"
    ),
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    as_json: Json = False,
) -> None:
    """Kill the leader in the middle of a thousand jobs; check that nothing is lost.

    Three members and two workers run on this machine, and the leader is killed by SIGKILL. Then the
    results and the history of every member are checked: no job is lost, none ended twice. Exit
    code 1 if that does not hold. Then the pipeline processes the history in Spark, and a report is
    written, unless Spark is not installed. Everything else is removed at the end, unless --keep
    names a directory.
    """
    from rollq.cli.audit import audit
    from rollq.cli.fleet import Fleet, write_program
    from rollq.cli.output import write_json
    from rollq.cli.service import interrupted_by_signals, run
    from rollq.net.ports import free_ports

    root = keep or Path(tempfile.mkdtemp(prefix="rollq-demo-"))
    seen = Observed(jobs)
    with interrupted_by_signals(), Fleet(root, keep=keep is not None) as fleet:
        write_program(root / "exec", "square", PROGRAM)
        _remark(as_json, "starting three members and two workers")
        fleet.start_members(free_ports(3), *MEMBER_OPTIONS)
        for name in ("w1", "w2"):
            fleet.start_worker(name, "--exec-dir", str(root / "exec"), *WORKER_OPTIONS)
        began = time.monotonic()
        run(_run(fleet, seen, as_json=as_json))
        seen.run_s = time.monotonic() - began
        fleet.stop()
        _remark(as_json, "members stopped; reading their histories")
        checked = audit([fleet.state_of(address) for address in fleet.addresses])
        document = _document(seen, checked)
        if not as_json:
            _show(document)
        if not no_report:
            document["report"] = _run_pipeline(fleet, report, as_json=as_json)
    if as_json:
        write_json(document)
    if document["problems"]:
        raise typer.Exit(1)


async def _run(fleet: Fleet, seen: Observed, *, as_json: bool) -> None:
    """Run all jobs, kill the leader in the middle, and restart it."""
    import asyncio

    from rollq.cli.progress import progress_bar
    from rollq.roles.client.client import Client

    half = asyncio.Event()
    async with (
        Client(fleet.servers, client_id="demo", timeout=PATIENCE_S) as client,
        Client(fleet.servers, client_id="demo-operator", timeout=PATIENCE_S) as operator,
    ):
        killer = asyncio.create_task(_kill_leader(fleet, operator, seen, half, as_json=as_json))
        with progress_bar("results", is_quiet=as_json) as advance:

            def progress(done: int, total: int | None) -> None:
                advance(done, total)
                if done >= seen.jobs // 2:
                    half.set()

            numbers = [str(number) for number in range(seen.jobs)]
            number = 0
            async for result in client.map(
                "square", numbers, ordered=True, window=200, progress=progress
            ):
                seen.repeated += result.id in seen.results
                seen.results[result.id] = None
                seen.wrong += not result.ok or result.stdout.strip() != str(number * number)
                number += 1
                seen.ended += 1
        await killer
        await _settle(operator, fleet.addresses)


async def _kill_leader(
    fleet: Fleet, operator: Client, seen: Observed, half: asyncio.Event, *, as_json: bool
) -> None:
    import asyncio

    await half.wait()
    view = await _view(operator)
    seen.killed = view.leader
    _remark(as_json, f"half way: kill -9 of the leader {view.leader} (term {view.term})")
    began = time.monotonic()
    fleet.kill(view.leader)
    # Queries wait for the new leader, so this measures the fail-over.
    view = await _view(operator)
    seen.failover_s = time.monotonic() - began
    seen.leader, seen.term = view.leader, view.term
    _remark(as_json, f"{view.leader} leads (term {view.term}) after {seen.failover_s:.2f} s")
    fleet.start_member(seen.killed, *MEMBER_OPTIONS)
    await asyncio.to_thread(fleet.await_line, seen.killed, "serves on")
    _remark(as_json, f"{seen.killed} is restarted and catching up")


async def _settle(operator: Client, addresses: list[str]) -> None:
    """Wait until every member has the whole log and history; a member that was down may get a
    snapshot first, and the history later."""
    import asyncio

    with contextlib.suppress(TimeoutError, RollqError):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                view = await _view(operator)
                there = [one for one in view.members if one.active and not one.lag]
                if len(there) == len(addresses):
                    break
                await asyncio.sleep(POLL_S)
            for address in addresses:
                await asyncio.to_thread(_read_all, address, view.applied)


def _read_all(address: str, last: int) -> None:
    """Read the whole history of one member, waiting for it."""
    from rollq.roles.reader.reader import Reader

    with Reader(address, timeout_s=PATIENCE_S) as reader:
        for _ in reader.pieces(1, last):
            pass


async def _view(client: Client) -> ClusterView:
    from rollq.cli.grid import query_view
    from rollq.roles.member.status import ClusterView

    return await query_view(client, ClusterView, "cluster")


def _document(seen: Observed, checked: Audit) -> dict[str, Any]:
    lost = [job_id for job_id in seen.results if checked.ends.get(job_id, 0) == 0]
    problems = list(checked.problems)
    for count, what in (
        (seen.jobs - seen.ended, "results did not come"),
        (seen.wrong, "results are wrong"),
        (seen.repeated, "results came twice"),
        (len(lost), "results have no end in the history"),
        (seen.jobs - len(checked.accepted), "jobs are missing in the history"),
        (not seen.leader, "no other member took over"),
    ):
        if count:
            problems.append(f"{int(count)} {what}")
    return {
        "jobs": seen.jobs,
        "results": seen.ended,
        "lost": len(checked.lost),
        "ended_twice": len(checked.ended_twice),
        "killed": seen.killed,
        "leader": seen.leader,
        "term": seen.term,
        "failover_s": round(seen.failover_s, 3),
        "adopted": checked.adopted,
        "run_again": checked.run_again,
        "run_s": round(seen.run_s, 2),
        "history_rows": checked.rows,
        "history_members": checked.members,
        "problems": problems,
    }


def _show(document: dict[str, Any]) -> None:
    from rollq.cli.output import write_line

    write_line(
        f"{document['results']} of {document['jobs']} results in {document['run_s']} s, "
        f"fail-over in {document['failover_s']} s"
    )
    write_line(
        f"{document['adopted']} attempts that workers held at the kill were adopted by the new "
        f"leader, {document['run_again']} had to run again"
    )
    write_line(
        f"histories of {document['history_members']} members compared, "
        f"{document['history_rows']} rows: {document['lost']} lost, "
        f"{document['ended_twice']} ended twice"
    )
    for problem in document["problems"]:
        write_line(f"PROBLEM: {problem}")
    write_line("FAILED" if document["problems"] else "every job ended exactly once")


def _run_pipeline(fleet: Fleet, page: Path, *, as_json: bool) -> str:
    """Run the pipeline and write the report; returns its path."""
    from rollq.cli.output import write_line

    state = fleet.state_of(fleet.addresses[0])
    if not write_page(state, GROUP, fleet.root / "tables", page):
        return ""
    if not as_json:
        write_line(f"report: {page.absolute()}")
    return str(page)


def write_page(state: Path, group: str, tables: Path, page: Path) -> bool:
    """Run the pipeline over the history of a stopped member, and write the report.

    Returns whether it was written; without Spark it is not, and a remark names the package.
    """
    from rollq.cli.output import remark

    if importlib.util.find_spec("pyspark") is None:
        remark(f"no report: Spark is not installed; {INSTALL}")
        return False
    remark("running the pipeline over the history, in Spark: half a minute or so")
    from rollq.cli.report import write_report
    from rollq.cli.spark import quiet_spark
    from rollq.spark.asking.queries import views
    from rollq.spark.pipeline.feed import Feed
    from rollq.spark.pipeline.run import Pipeline

    try:
        with quiet_spark("local[2]", **SMALL) as spark:
            Pipeline(spark, Feed(path=str(state), group=group), tables).run()
            views(spark, tables)
            write_report(spark, tables, page)
    except RollqError as error:
        remark(f"no report: {error.message}; {error.hint}")
        return False
    return True


def _remark(as_json: bool, text: str) -> None:
    from rollq.cli.output import remark

    if not as_json:
        remark(text)
