"""The directives of etcd-raft scripts, one small handler each.

The order of work is that of etcd's own environment (every node's Ready, then every node's mail,
until nothing is left), because what a script's `stabilize 1 2` leaves in flight depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rollq.raft.node import RaftOptions
from rollq.raft.types import HardState, InstallSnapshot, SnapshotMeta
from tests.external.etcd_env import Env
from tests.external.etcd_expect import parse_change
from tests.scenarios.blocks import Block, ScriptError
from tests.scenarios.raft.member import EMPTY_STATE, FakeDisk, FakeMember, make_config

ROUNDS_MAX = 1_000  # a stabilize that needs more will never end
ELECTION_TICKS = 3  # as in etcd's environment


@dataclass(slots=True)
class Done:
    """What a directive did: which nodes are now at rest, which only took a step."""

    evicted: list[int] = field(default_factory=list)
    stepped: list[int] = field(default_factory=list)
    refused: bool | None = None  # None: the directive asks for nothing that can be refused


def run_directive(env: Env, block: Block) -> Done:
    """Carry out one directive; the environment keeps what happened to the nodes meanwhile."""
    handler = DIRECTIVES.get(block.command)
    if handler is None:
        raise ScriptError(block.line, f"unknown directive {block.command!r}")
    env.shown.clear()
    done = handler(env, block)
    for member in env.members:
        env.note(member)
    return done


def _add_nodes(env: Env, block: Block) -> Done:
    options = RaftOptions(
        election_ticks_min=ELECTION_TICKS,
        election_ticks_max=2 * ELECTION_TICKS,
        heartbeat_ticks=1,
        pre_vote=block.option("prevote", "false") == "true",
        check_quorum=block.option("checkquorum", "false") == "true",
        inflight_appends_max=block.option_number("inflight", 1 << 30),
        inflight_bytes_max=1 << 40,
    )
    state = EMPTY_STATE + block.option("content").encode()
    born = []
    for _ in range(block.number(0)):
        disk = FakeDisk()
        index = block.option_number("index", 0)
        if index:
            config = make_config(block.option_numbers("voters"), block.option_numbers("learners"))
            # etcd's nodes start at term 0 with a log that ends in term 1, which no disk of ours
            # can hold: a member is never behind the term of its log. The start counts as term 0.
            disk.snapshot = SnapshotMeta(index, 0, config, len(state))
            disk.snapshot_data = state
            disk.hard_state = HardState(commit=index)
        env.members.append(FakeMember(len(env.members) + 1, options, disk))
        born.append(len(env.members))
    if block.option("step-down-on-removal", "false") != "true":
        env.stay_when_removed.update(born)
    return Done(evicted=born)


def _campaign(env: Env, block: Block) -> Done:
    env.member(block.number(0)).node.campaign()
    return Done(stepped=[block.number(0)])


def _compact(env: Env, block: Block) -> Done:
    member = env.member(block.number(0))
    member.disk.compact(block.number(1))
    member.node.snapshot_taken(member.snapshot_meta(), block.number(1))
    return Done()


def _deliver_messages(env: Env, block: Block) -> Done:
    kind = block.option("type")
    for node in block.numbers():
        env.deliver(node, kind)
    for node in block.option_numbers("drop"):
        env.deliver(node, kind, drop=True)
    return Done(stepped=block.numbers())


def _process_ready(env: Env, block: Block) -> Done:
    for node in block.numbers():
        env.process_ready(node)
    return Done(stepped=block.numbers())


def _stabilize(env: Env, block: Block) -> Done:
    nodes = block.numbers() or [member.id for member in env.members]
    for _ in range(ROUNDS_MAX):
        busy = [node for node in nodes if env.member(node).node.has_ready()]
        for node in busy:
            env.process_ready(node)
        mailed = [node for node in nodes if any(each.to == node for each in env.mail)]
        for node in mailed:
            env.deliver(node)
        if not busy and not mailed:
            return Done(evicted=nodes)
    raise ScriptError(block.line, f"no rest after {ROUNDS_MAX} rounds")


def _log_level(env: Env, block: Block) -> Done:
    env.level = block.word(0).lower()
    return Done()


def _propose(env: Env, block: Block) -> Done:
    return Done(refused=not env.propose(block.number(0), block.word(1).encode()))


def _propose_change(env: Env, block: Block) -> Done:
    change = parse_change(" ".join(block.input))
    return Done(refused=not env.propose_change(block.number(0), change))


def _tick_election(env: Env, block: Block) -> Done:
    for _ in range(ELECTION_TICKS):
        env.member(block.number(0)).node.tick()
    return Done(stepped=[block.number(0)])


def _tick_heartbeat(env: Env, block: Block) -> Done:
    env.member(block.number(0)).node.tick()
    return Done(stepped=[block.number(0)])


def _transfer(env: Env, block: Block) -> Done:
    env.transfer(block.option_number("from", 0), block.option_number("to", 0))
    return Done()


def _send_snapshot(env: Env, block: Block) -> Done:
    source = env.member(block.number(0))
    meta = source.snapshot_meta()
    env.mail.append(
        InstallSnapshot(
            block.number(1), source.id, source.node.term, meta, 0, meta.size_bytes, source.state
        )
    )
    return Done()


def _report_unreachable(env: Env, block: Block) -> Done:
    env.member(block.number(0)).node.report_unreachable(block.number(1))
    return Done()


def _set_timeout(env: Env, block: Block) -> Done:
    # Chance is drawn inside; the script wants a certain outcome of it.
    env.member(block.number(0)).node._state.election_ticks = block.option_number("timeout", 0)
    return Done()


def _show(env: Env, block: Block) -> Done:
    return Done()


DIRECTIVES: dict[str, Callable[[Env, Block], Done]] = {
    "add-nodes": _add_nodes,
    "campaign": _campaign,
    "compact": _compact,
    "deliver-msgs": _deliver_messages,
    "log-level": _log_level,
    "process-ready": _process_ready,
    "propose": _propose,
    "propose-conf-change": _propose_change,
    "raft-log": _show,
    "raft-state": _show,
    "report-unreachable": _report_unreachable,
    "send-snapshot": _send_snapshot,
    "set-randomized-election-timeout": _set_timeout,
    "stabilize": _stabilize,
    "status": _show,
    "tick-election": _tick_election,
    "tick-heartbeat": _tick_heartbeat,
    "transfer-leadership": _transfer,
}
