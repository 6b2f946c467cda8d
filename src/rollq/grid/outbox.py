"""Results that are still owed, derived from the state for a new leader.

Effects are not stored. A receiver recognises duplicates by job id and attempt.
"""

from __future__ import annotations

from rollq.base.ids import ClientId, JobId
from rollq.grid.effects import SendResult
from rollq.grid.facts import cut_result_of, result_of
from rollq.grid.state import PREFIX_BYTES, GridState


def owed_to_client(
    state: GridState, client_id: ClientId, after: int, limit: int
) -> tuple[list[SendResult], int]:
    """Up to `limit` ends that this client did not confirm, oldest first, after a position. Returns
    the results and the next position: pass 0 first, then the returned one, until the list is
    empty."""
    client = state.clients.get(client_id)
    results: list[SendResult] = []
    if client is not None:
        for seq, job_id in client.owed.page(after, limit):
            record = state.jobs.get(job_id)
            if record is None:
                results.append(cut_result_of(state.arrays[job_id[:PREFIX_BYTES]]))
            elif record.end is not None:
                results.append(result_of(record, record.end))
            after = seq
    return results, after


def is_still_to_come(state: GridState, job_id: JobId, after: int) -> bool:
    """Whether `owed_to_client` will return the end of a job after a position. Not if it was
    returned before, or is confirmed and was requested again."""
    record = state.jobs.get(job_id)
    if record is None or record.end is None:
        return True  # tasks that were never assigned: one result for all
    return not record.end.confirmed_seq and record.end.seq > after
