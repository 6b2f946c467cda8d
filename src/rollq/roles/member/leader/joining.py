"""Joins like commands of one turn into runs.

Joined are submits of one client for the same queue, program and options, acks of attempts with the
same end, confirmations of one client, and publishes to one topic. Submits of a client and publishes
stay in order. A command is moved ahead of other runs only: every other command keeps its place, and
nothing moves ahead of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from rollq.base.ids import GUID_BYTES
from rollq.base.limits import RUN_JOBS_MAX
from rollq.base.staged import KEY_END
from rollq.grid.commands import (
    AckRun,
    AssignRun,
    AssignTasks,
    Command,
    ConfirmRun,
    SubmitRun,
)
from rollq.grid.effects import Applied, Kept, Outcome, RunDone
from rollq.grid.topic_commands import PublishKept
from rollq.roles.member.leader.origins import SILENT, Origin, Proposal


def count_of(command: Command) -> int:
    """The number of jobs in a run; 1 for any other command."""
    if isinstance(command, SubmitRun | AckRun | AssignRun | ConfirmRun):
        return len(command.job_ids) // GUID_BYTES
    if isinstance(command, PublishKept):
        return len(command.subjects)
    return command.count if isinstance(command, AssignTasks) else 1


def joined(batch: Sequence[Proposal]) -> list[Proposal]:
    """The proposals with like ones joined."""
    groups: list[list[Proposal]] = []
    last: dict[Hashable, JoinableCommands] = {}  # open groups
    for proposal in batch:
        command = proposal[0]
        shared: tuple[Hashable, ...]
        if isinstance(command, AckRun):
            shared = command.status, command.exit_code, command.signal, command.detail
            place: Hashable = AckRun, command.attempt, command.retry_delay_ms, shared
        elif isinstance(command, SubmitRun):
            shared = command.queue, command.exec_name, command.options, command.caches
            place = SubmitRun, command.client_id
        elif isinstance(command, ConfirmRun):
            shared = ()
            place = ConfirmRun, command.client_id
        elif isinstance(command, PublishKept):
            shared = ()
            place = PublishKept, command.topic
        else:
            groups.append([proposal])
            if not isinstance(command, AssignRun | AssignTasks):
                last.clear()
            continue
        count = count_of(command)
        known = last.get(place)
        if known is None or known.shared != shared or known.count + count > RUN_JOBS_MAX:
            known = last[place] = JoinableCommands(shared, [])
            groups.append(known.parts)
        known.parts.append(proposal)
        known.count += count
    return [group[0] if len(group) == 1 else _join(group) for group in groups]


class JoinableCommands(msgspec.Struct):
    """Proposals that become one run: their shared values, and their number of jobs."""

    shared: tuple[Hashable, ...]
    parts: list[Proposal]
    count: int = 0


def part_of(outcome: Outcome, first: int, count: int) -> Outcome:
    """The outcome of a run for some of its jobs."""
    if isinstance(outcome, Kept):
        return Kept(outcome.index + first, count)
    if not isinstance(outcome, RunDone):
        return outcome
    others = outcome.others
    if others:
        others = tuple([(at - first, one) for at, one in others if first <= at < first + count])
    return RunDone(count - len(others), others)


def _join(group: list[Proposal]) -> Proposal:
    parts: list[Any] = [command for command, _, _ in group]
    counts = [count_of(part) for part in parts]
    first = parts[0]
    command: Command
    if isinstance(first, PublishKept):
        command = _join_publishes(parts, counts)
    else:
        command = _join_jobs(parts, counts)
    if all(origin is SILENT for _, origin, _ in group):
        origin = SILENT
    else:
        origin = Origin(JoinedOrigins(group, counts).settle)
    return command, origin, sum([size_bytes for _, _, size_bytes in group])


def _join_publishes(parts: Sequence[PublishKept], counts: list[int]) -> PublishKept:
    return PublishKept(
        parts[0].topic,
        _column(part.subjects for part in parts),
        _column(part.payloads for part in parts),
        _filled([part.reply_to for part in parts], counts, ""),
    )


def _join_jobs(parts: list[Any], counts: list[int]) -> Command:
    job_ids = b"".join([part.job_ids for part in parts])
    first = parts[0]
    command: Command
    if isinstance(first, AckRun):
        command = AckRun(
            first.attempt,
            first.status,
            job_ids,
            _column(part.fences for part in parts),
            _column(part.results for part in parts),
            first.exit_code,
            first.signal,
            first.retry_delay_ms,
            first.detail,
            _filled([part.run_ms for part in parts], counts, 0),
            _filled([part.peak_bytes for part in parts], counts, 0),
            _filled([part.fetched_bytes for part in parts], counts, 0),
            _filled([part.held_bytes for part in parts], counts, 0),
            _filled([part.blobs for part in parts], counts, ()),
        )
    elif isinstance(first, SubmitRun):
        keys = [part.keys.split(KEY_END) if part.keys else () for part in parts]
        command = SubmitRun(
            first.client_id,
            first.queue,
            first.exec_name,
            job_ids,
            _column(part.bodies for part in parts),
            first.options,
            first.caches,
            KEY_END.join(_filled(keys, counts, "")),
            _filled([part.blobs for part in parts], counts, ()),
        )
    else:
        command = ConfirmRun(first.client_id, job_ids)
    return command


class JoinedOrigins(msgspec.Struct, frozen=True):
    """The proposals in a run, and the number of jobs in each."""

    group: list[Proposal]
    counts: list[int]

    def settle(self, _: Origin, run: Command, outcome: Outcome, applied: Applied) -> None:
        """Settle each proposal with its part of the outcome."""
        first = 0
        for (command, origin, _size), count in zip(self.group, self.counts, strict=True):
            if origin is not SILENT:
                origin.settle(origin, command, part_of(outcome, first, count), applied)
            first += count


def _column(columns: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(columns))


def _filled(columns: list[Any], counts: list[int], default: object) -> tuple[Any, ...]:
    """Concatenate columns; an empty one among others is filled with the default."""
    if not any(columns):
        return ()
    return _column(
        column or (default,) * count for column, count in zip(columns, counts, strict=True)
    )
