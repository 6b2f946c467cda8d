"""Requests about jobs and blobs, narrowed to those that the principal can see; a request that is
all or none is refused as if the hidden ones did not exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from rollq.base.access import Action, Principal
from rollq.base.access_rules import ANY
from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import NIL_ID, JobId
from rollq.base.jobs import JobOptions
from rollq.base.staged import StagedGroup, bodies_of, ids_of
from rollq.grid.edges import unknown_parent
from rollq.grid.outcomes import BEING_UNPACKED
from rollq.roles.blobs.server_machine import ProvingPut
from rollq.roles.member.guard.names import (
    AccessRequest,
    K,
    own_name,
    requests_of_message,
    requests_of_verb,
    requests_of_view,
)
from rollq.roles.member.guard.sight import ALL_CLIENTS, NO_BLOB, Sight, missing, unknown_job
from rollq.roles.member.leader.admin import VERBS, decode_arguments
from rollq.roles.member.leader.admin_arguments import (
    AgainArguments,
    RedriveArguments,
    RedriveChangedArguments,
)
from rollq.roles.member.leader.schedule_arguments import PutScheduleArguments
from rollq.roles.member.queries import JOB_LISTS, SCHEDULES, VIEWS, decode_key
from rollq.store.blobs.failures import blob_missing
from rollq.subjects.grammar import parse_pattern
from rollq.subjects.reserved import job_of_event
from rollq.wire.blob_messages import BlobAsk, BlobDrop, BlobGet, BlobPut
from rollq.wire.kept import BODY_MARK
from rollq.wire.messages import Admin, Cancel, Query, SubmitArray, SubmitBulk, SubmitJob
from rollq.wire.models import JobRequest, decode_if_marked
from rollq.wire.output_messages import WatchOutput
from rollq.wire.reader_messages import ResultsAsk
from rollq.wire.run_messages import SubmitRun
from rollq.wire.staging_messages import StageJobs
from rollq.wire.subject_messages import Subscribe

Submit: TypeAlias = SubmitJob | SubmitBulk | SubmitArray | SubmitRun
ALL_CACHES: Final = f"{K.CACHE}:{ANY}"
ALL_SCHEDULES: Final = f"{K.SCHEDULE}:{ANY}"
CACHED_FILE: Final = re.compile(rb'"CacheId"\s*:\s*"')  # as in the worker


# --- jobs


def cancel(sight: Sight, principal: Principal, message: Cancel) -> Cancel:
    """Hidden jobs are left out, and do not count: as with unknown ids."""
    _check_unpacked(sight, message.job_ids)
    hidden = sight.hidden_jobs(principal, Action.JOBS_CANCEL, message.job_ids, early=True)
    return replace(message, job_ids=_without(message.job_ids, hidden)) if hidden else message


def watch(sight: Sight, principal: Principal, message: WatchOutput) -> WatchOutput:
    """Watching needs a visible job; ending a watch is always permitted."""
    if not message.on:
        return message
    hidden = sight.hidden_jobs(principal, Action.OUTPUT_READ, (message.job_id,))
    return replace(message, job_id=NIL_ID) if hidden else message


def results(sight: Sight, principal: Principal, message: ResultsAsk) -> ResultsAsk:
    """Hidden jobs are answered as unknown. If the requested index is not applied here, owners may
    be unknown: refused for now."""
    hidden = sight.hidden_jobs(principal, Action.RESULTS_READ, message.job_ids)
    if not hidden:
        return message
    applied = sight.targets.applied_index
    if message.index_min > applied:
        raise StateError(
            ErrorCode.NOT_READY,
            f"index {message.index_min} is not applied here: {applied} is",
            "ask another member, or later",
        )
    job_ids = tuple(NIL_ID if one in hidden else one for one in message.job_ids)
    return replace(message, job_ids=job_ids)


def query(sight: Sight, principal: Principal, message: Query) -> Query:
    """A hidden job is answered as unknown. A list of all jobs or schedules is restricted to those
    of the account, if it may not see those of others."""
    view = VIEWS.get(message.what)
    if view is None:
        return message  # the service refuses an unknown view
    key = decode_key(view, message)
    resources = (view.resource, *view.also)
    requests = requests_of_view(sight.targets, view.action, resources, key)
    lists_all = message.what in JOB_LISTS and any(ALL_CLIENTS in ask.names for ask in requests)
    if lists_all and not sight.decisions.is_allowed_some(principal, view.action, ALL_CLIENTS):
        message = replace(message, account=principal.account)
        requests = [_of_own_clients(principal.account, ask) for ask in requests]
    elif message.what == SCHEDULES and not sight.decisions.may(
        principal, view.action, ALL_SCHEDULES
    ):
        message = replace(message, account=principal.account)
        requests = [AccessRequest(view.action, [f"{K.SCHEDULE}:{principal.account}/{ANY}"])]
    sight.authorize(principal, requests)
    field = view.resource.field
    named = (key,) if field == "key" else view.resource.names_in(key)
    if view.resource.kind is K.JOB and field and sight.hidden_jobs(principal, view.action, named):
        return replace(message, key=NIL_ID)
    return message


def _of_own_clients(account: str, ask: AccessRequest) -> AccessRequest:
    """The request for the clients of an account instead of all clients."""
    own = f"{K.CLIENT}:{account}", f"{K.CLIENT}:{account}/{ANY}"
    names = [own if name == ALL_CLIENTS else (name,) for name in ask.names]
    return AccessRequest(ask.action, list(chain.from_iterable(names)))


def admin(sight: Sight, principal: Principal, message: Admin) -> Admin:
    """Redrives are all or none; a purge leaves hidden jobs out."""
    verb = VERBS.get(message.action)
    if verb is None:
        return message  # the service refuses an unknown verb
    arguments: Any = decode_arguments(message.arguments, verb.arguments)
    resources = (verb.resource, *verb.also)
    if isinstance(arguments, AgainArguments | RedriveChangedArguments):
        _check_reruns(sight, principal, arguments)
        return message
    sight.authorize(principal, requests_of_verb(sight.targets, verb.action, resources, arguments))
    if isinstance(arguments, PutScheduleArguments):
        sight.authorize(principal, [AccessRequest(Action.JOBS_SUBMIT, [own_name(principal)])])
        _check_bodies(sight, principal, (arguments.body,))
    for resource in resources:
        names = resource.names_in(arguments)
        if resource.kind is K.BLOB:
            _check_blobs(sight, principal, names)
        elif resource.kind is K.JOB:
            _check_unpacked(sight, names)
            hidden = sight.hidden_jobs(principal, verb.action, names)
            if isinstance(arguments, RedriveArguments):
                if hidden:
                    raise unknown_job(next(iter(hidden)))
                _check_bodies(sight, principal, [one.body for one in arguments.items if one.body])
            elif hidden:
                left = replace(arguments, job_ids=_without(names, hidden))
                message = replace(message, arguments=msgspec.msgpack.encode(left))
    return message


def _check_reruns(
    sight: Sight, principal: Principal, wanted: AgainArguments | RedriveChangedArguments
) -> None:
    """A rerun with another request or queue needs all rights of a submit."""
    is_new = isinstance(wanted, AgainArguments)
    job_ids = (wanted.job_id,) if isinstance(wanted, AgainArguments) else wanted.job_ids
    _check_unpacked(sight, job_ids)
    hidden = sight.hidden_jobs(principal, Action.JOBS_REDRIVE, job_ids)
    if hidden:
        raise unknown_job(next(iter(hidden)))
    for job_id in job_ids:
        inputs = sight.targets.inputs_of(job_id)
        queue = sight.targets.queue_named(wanted.queue) if wanted.queue else inputs.queue
        names = f"{K.QUEUE}:{queue or ANY}", f"{K.EXEC}:{inputs.exec_name or ANY}"
        requests = [
            AccessRequest(Action.JOBS_SUBMIT, (own_name(principal), *names) if is_new else names),
            AccessRequest(Action.CACHES_READ, [f"{K.CACHE}:{one}" for one in inputs.caches]),
            AccessRequest(
                Action.SECRETS_USE, [f"{K.SECRET}:{one.name}" for one in inputs.options.secrets]
            ),
        ]
        sight.authorize(principal, requests)
        _check_blobs(sight, principal, [blob.digest for blob in inputs.blobs])


def stage(sight: Sight, principal: Principal, message: StageJobs) -> StageJobs:
    """New jobs need the rights of a submit; jobs to rerun those of a redrive."""
    sight.authorize(principal, requests_of_message(sight.targets, principal, message))
    again = [job_id for group in message.groups if group.redrives for job_id in _ids(group)]
    _check_unpacked(sight, again)
    hidden = sight.hidden_jobs(principal, Action.JOBS_REDRIVE, again)
    if hidden:
        raise unknown_job(next(iter(hidden)))
    new = [group for group in message.groups if not group.redrives]
    for group in new:
        _check_parents(sight, principal, group.options, is_staged=True)
    blobs = chain.from_iterable(chain.from_iterable(group.blobs for group in new))
    _check_blobs(sight, principal, [blob.digest for blob in blobs])
    _check_bodies(sight, principal, chain.from_iterable(map(bodies_of, message.groups)))
    return message


def submit(sight: Sight, principal: Principal, message: Submit) -> Submit:
    """Needs the rights on queue and program, parents and input files."""
    sight.authorize(principal, requests_of_message(sight.targets, principal, message))
    _check_parents(sight, principal, message.options)
    if isinstance(message, SubmitRun):
        _check_bodies(sight, principal, message.bodies)
        return _run_without_hidden(sight, principal, message) if any(message.blobs) else message
    if isinstance(message, SubmitBulk):
        blobs = [blob for item in message.items for blob in item.blobs]
        _check_bodies(sight, principal, [item.body for item in message.items])
    else:
        blobs = list(message.blobs)
        _check_bodies(sight, principal, (message.body,))
    _check_blobs(sight, principal, [blob.digest for blob in blobs])
    return message


def _run_without_hidden(sight: Sight, principal: Principal, message: SubmitRun) -> SubmitRun:
    """The jobs of a run are accepted or refused one by one: hidden blobs are replaced by a digest
    that no blob has."""
    digests = [blob.digest for blobs in message.blobs for blob in blobs]
    hidden = set(sight.hidden_blobs(principal, digests))
    if not hidden:
        return message
    blobs = tuple(
        tuple(replace(one, digest=NO_BLOB) if one.digest in hidden else one for one in refs)
        for refs in message.blobs
    )
    return replace(message, blobs=blobs)


def _check_bodies(sight: Sight, principal: Principal, bodies: Iterable[bytes]) -> None:
    """Check files of caches in bodies; skipped if the principal may read all caches."""
    if sight.decisions.may(principal, Action.CACHES_READ, ALL_CACHES):
        return
    for body in bodies:
        if body.startswith(BODY_MARK):  # a blob reference, made only by leaders; contents unknown
            raise sight.decisions.denied(principal, Action.CACHES_READ, ALL_CACHES)
        if CACHED_FILE.search(body) is not None:
            request = decode_if_marked(body, JobRequest, "JobId")
            files = () if request is None else request.files or ()
            names = [f"{K.CACHE}:{file.cache_id}" for file in files if file.cache_id]
            sight.decisions.authorize(principal, Action.CACHES_READ, names)


def _check_parents(
    sight: Sight, principal: Principal, options: JobOptions | None, *, is_staged: bool = False
) -> None:
    """Parents must be visible. A parent that comes with the same batch is not known yet; the grid
    checks it."""
    if options is None or not options.after:
        return
    named = [one.job_id for one in options.after]
    _check_unpacked(sight, named)
    for job_id in sight.hidden_jobs(principal, Action.JOBS_READ, named, early=True):
        if not is_staged or sight.targets.of_job(job_id) is not None:
            refusal = unknown_parent(job_id)
            raise StateError(refusal.code, refusal.message)


def _check_blobs(sight: Sight, principal: Principal, digests: Sequence[Digest]) -> None:
    hidden = sight.hidden_blobs(principal, digests)
    if hidden:
        raise missing(hidden, len(digests))


def _check_unpacked(sight: Sight, job_ids: Iterable[JobId]) -> None:
    """The owner of a job that is being unpacked is not known yet; the grid defers such requests,
    too."""
    if any(map(sight.targets.is_reserved, job_ids)):
        raise StateError(BEING_UNPACKED.code, BEING_UNPACKED.message)


def _without(job_ids: Sequence[JobId], hidden: Iterable[JobId]) -> tuple[JobId, ...]:
    gone = frozenset(hidden)
    return tuple(job_id for job_id in job_ids if job_id not in gone)


def _ids(group: StagedGroup) -> list[JobId]:
    if len(group.job_ids) % len(NIL_ID):
        raise RemoteError(ErrorCode.BAD_PAYLOAD, "ids have 16 bytes each")
    return list(ids_of(group.job_ids))


# --- subjects


def subscribe(sight: Sight, principal: Principal, message: Subscribe) -> Subscribe:
    """The events of a job need the right to read it."""
    sight.authorize(principal, requests_of_message(sight.targets, principal, message))
    job_id = job_of_event(parse_pattern(message.pattern))
    if job_id is not None and sight.hidden_jobs(principal, Action.JOBS_READ, (job_id,), early=True):
        raise unknown_job(job_id)
    return message


# --- blobs


def ask_blobs(sight: Sight, principal: Principal, message: BlobAsk) -> BlobAsk:
    """Hidden blobs are answered as missing."""
    digests = tuple(one if sight.sees_blob(principal, one) else NO_BLOB for one in message.digests)
    return message if digests == message.digests else replace(message, digests=digests)


def get_blob(sight: Sight, principal: Principal, message: BlobGet) -> BlobGet:
    """Hidden blobs are answered as missing."""
    if sight.hidden_blobs(principal, (message.digest,)):
        raise blob_missing(message.digest)
    return message


def put_blob(sight: Sight, principal: Principal, message: BlobPut) -> BlobPut:
    """Without sight of a blob the principal must send all of its bytes, even if it is stored
    here."""
    sight.authorize(principal, [AccessRequest(Action.BLOBS_WRITE, (own_name(principal),))])
    if sight.sees_blob(principal, message.digest):
        return message
    return ProvingPut(message.digest, message.size)


def drop_blob(sight: Sight, principal: Principal, message: BlobDrop) -> BlobDrop:
    """Only a principal that can see a blob can report it as damaged."""
    if not message.error or sight.sees_blob(principal, message.digest):
        return message
    return replace(message, error=0)


NARROWED: Final[Mapping[type, Callable[[Sight, Principal, Any], Any]]] = {
    Cancel: cancel,
    WatchOutput: watch,
    ResultsAsk: results,
    Query: query,
    Admin: admin,
    StageJobs: stage,
    SubmitJob: submit,
    SubmitBulk: submit,
    SubmitArray: submit,
    SubmitRun: submit,
    Subscribe: subscribe,
    BlobAsk: ask_blobs,
    BlobGet: get_blob,
    BlobPut: put_blob,
    BlobDrop: drop_blob,
}
