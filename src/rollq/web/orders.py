"""Changes: cancel, redrive, purge; workers, queues, settings, members. Each is an ordinary client
request to the leader."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import JobId
from rollq.base.outcomes import BLOCKED, DEAD, DELAYED, RUNNING, WAITING
from rollq.grid.commands import Settings
from rollq.grid.views import RawArrayView, RawJobView
from rollq.net.dialer import split_address
from rollq.web.call import ApiCall, ApiReply, id_of
from rollq.web.errors import bad_request
from rollq.web.jobs import JobQuery, job_filter, job_page, unknown_job
from rollq.web.limits import IDS_MAX, WALK_ROWS_MAX

# In the order of state changes.
OPEN_STATES: Final = (BLOCKED, DELAYED, WAITING, RUNNING)
ORDER_ROWS: Final = 500


class Filter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A filter of jobs; at least one field must be set."""

    state: str = ""
    exec: str = ""
    client: str = ""
    queue: str = ""
    key: str = ""
    text: str = ""
    since_ms: int = 0
    until_ms: int = 0

    def __post_init__(self) -> None:
        if not any(msgspec.structs.astuple(self)):
            raise ValueError("an empty filter would mean all jobs; say which")

    def with_state(self, state: str) -> JobQuery:
        """A query with this filter in one state."""
        return JobQuery(**(msgspec.structs.asdict(self) | {"state": state}), newest=False)


class JobSelection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs by id, or by a filter."""

    ids: tuple[str, ...] | None = None
    filter: Filter | None = None

    def __post_init__(self) -> None:
        if (self.ids is None) is (self.filter is None):
            raise ValueError("give ids or a filter")
        if self.ids is not None and len(self.ids) > IDS_MAX:
            raise ValueError(f"at most {IDS_MAX} ids")


class DeadJobSelection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dead jobs by id, by a filter, or all."""

    ids: tuple[str, ...] | None = None
    filter: Filter | None = None
    all: bool = False

    def __post_init__(self) -> None:
        if (self.ids is not None) + (self.filter is not None) + self.all != 1:
            raise ValueError("give ids, a filter, or all: true")
        if self.ids is not None and len(self.ids) > IDS_MAX:
            raise ValueError(f"at most {IDS_MAX} ids")


class Count(msgspec.Struct, frozen=True):
    """How many were changed."""

    count: int


class MemberBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member: its id is text, because it exceeds JavaScript numbers."""

    id: str
    address: str


class MemberId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The id of a member."""

    id: str


# All settings by name.
AllSettings: Final = msgspec.defstruct(
    "AllSettings",
    [(one.name, one.type) for one in msgspec.structs.fields(Settings)],
    frozen=True,
)
# The same, all optional.
SomeSettings: Final = msgspec.defstruct(
    "SomeSettings",
    [(one.name, one.type | None, None) for one in msgspec.structs.fields(Settings)],
    frozen=True,
    forbid_unknown_fields=True,
)


async def cancel_some(call: ApiCall) -> ApiReply:
    """Cancel jobs and arrays by id, or all matching jobs that have not ended."""
    chosen: JobSelection = call.body
    if chosen.ids is not None:
        return ApiReply({"count": await call.links.client.cancel(*map(id_of, chosen.ids))})
    assert chosen.filter is not None
    state = chosen.filter.state
    if state and state not in OPEN_STATES:
        raise bad_request(f"jobs that are {state[:32]!r} have ended", "leave the state out")
    count = 0
    for one in [state] if state else OPEN_STATES:
        async for ids in _walk(call, chosen.filter.with_state(one)):
            count += await call.links.client.cancel(*ids)
    return ApiReply({"count": count})


async def redrive_some(call: ApiCall) -> ApiReply:
    """Run dead jobs again, by id or all that match."""
    chosen: JobSelection = call.body
    return await _order_dead(call, call.links.client.redrive, chosen.ids, chosen.filter)


async def redrive_dead(call: ApiCall) -> ApiReply:
    """Run dead jobs again, by id, all that match, or all."""
    chosen: DeadJobSelection = call.body
    return await _order_dead(call, call.links.client.redrive, chosen.ids, chosen.filter)


async def purge_dead(call: ApiCall) -> ApiReply:
    """Delete dead jobs."""
    chosen: DeadJobSelection = call.body
    return await _order_dead(call, call.links.client.purge, chosen.ids, chosen.filter)


