"""Jobs that run after another job or array, however that ends (`then` and `notify`).

A follower is an ordinary job that waits with the condition `ended`. It is accepted atomically with
the job that it follows. Its id is derived from that job's id, so that submitting both again is
idempotent.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias, cast

import msgspec

from rollq.base.edges import CONDITION_WORDS
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.flow_limits import PARENTS_PER_JOB_MAX
from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.jobs import Condition
from rollq.base.webhooks import (
    ATTEMPTS,
    KEY_VARIABLE,
    RETRY_BASE_S,
    RUN_LIMIT_S,
    RUN_LIMIT_SOFT_S,
    SECRET_URL,
    URL_VARIABLE,
    WEBHOOK_EXEC,
    target_of,
)
from rollq.roles.client.calls.batches import BatchCalls
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.specs import JobSpec, as_id, checked_spec, id_for
from rollq.roles.client.jobs.supply import supply_of
from rollq.roles.client.jobs.tracing import current_traceparent, submit_span
from rollq.roles.client.results.handles import Job
from rollq.tasks import RETRY_EXIT_CODE

ENDED: Final = CONDITION_WORDS[Condition.ENDED]


class Webhook(msgspec.Struct, frozen=True):
    """A URL that gets a POST request when jobs have ended, sent by a worker with `--app
    rollq.webhook`.

    Attributes:
        url: The URL, or `secret:NAME`: the name of a secret of the worker's vault that has it.
        signing_key: The name of a secret of the worker's vault that signs the body; empty: none.
        name: Passed to the receiver unchanged.
        options: Options of the job that posts, such as `max_attempts`.
    """

    url: str
    signing_key: str = ""
    name: str = ""
    options: Options = msgspec.field(default_factory=Options)

    def after(self, *jobs: Any) -> JobSpec:
        """The job that posts when all of these have ended: handles or ids of jobs and arrays.

        Raises:
            LocalError: BAD_OPTIONS.
        """
        return _following(self.spec(), jobs)

    def spec(self) -> JobSpec:
        """The job that posts, without dependencies.

        Raises:
            LocalError: BAD_OPTIONS, if the URL is invalid.
        """
        is_secret = self.url.startswith(SECRET_URL)
        if not is_secret and target_of(self.url) is None:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "notify is no URL that is posted to",
                "write http(s)://HOST[:PORT]/PATH without user, password and fragment, or "
                "secret:NAME for one of the worker's vault",
            )
        given = {KEY_VARIABLE: self.signing_key} if self.signing_key else {}
        if is_secret:
            given[URL_VARIABLE] = self.url.removeprefix(SECRET_URL)
        options: dict[str, Any] = {
            "max_attempts": ATTEMPTS,
            "retry_base": RETRY_BASE_S,
            "retry_exit_codes": (RETRY_EXIT_CODE,),
            "run_limit_soft": RUN_LIMIT_SOFT_S,
            "run_limit": RUN_LIMIT_S,
            **({"secrets": given} if given else {}),
            **self.options,
        }
        args = (self.url, self.name) if self.name else (self.url,)
        return JobSpec(WEBHOOK_EXEC, args, options=cast("Options", options))


Then: TypeAlias = JobSpec | Sequence[JobSpec]
Notify: TypeAlias = str | Webhook | Sequence[str | Webhook]


def followers_of(engine: Engine, then: Then, notify: Notify) -> list[JobSpec]:
    """The specs of the followers, without dependencies yet.

    Raises:
        LocalError: BAD_OPTIONS, also if there are any and the client is one of several groups.
    """
    followed = [then] if isinstance(then, JobSpec) else list(then)
    specs = [checked_spec(one, "then") for one in followed]
    webhooks = [notify] if isinstance(notify, str | Webhook) else list(notify)
    specs += [(Webhook(one) if isinstance(one, str) else one).spec() for one in webhooks]
    if specs and not engine.keeps_parents:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "a client of several groups cannot submit followers",
            "a group knows only its own jobs: use a client of one of them",
        )
    return specs


def following(specs: Sequence[JobSpec], job_ids: Sequence[JobId]) -> list[JobSpec]:
    """The followers with their ids and their dependency on these jobs.

    Raises:
        LocalError: BAD_OPTIONS, if there are too many jobs.
    """
    return [
        msgspec.structs.replace(_following(spec, job_ids), job_id=follower_id(job_ids[0], number))
        for number, spec in enumerate(specs)
    ]


def check_followed(count: int) -> None:
    """Check the number of jobs that a follower depends on.

    Raises:
        LocalError: BAD_OPTIONS, if they are too many.
    """
    if count > PARENTS_PER_JOB_MAX:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{count} jobs are to be followed by one; at most {PARENTS_PER_JOB_MAX} can be",
            "submit an array, which is followed as one whatever its size; or several batches",
        )


def follower_id(job_id: JobId, number: int) -> JobId:
    """The id of a follower: BLAKE2b with a 16-byte digest of the job's id, `then` and the
    follower's number. It is stable across versions and processes."""
    return blake2b(job_id + f"then {number}".encode(), digest_size=GUID_BYTES).digest()


