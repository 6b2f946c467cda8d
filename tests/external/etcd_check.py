"""Whether our members are where an etcd-raft script says its nodes are: meaning, not text.

Compared after each directive, for what the script has shown and no more:

- a node at rest (after `stabilize`, or just born): role, leader, term, vote, commit, applied
  index, configuration, entries and last index of the log;
- what it persisted (term, vote, commit, entries), announced (role, leader) and applied on the
  way, in order; ours may take more steps for a commit, but through no other terms or votes;
- every change of role and term, and every vote cast, in order;
- `raft-log`, `raft-state`, `status` and `compact`: all they print, but for flow control while
  appends are in flight, which depends on how entries are batched into messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.external.etcd_directives import Done
from tests.external.etcd_env import Env, as_line
from tests.external.etcd_expect import (
    ROLES,
    LogLine,
    Shown,
    View,
    Views,
    Voters,
    parse_entry,
)
from tests.scenarios.blocks import Block
from tests.scenarios.raft.member import FakeMember

SHOWS_CHANGES = ("debug", "info")
DROPPED = "raft proposal dropped"
EMPTY_LOG = re.compile(r"log is empty: first index=(\d+), last index=(\d+)")
STATE_LINE = re.compile(r"(\d+): (State\w+) \((Voter|Non-Voter)\) Term:(\d+) Lead:(\d+)")
STATUS_LINE = re.compile(r"(\d+): State(\w+) match=(\d+) next=(\d+)(.*)")


class MismatchError(Exception):
    """Ours is not where the script says."""


def check(env: Env, views: Views, block: Block, done: Done) -> int:
    """Compare all that the block shows; the number of comparisons that held."""
    held = 0
    for what, wanted, got in _comparisons(env, views, block, done):
        if wanted != got:
            raise MismatchError(f"{what}: expected {wanted}, got {got}")
        held += 1
    return held


Comparison = tuple[str, object, object]


def _comparisons(env: Env, views: Views, block: Block, done: Done) -> Iterator[Comparison]:
    if done.refused is not None:
        yield "proposal dropped", DROPPED in block.expected, done.refused
    if is_silent(env, block):
        return
    for node in done.evicted:
        yield from _at_rest(env, env.member(node), views.of(node))
    for node in done.stepped:
        yield from _on_the_way(env, env.member(node), views.of(node))
    if env.level in SHOWS_CHANGES:
        yield from _changes(env, views)
    if block.command in ("raft-log", "compact"):
        yield from _log(env.member(block.number(0)), block.expected)
    elif block.command == "raft-state":
        yield from _states(env, block.expected)
    elif block.command == "status":
        yield from _status(env.member(block.number(0)), block.expected)


def is_silent(env: Env, block: Block) -> bool:
    """Whether the script printed nothing of what happened here."""
    return "none" in (env.level, block.option("log-level").lower())


def _at_rest(env: Env, member: FakeMember, view: View) -> Iterator[Comparison]:
    node, name = member.node, f"node {member.id}"
    hard_state = member.disk.hard_state
    known: list[tuple[str, object, object]] = [
        ("role", view.role, node.role),
        ("leader", view.leader_id, node.leader_id),
        ("term", view.term, hard_state.term),
        ("vote", view.vote, hard_state.vote),
        ("commit", view.commit, hard_state.commit),
        ("applied", view.applied, member.state_index),
        ("last index", view.last_index, member.disk.last_index),
        ("snapshot", view.snapshot, (member.disk.snapshot.term, member.disk.snapshot.index)),
        ("configuration", view.voters, _voters(member)),
    ]
    for what, wanted, got in known:
        if wanted is not None:
            yield f"{name} {what}", wanted, got
    for index, wanted_line in sorted(view.log.items()):
        if index >= member.disk.first_index:
            yield f"{name} log at {index}", wanted_line, _line_at(member, index)
    yield from _on_the_way(env, member, view)


def _changes(env: Env, views: Views) -> Iterator[Comparison]:
    """Changes of role and term and the votes that were cast, of every node that had any."""
    for node in sorted(views.by_node.keys() | env.shown.keys()):
        wanted, got = views.of(node).shown, env.shown.get(node, Shown())
        yield f"node {node} changes of role", wanted.became, got.became
        yield f"node {node} votes cast", wanted.cast, got.cast


def _on_the_way(env: Env, member: FakeMember, view: View) -> Iterator[Comparison]:
    name = f"node {member.id}"
    wanted, got = view.shown, env.shown.get(member.id, Shown())
    yield f"{name} terms and votes", _ballots(wanted.persisted), _ballots(got.persisted)
    rest = iter(got.persisted)
    missing = [each for each in wanted.persisted if each not in rest]
    yield f"{name} persisted on the way", [], missing
    yield f"{name} roles", wanted.announced, got.announced
    yield f"{name} entries persisted", wanted.appended, got.appended
    yield f"{name} entries applied", wanted.applied, got.applied


def _ballots(persisted: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Terms and votes without repetition."""
    ballots: list[tuple[int, int]] = []
    for term, vote, _ in persisted:
        if not ballots or ballots[-1] != (term, vote):
            ballots.append((term, vote))
    return ballots


