"""Live events of a job, for `rollq job --follow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rollq.base.job_events import JobEvent

if TYPE_CHECKING:
    from rollq.roles.client.client import Client


async def follow_job(client: Client, ids: list[bytes], *, as_json: bool) -> None:
    """Show events until the job ends."""
    from rollq.cli.grid import check_is_job
    from rollq.cli.output import write_answer

    job_id = ids[0]
    await check_is_job(client, job_id)
    async for event in client.events(job_id):
        write_answer(event_document(event), event_line(event), as_json=as_json)


def event_document(event: JobEvent) -> dict[str, Any]:
    """An event as a document, without empty fields."""
    from rollq.documents.jobs import progress_document
    from rollq.documents.times import when

    document: dict[str, Any] = {"event": event.kind}
    if event.stamp_ms:
        document["at"] = when(event.stamp_ms)
    for name in ("attempt", "worker", "status", "detail"):
        if value := getattr(event, name):
            document[name] = value
    if event.status:
        document["exit_code"] = event.exit_code
    if event.progress is not None:
        document |= progress_document(event.progress)
    return document


def event_line(event: JobEvent) -> str:
    """An event as a line."""
    from rollq.cli.output import printable
    from rollq.documents.times import when

    words = [when(event.stamp_ms)] if event.stamp_ms else []
    words.append(event.kind)
    if event.progress is not None:
        words.append(event.progress.text)
    if event.worker:
        words.append(f"attempt {event.attempt} on {event.worker}")
    elif event.attempt and event.progress is None:
        words.append(f"attempt {event.attempt}")
    if event.status:
        words.append(event.status)
    if event.exit_code:
        words.append(f"exit code {event.exit_code}")
    if event.detail:
        words.append(event.detail)
    return printable("  ".join(words))
