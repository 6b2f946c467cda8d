"""Compares a submit with the job that has its id already: a repetition is answered, and another job
is refused in words that say what differs."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from rollq.base.errors import ErrorCode
from rollq.base.ids import ClientId
from rollq.base.jobs import BulkItem
from rollq.base.staged import StagedGroup
from rollq.grid.commands import SubmitBulk, SubmitRun
from rollq.grid.edges import same_parents, without_parents
from rollq.grid.effects import Refused
from rollq.grid.moves import submitted_crc
from rollq.grid.refs import files_crc
from rollq.grid.state import GridState, JobRecord

SHOWN: Final = 64  # characters of a name or key


def why_another(
    state: GridState,
    record: JobRecord,
    client_id: ClientId,
    shared: SubmitRun | SubmitBulk | StagedGroup,
    own: BulkItem,
) -> str:
    """Why a submit of this client with the id of this record is no repetition; empty: it is one.
    Compares the shared fields and its own. The words are for people, and only the leader's are
    seen; whether there are any is what members must agree on."""
    if record.array is not None:
        return "the id belongs to a task of an array"
    if record.client.client_id != client_id:
        return f"the id belongs to a job of client {record.client.client_id[:SHOWN]}"
    if record.key != own.key:
        key = f"the key {record.key[:SHOWN]!r}" if record.key else "no key"
        return f"the id belongs to a job with {key}"
    name = f"{_named(own)} belongs to a job"
    if record.exec_name != shared.exec_name:
        return f"{name} of the program {record.exec_name}"
    if record.queue != shared.queue:
        return f"{name} in the queue {record.queue}"
    if record.options != without_parents(shared.options):
        return f"{name} with other options"
    if not same_parents(state, record.job_id, shared.options):
        return f"{name} that waits for other jobs"
    if submitted_crc(state, record) != files_crc(crc32(own.body), own.blobs, shared.caches):
        return f"{name} with other arguments, files, payload or environment"
    return ""


def named_by_two(own: BulkItem) -> Refused:
    """The refusal of a bulk in which two different jobs have one id."""
    why = f"{_named(own)} is that of two jobs that differ"
    return Refused(ErrorCode.JOB_CONFLICT, why, own.job_id)


def _named(own: BulkItem) -> str:
    """What the user gave: the id of a job with a key is made from it."""
    return f"the key {own.key[:SHOWN]!r}" if own.key else "the id"