def _voters(member: FakeMember) -> Voters:
    config = member.node.config
    return Voters(
        tuple(each.id for each in config.voters), tuple(each.id for each in config.learners)
    )


def _line_at(member: FakeMember, index: int) -> LogLine | None:
    at = index - member.disk.first_index
    return as_line(member.disk.entries[at]) if 0 <= at < len(member.disk.entries) else None


def _log(member: FakeMember, expected: tuple[str, ...]) -> Iterator[Comparison]:
    name = f"node {member.id} log"
    for line in expected:
        empty = EMPTY_LOG.match(line)
        if empty:
            got = (member.disk.first_index, member.disk.last_index)
            yield name, (int(empty[1]), int(empty[2])), got
            return
    wanted = [parse_entry(line) for line in expected]
    yield name, wanted, [as_line(entry) for entry in member.disk.entries]


def _states(env: Env, expected: tuple[str, ...]) -> Iterator[Comparison]:
    yield "nodes", len(expected), len(env.members)
    for line in expected:
        match = STATE_LINE.match(line)
        if match is None:
            raise MismatchError(f"cannot read {line!r}")
        member = env.member(int(match[1]))
        role = ROLES[match[2]]
        wanted = (role, match[3] == "Voter", int(match[4]), int(match[5]))
        node = member.node
        is_voter = member.id in _voters(member).voters
        yield f"node {member.id} state", wanted, (node.role, is_voter, node.term, node.leader_id)


def _status(member: FakeMember, expected: tuple[str, ...]) -> Iterator[Comparison]:
    views = member.node.progress
    matches = [STATUS_LINE.match(line) for line in expected if line != "ok"]
    lines = {int(match[1]): match for match in matches if match}
    yield "members in status", sorted(lines), sorted(views)
    for who, match in lines.items():
        view, flags = views[who], match[5].split()
        name = f"status of {who}"
        yield f"{name}: state", match[2].lower(), view.state.name.lower()
        yield f"{name}: match", int(match[3]), view.match
        yield f"{name}: learner", "learner" in flags, view.learner
        yield f"{name}: inactive", "inactive" in flags, not view.active
        if who == member.id:
            yield f"{name}: next", int(match[4]), view.match + 1
        elif not any(flag.startswith("inflight=") for flag in flags):
            yield f"{name}: next", int(match[4]), view.next
            yield f"{name}: paused", "paused" in flags, view.paused
        for flag in flags:
            if flag.startswith("pendingSnap="):
                yield f"{name}: snapshot", int(flag.partition("=")[2]), view.snapshot_index
