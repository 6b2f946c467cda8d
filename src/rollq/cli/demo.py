"""`rollq demo`: the promise shown. A leader is killed half way, and the history is checked."""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
"""
PROGRAM = "sleep 0.02\necho $(($1 * $1))"
MEMBER_OPTIONS = ("--snapshot-entries", "200", "--group", "demo")
WORKER_OPTIONS = ("--slots", "4", "--cpu-cap", "1")
POLL_S = 0.02
PATIENCE_S = 30.0


@dataclass(slots=True)
class Report:
    """What happened, for the end."""

    jobs: int
    wrong: int = 0  # results that are not what the program must print
    ended: int = 0
    killed: str = ""
    leader: str = ""
    term: int = 0
    failover_s: float = 0.0  # from the kill to the first answer of the next leader
    run_s: float = 0.0
    results: dict[str, None] = field(default_factory=dict)  # ids
    repeated: int = 0  # results that came twice


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(demo)


def demo(
    jobs: Annotated[int, typer.Option(min=10, metavar="N", help="How many jobs.")] = 1000,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Work here and leave it behind.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Kill the leader in the middle of a thousand jobs; check that nothing is lost.

    Three members and two workers run on this machine, and the leader ends by kill -9. Then the
    results and the history of every member are checked: nothing lost, nothing ended twice. Exit
    code 1 if that does not hold. Everything is removed at the end, unless --keep names a folder.
    """
    from rollq.cli.audit import audit
    from rollq.cli.fleet import Fleet, free_ports, write_program
    from rollq.cli.output import write_json
    from rollq.cli.service import interrupted_by_signals, run

    root = keep or Path(tempfile.mkdtemp(prefix="rollq-demo-"))
    report = Report(jobs)
    with interrupted_by_signals(), Fleet(root, keep=keep is not None) as fleet:
        write_program(root / "exec", "square", PROGRAM)
        _say(as_json, "starting three members and two workers")
        fleet.start_members(free_ports(3), *MEMBER_OPTIONS)
        for name in ("w1", "w2"):
            fleet.start_worker(name, "--exec-dir", str(root / "exec"), *WORKER_OPTIONS)
        began = time.monotonic()
        run(_run(fleet, report, as_json=as_json))
        report.run_s = time.monotonic() - began
        fleet.stop()
        _say(as_json, "members stopped; reading their histories")
        checked = audit([fleet.state_of(address) for address in fleet.addresses])
    document = _document(report, checked)
    if as_json:
        write_json(document)
    else:
        _show(document)
    if document["problems"]:
        raise typer.Exit(1)


async def _run(fleet: Fleet, report: Report, *, as_json: bool) -> None:
    """All jobs, the kill in the middle, and the return of the killed member."""
    import asyncio

    from rollq.cli.progress import progress_bar
    from rollq.roles.client.client import Client

    half = asyncio.Event()
    async with (
        Client(fleet.servers, client_id="demo", timeout=PATIENCE_S) as client,
        Client(fleet.servers, client_id="demo-operator", timeout=PATIENCE_S) as operator,
    ):
        killer = asyncio.create_task(_kill_leader(fleet, operator, report, half, as_json=as_json))
        with progress_bar("results", is_quiet=as_json) as advance:

            def progress(done: int, total: int | None) -> None:
                advance(done, total)
                if done >= report.jobs // 2:
                    half.set()

            numbers = [str(number) for number in range(report.jobs)]
            number = 0
            async for result in client.map(
                "square", numbers, ordered=True, window=200, progress=progress
            ):
                report.repeated += result.id in report.results
                report.results[result.id] = None
                report.wrong += not result.ok or result.stdout.strip() != str(number * number)
                number += 1
                report.ended += 1
        await killer
        await _settle(operator, len(fleet.addresses))


async def _kill_leader(
    fleet: Fleet, operator: Client, report: Report, half: asyncio.Event, *, as_json: bool
) -> None:
    import asyncio

    await half.wait()
    view = await _view(operator)
    report.killed = view.leader
    _say(as_json, f"half way: kill -9 of the leader {view.leader} (term {view.term})")
    began = time.monotonic()
    fleet.kill(view.leader)
    # Nobody answers until somebody leads: this takes as long as the fail-over.
    view = await _view(operator)
    report.failover_s = time.monotonic() - began
    report.leader, report.term = view.leader, view.term
    _say(as_json, f"{view.leader} leads (term {view.term}) after {report.failover_s:.2f} s")
    fleet.start_member(report.killed, *MEMBER_OPTIONS)
    await asyncio.to_thread(fleet.await_line, report.killed, "serves on")
    _say(as_json, f"{report.killed} is back, and catches up")


async def _settle(operator: Client, count: int) -> None:
    """Until every member holds everything."""
    import asyncio

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                members = (await _view(operator)).members
                if len(members) == count and all(one.active and not one.lag for one in members):
                    return
                await asyncio.sleep(POLL_S)


async def _view(client: Client) -> ClusterView:
    from rollq.cli.grid import ask
    from rollq.roles.member.status import ClusterView

    return await ask(client, ClusterView, "cluster")


def _document(report: Report, checked: Audit) -> dict[str, Any]:
    lost = [job_id for job_id in report.results if checked.ends.get(job_id, 0) == 0]
    problems = list(checked.problems)
    for count, what in (
        (report.jobs - report.ended, "results did not come"),
        (report.wrong, "results are wrong"),
        (report.repeated, "results came twice"),
        (len(lost), "results have no end in the history"),
        (report.jobs - len(checked.accepted), "jobs are missing in the history"),
        (not report.leader, "no other member took over"),
    ):
        if count:
            problems.append(f"{int(count)} {what}")
    return {
        "jobs": report.jobs,
        "results": report.ended,
        "lost": len(checked.lost),
        "ended_twice": len(checked.ended_twice),
        "killed": report.killed,
        "leader": report.leader,
        "term": report.term,
        "failover_s": round(report.failover_s, 3),
        "adopted": checked.adopted,
        "run_again": checked.run_again,
        "run_s": round(report.run_s, 2),
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
    write_line("the promise is broken" if document["problems"] else "the promise holds")


def _say(as_json: bool, text: str) -> None:
    from rollq.cli.output import remark

    if not as_json:
        remark(text)