async def cancel(call: ApiCall) -> ApiReply:
    """Cancel one job or array."""
    await _check_known(call)
    return ApiReply({"count": await call.links.client.cancel(call.job_id)})


async def drain(call: ApiCall) -> ApiReply:
    """Stop assigning jobs to a worker; running jobs finish."""
    return ApiReply({"count": await call.links.client.drain(call.job_id)})


async def undrain(call: ApiCall) -> ApiReply:
    """Assign jobs to a drained worker again."""
    return ApiReply({"count": await call.links.client.undrain(call.job_id)})


async def dismiss(call: ApiCall) -> ApiReply:
    """Stop a worker at once."""
    count = await call.links.client.dismiss(call.job_id)
    if not count:
        raise StateError(
            ErrorCode.UNKNOWN_WORKER,
            f"no worker {call.path['id']} is connected",
            "GET /workers lists them",
        )
    return ApiReply({"count": count})


async def pause(call: ApiCall) -> ApiReply:
    """Pause a queue: stop assigning its jobs."""
    await call.links.client.pause(call.path["name"])
    return ApiReply({"count": 1})


async def resume(call: ApiCall) -> ApiReply:
    """Resume a paused queue."""
    await call.links.client.resume(call.path["name"])
    return ApiReply({"count": 1})


async def put_settings(call: ApiCall) -> ApiReply:
    """Change the given settings of the cluster."""
    asked = msgspec.structs.asdict(call.body)
    given = {name: value for name, value in asked.items() if value is not None}
    client = call.links.client
    changed = msgspec.structs.replace(await client.settings(), **given)
    await client.set_settings(changed)
    return ApiReply(msgspec.structs.asdict(changed))


async def add_member(call: ApiCall) -> ApiReply:
    """Add a member; it votes as soon as it has caught up."""
    body: MemberBody = call.body
    split_address(body.address)
    await call.links.client.add_member(_member_id(body.id), body.address)
    return ApiReply({"count": 1})


async def remove_member(call: ApiCall) -> ApiReply:
    """Remove a member."""
    await call.links.client.remove_member(_member_id(call.path["member"]))
    return ApiReply({"count": 1})


async def transfer(call: ApiCall) -> ApiReply:
    """Transfer leadership to a member."""
    body: MemberId = call.body
    await call.links.client.transfer(_member_id(body.id))
    return ApiReply({"count": 1})


async def _order_dead(
    call: ApiCall,
    order: Callable[..., Awaitable[int]],
    ids: tuple[str, ...] | None,
    wanted: Filter | None,
) -> ApiReply:
    if ids is not None:
        return ApiReply({"count": await order(*map(id_of, dict.fromkeys(ids))) if ids else 0})
    if wanted is not None and wanted.state not in ("", DEAD):
        raise bad_request(f"jobs that are {wanted.state[:32]!r} are not dead", "leave it out")
    query = wanted.with_state(DEAD) if wanted is not None else JobQuery(state=DEAD, newest=False)
    count = 0
    async for some in _walk(call, query):
        count += await order(*some)
    return ApiReply({"count": count})


async def _walk(call: ApiCall, wanted: JobQuery) -> AsyncIterator[list[JobId]]:
    """Iterate over pages of ids of all matching jobs, from the leader."""
    looked_at = 0
    base = job_filter(wanted)
    place = 0
    while True:
        wanted_now = msgspec.structs.replace(base, after=place)
        page = await job_page(call.links.ask, wanted_now, ORDER_ROWS)
        found = [one.job_id for one in page.jobs if not one.cancel_requested]
        looked_at += len(page.jobs)
        if found:
            yield found
        place = page.after
        if not place:
            return
        if looked_at >= WALK_ROWS_MAX:
            raise StateError(
                ErrorCode.GRID_FULL, f"{looked_at} jobs were changed, and there are more", "repeat"
            )


async def _check_known(call: ApiCall) -> None:
    view = await call.links.find(RawJobView, "job", call.job_id)
    if view is None and await call.links.find(RawArrayView, "array", call.job_id) is None:
        raise unknown_job(call.path["id"])


def _member_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:20]) < 1 << 63:
        raise bad_request(f"{text[:32]!r} is not the id of a member", "GET /cluster shows them")
    return int(text)
