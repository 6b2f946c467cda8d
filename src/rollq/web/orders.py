"""What changes something: cancel, redrive, purge; workers, queues, settings, members. Each is an
ordinary request of a client to the leader."""

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
from rollq.web.call import Call, Reply, id_of
from rollq.web.errors import bad_request
from rollq.web.jobs import JobQuery, job_filter, job_page, unknown_job
from rollq.web.limits import IDS_MAX, WALK_ROWS_MAX

# In the order in which jobs pass through them.
OPEN_STATES: Final = (BLOCKED, DELAYED, WAITING, RUNNING)
ORDER_ROWS: Final = 500


class Filter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs; at least one field says something."""

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
        """The same in one state, as a list asks for it."""
        return JobQuery(**(msgspec.structs.asdict(self) | {"state": state}), newest=False)


class Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs by their ids, or all that match."""

    ids: tuple[str, ...] | None = None
    filter: Filter | None = None

    def __post_init__(self) -> None:
        if (self.ids is None) is (self.filter is None):
            raise ValueError("give ids or a filter")
        if self.ids is not None and len(self.ids) > IDS_MAX:
            raise ValueError(f"at most {IDS_MAX} ids")


class DeadChosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dead jobs by their ids, all that match, or all."""

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
    """A member: its id is text, because it does not fit a number of JavaScript."""

    id: str
    address: str


class MemberId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which member."""

    id: str


# Every setting by its name.
AllSettings: Final = msgspec.defstruct(
    "AllSettings",
    [(one.name, one.type) for one in msgspec.structs.fields(Settings)],
    frozen=True,
)
# The same; what is left out stays as it is.
SomeSettings: Final = msgspec.defstruct(
    "SomeSettings",
    [(one.name, one.type | None, None) for one in msgspec.structs.fields(Settings)],
    frozen=True,
    forbid_unknown_fields=True,
)


async def cancel_some(call: Call) -> Reply:
    """Cancel jobs and arrays by id, or all that match and have not ended."""
    chosen: Chosen = call.body
    if chosen.ids is not None:
        return Reply({"count": await call.links.client.cancel(*map(id_of, chosen.ids))})
    assert chosen.filter is not None
    state = chosen.filter.state
    if state and state not in OPEN_STATES:
        raise bad_request(f"jobs that are {state[:32]!r} have ended", "leave the state out")
    count = 0
    for one in [state] if state else OPEN_STATES:
        async for ids in _walk(call, chosen.filter.with_state(one)):
            count += await call.links.client.cancel(*ids)
    return Reply({"count": count})


async def redrive_some(call: Call) -> Reply:
    """Run dead jobs again, by id or all that match."""
    chosen: Chosen = call.body
    return await _order_dead(call, call.links.client.redrive, chosen.ids, chosen.filter)


async def redrive_dead(call: Call) -> Reply:
    """Run dead jobs again, by id, all that match, or all."""
    chosen: DeadChosen = call.body
    return await _order_dead(call, call.links.client.redrive, chosen.ids, chosen.filter)


async def purge_dead(call: Call) -> Reply:
    """Forget dead jobs for good."""
    chosen: DeadChosen = call.body
    return await _order_dead(call, call.links.client.purge, chosen.ids, chosen.filter)


async def cancel(call: Call) -> Reply:
    """Cancel one job or array."""
    await _must_be_known(call)
    return Reply({"count": await call.links.client.cancel(call.job_id)})


async def drain(call: Call) -> Reply:
    """Give a worker no new jobs; it finishes what it runs."""
    return Reply({"count": await call.links.client.drain(call.job_id)})


async def undrain(call: Call) -> Reply:
    """Give a drained worker jobs again."""
    return Reply({"count": await call.links.client.undrain(call.job_id)})


async def dismiss(call: Call) -> Reply:
    """Tell a worker to end now."""
    count = await call.links.client.dismiss(call.job_id)
    if not count:
        raise StateError(
            ErrorCode.UNKNOWN_WORKER,
            f"no worker {call.path['id']} is connected",
            "GET /workers lists them",
        )
    return Reply({"count": count})


async def pause(call: Call) -> Reply:
    """Assign nothing of a queue for now."""
    await call.links.client.pause(call.path["name"])
    return Reply({"count": 1})


async def resume(call: Call) -> Reply:
    """Assign again."""
    await call.links.client.resume(call.path["name"])
    return Reply({"count": 1})


async def put_settings(call: Call) -> Reply:
    """Change some of the cluster's settings: those that are given."""
    asked = msgspec.structs.asdict(call.body)
    given = {name: value for name, value in asked.items() if value is not None}
    client = call.links.client
    changed = msgspec.structs.replace(await client.settings(), **given)
    await client.set_settings(changed)
    return Reply(msgspec.structs.asdict(changed))


async def add_member(call: Call) -> Reply:
    """Let a member in; it votes as soon as it has caught up."""
    body: MemberBody = call.body
    split_address(body.address)
    await call.links.client.add_member(_member_id(body.id), body.address)
    return Reply({"count": 1})


async def remove_member(call: Call) -> Reply:
    """Take a member out."""
    await call.links.client.remove_member(_member_id(call.path["member"]))
    return Reply({"count": 1})


async def transfer(call: Call) -> Reply:
    """Hand leadership to a member."""
    body: MemberId = call.body
    await call.links.client.transfer(_member_id(body.id))
    return Reply({"count": 1})


async def _order_dead(
    call: Call,
    order: Callable[..., Awaitable[int]],
    ids: tuple[str, ...] | None,
    wanted: Filter | None,
) -> Reply:
    if ids is not None:
        return Reply({"count": await order(*map(id_of, dict.fromkeys(ids))) if ids else 0})
    if wanted is not None and wanted.state not in ("", DEAD):
        raise bad_request(f"jobs that are {wanted.state[:32]!r} are not dead", "leave it out")
    query = wanted.with_state(DEAD) if wanted is not None else JobQuery(state=DEAD, newest=False)
    count = 0
    async for some in _walk(call, query):
        count += await order(*some)
    return Reply({"count": count})


async def _walk(call: Call, wanted: JobQuery) -> AsyncIterator[list[JobId]]:
    """The ids of all jobs that match, some at a time, as the leader has them."""
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


async def _must_be_known(call: Call) -> None:
    view = await call.links.find(RawJobView, "job", call.job_id)
    if view is None and await call.links.find(RawArrayView, "array", call.job_id) is None:
        raise unknown_job(call.path["id"])


def _member_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:20]) < 1 << 63:
        raise bad_request(f"{text[:32]!r} is not the id of a member", "GET /cluster shows them")
    return int(text)
