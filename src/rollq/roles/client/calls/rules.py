"""`client.admin`: placement policies of queues, limits, and weights of clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.needs import SCOPES, rate_of
from rollq.grid.rule_views import LimitView, PolicyView, WeightView
from rollq.roles.client.answers import decode_as
from rollq.roles.client.calls.facades import PAGE, GroupCalls

DAY_S: Final = 86_400

Row = TypeVar("Row", PolicyView, LimitView, WeightView)


class RuleCalls(GroupCalls):
    """Settings of operators about placement and scheduling."""

    async def policies(self) -> list[PolicyView]:
        """Return the placement policies, by pattern; other queues use `least-load`."""
        return await self._rows("policies", list[PolicyView], lambda row: row.pattern)

    async def set_policy(
        self, pattern: str, placement: str, weights: Mapping[str, int] | None = None
    ) -> None:
        """Set how the queues that match a pattern choose workers. The most specific pattern
        applies.

        Args:
            pattern: Of queue names: `render`, `render.*`, `>`.
            placement: `least-load`, `round-robin`, `sticky`, `locality` or `score`.
            weights: For `score`: `credit`, `running`, `cpu`, `memory`, `held`, each 0 to 1000.
        """
        pairs = tuple(sorted((weights or {}).items()))
        await self._change("put_policy", pattern=pattern, placement=placement, weights=pairs)

    async def remove_policy(self, pattern: str) -> bool:
        """Remove the policy of a pattern; false if there was none."""
        return await self._change("remove_policy", pattern=pattern) > 0

    async def limits(self) -> list[LimitView]:
        """Return all limits with their current usage, by name."""
        return await self._rows("limits", list[LimitView], lambda row: row.name)

    async def set_limit(
        self, name: str, *, running: int = 0, rate: str | float = 0, burst: int = 0
    ) -> None:
        """Limit how many jobs run at once, or start per time. Running jobs go on.

        Args:
            name: `exec:PROGRAM`, `queue:QUEUE`, `client:CLIENT`, or `key:KEY` for jobs that have
                the key in their option `limits`.
            running: Jobs at once, or tokens of a key; 0: no limit.
            rate: Starts: `3/s`, `90/min`, or a number per second; 0: no limit.
            burst: How many may start at once; default: those of one second.
        """
        scope, own = _split(name)
        a_day = rate_of(rate if isinstance(rate, str) else f"{rate:g}") if rate else 0
        most = burst or max(1, a_day // DAY_S) if a_day else burst
        values: dict[str, Any] = {"running_max": running, "rate": a_day, "burst": most}
        await self._change("put_limit", scope=scope, name=own, **values)

    async def remove_limit(self, name: str) -> bool:
        """Remove a limit; false if there was none."""
        scope, own = _split(name)
        return await self._change("remove_limit", scope=scope, name=own) > 0

    async def weights(self) -> list[WeightView]:
        """Return the weights of clients, by id; the default is 1."""
        return await self._rows("weights", list[WeightView], lambda row: row.client_id)

    async def set_weight(self, client_id: str, weight: int) -> None:
        """Set the weight of a client in fair queueing: its share relative to others, 1 to 100."""
        await self._change("put_weight", client_id=client_id, weight=weight)

    async def _rows(
        self, view: str, kind: type[list[Row]], place: Callable[[Row], str]
    ) -> list[Row]:
        """All rows of a view, read page by page."""
        found: list[Row] = []
        while True:
            after = place(found[-1]).encode() if found else b""
            page = decode_as(await self._query(view, after, PAGE), kind)
            if not page:
                return found
            found += page


def _split(name: str) -> tuple[str, str]:
    scope, colon, own = name.partition(":")
    if not colon or scope not in SCOPES or not own:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{name[:64]!r} is not the name of a limit",
            f"write one of {', '.join(f'{one}:NAME' for one in SCOPES)}, as in exec:render",
        )
    return scope, own