async def submit_followed(
    engine: Engine,
    spec: JobSpec,
    followers: Sequence[JobSpec],
    timeout: float | None,
    *parents: Job,
) -> Job:
    """Submit a job with its followers, all or none.

    Raises:
        RollqError: it was refused, or not accepted in time.
    """
    job_id, may_be_known = id_for(spec, engine.client_id), bool(spec.key or spec.job_id)
    made = [_kept_as_long(one, spec) for one in following(followers, (job_id,))]
    ids = [as_id(one.job_id or b"") for one in made]
    handle = Job(engine, job_id, parents, ids)
    # Results of followers are taken and confirmed here, as the caller need not read them. If an
    # earlier submit registered a target for one, that target keeps it.
    others = {one: Job(engine, one) for one in ids if one not in engine.targets}
    with submit_span(spec.exec_name, spec.options), engine.register_target(job_id, handle):
        engine.targets.update(others)
        try:
            own = spec if may_be_known else _traced(spec)
            own = msgspec.structs.replace(own, job_id=job_id)
            await _accept_all(engine, (own, *made), timeout)
            if may_be_known:  # ended ones send their results on a single submit
                for one in await engine.inputs.settle_all((own, *made)):
                    await engine.call(engine.request_for(one), timeout, supply_of(one))
        except BaseException:
            for other_id, other in others.items():
                engine.forget(other_id, other)
            raise
    return handle


async def _accept_all(engine: Engine, specs: Sequence[JobSpec], timeout: float | None) -> None:
    """Accept all or none, by a batch with a random key."""
    calls, key = BatchCalls(engine), secrets.token_hex(8)
    part = await calls.stage(key, key, specs, timeout=timeout)
    await calls.commit(key, (part,), timeout=timeout)


def _kept_as_long(follower: JobSpec, spec: JobSpec) -> JobSpec:
    """A follower inherits `result_ttl`, so that it is not remembered longer than its job: a later
    job with the same key is a new one, and gets a new follower."""
    keep_s = spec.options.get("result_ttl")
    if keep_s is None or "result_ttl" in follower.options:
        return follower
    return msgspec.structs.replace(follower, options={**follower.options, "result_ttl": keep_s})


def _traced(spec: JobSpec) -> JobSpec:
    """Add the current trace context, as for a job without an id."""
    trace = current_traceparent()
    if not trace or spec.payload is not None or spec.options.get("traceparent"):
        return spec
    return msgspec.structs.replace(spec, options={**spec.options, "traceparent": trace})


def _following(spec: JobSpec, jobs: Sequence[Any]) -> JobSpec:
    check_followed(len(jobs))
    own = spec.options.get("after", ())
    after = (*own, *((one, ENDED) for one in jobs))
    return msgspec.structs.replace(spec, options=cast("Options", {**spec.options, "after": after}))
