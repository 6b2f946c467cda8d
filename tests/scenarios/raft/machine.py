"""The commands of raft scenarios, one small handler each.

Making a world      cluster N [voters= learners= prevote=off checkquorum=off window= append= chunk=]
                    member ID [voters= learners= log=(terms) term= vote= commit= suspect=T/I ...]
Asking a member     campaign · propose ID words · change ID voter|learner|remove|update ID ...
                    read ID request · transfer ID to · lost ID leader · restarted ID member last
                    unreachable ID member · tick ID [times] · snapshot ID [keep=entries]
Moving things       ready ID · deliver ID [from= kind= count=] · drop ID [...] · settle [IDs]
Breaking things     cut A B [oneway=on] · heal · crash ID · restart ID [suspect=T/I lose=entries]
Looking             show · log ID · progress ID · config ID · mail · reads ID · state ID

`settle` does every member's Ready and delivers every member's mail until nothing is left. Commands
that move something print the members whose standing changed.
"""

from __future__ import annotations

from rollq.raft.node import RaftOptions
from rollq.raft.types import (
    ConfigChange,
    Entry,
    HardState,
    Member,
    MemberChange,
    Position,
    RaftMessage,
    SnapshotMeta,
)
from tests.scenarios.blocks import Block, ScriptError
from tests.scenarios.raft.member import FakeDisk, FakeMember, make_config
from tests.scenarios.raft.words import (
    CHANGE_WORDS,
    describe_config,
    describe_entry,
    describe_message,
    describe_progress,
)
from tests.scenarios.raft.world import World
from tests.scenarios.runner import Machine

CHANGES_BY_WORD = {word: kind for kind, word in CHANGE_WORDS.items()}
NOTHING = "(nothing)"


def _cluster(world: World, block: Block) -> str:
    ids = list(range(1, block.number(0) + 1))
    learners = block.option_numbers("learners")
    voters = block.option_numbers("voters") or [each for each in ids if each not in learners]
    for each in ids:
        disk = FakeDisk(snapshot=SnapshotMeta(config=make_config(voters, learners)))
        world.add(FakeMember(each, _options(block), disk))
    return world.news()


def _member(world: World, block: Block) -> str:
    terms = block.option_numbers("log")
    entries = [Entry(term, at, 0, f"x{at}".encode()) for at, term in enumerate(terms, 1)]
    term = block.option_number("term", terms[-1] if terms else 0)
    config = make_config(block.option_numbers("voters"), block.option_numbers("learners"))
    disk = FakeDisk(
        HardState(term, block.option_number("vote", 0), block.option_number("commit", 0)),
        SnapshotMeta(config=config),
        entries=entries,
    )
    world.add(FakeMember(block.number(0), _options(block), disk, _suspect(block)))
    return world.news()


def _options(block: Block) -> RaftOptions:
    standard = RaftOptions()
    return RaftOptions(
        pre_vote=block.option("prevote", "on") == "on",
        check_quorum=block.option("checkquorum", "on") == "on",
        inflight_appends_max=block.option_number("window", standard.inflight_appends_max),
        inflight_bytes_max=block.option_number("window-bytes", standard.inflight_bytes_max),
        append_bytes_max=block.option_number("append", standard.append_bytes_max),
        snapshot_chunk_bytes_max=block.option_number("chunk", standard.snapshot_chunk_bytes_max),
        uncommitted_bytes_max=block.option_number("uncommitted", standard.uncommitted_bytes_max),
    )


def _suspect(block: Block) -> Position | None:
    text = block.option("suspect")
    if not text:
        return None
    term, _, index = text.partition("/")
    return Position(block.as_number(term), block.as_number(index))


def _campaign(world: World, block: Block) -> str:
    world.member(block.number(0)).node.campaign()
    return world.news()


def _propose(world: World, block: Block) -> str:
    for word in block.words[1:]:
        world.member(block.number(0)).node.propose(word.encode())
    return world.news()


def _change(world: World, block: Block) -> str:
    pairs = zip(block.words[1::2], block.words[2::2], strict=True)
    changes = tuple(
        MemberChange(_change_kind(block, word), Member(block.as_number(who))) for word, who in pairs
    )
    world.member(block.number(0)).node.propose_config(ConfigChange(changes))
    return world.news()


def _change_kind(block: Block, word: str) -> int:
    if word not in CHANGES_BY_WORD:
        raise ScriptError(block.line, f"no such change: {word!r}")
    return CHANGES_BY_WORD[word]


def _read(world: World, block: Block) -> str:
    world.member(block.number(0)).node.read_index(block.number(1))
    return world.news()


def _transfer(world: World, block: Block) -> str:
    world.member(block.number(0)).node.transfer_leadership(block.number(1))
    return world.news()


def _lost(world: World, block: Block) -> str:
    world.member(block.number(0)).node.leader_lost(block.number(1))
    return world.news()


def _restarted(world: World, block: Block) -> str:
    world.member(block.number(0)).node.member_restarted(block.number(1), block.number(2))
    return world.news()


def _unreachable(world: World, block: Block) -> str:
    world.member(block.number(0)).node.report_unreachable(block.number(1))
    return world.news()


def _tick(world: World, block: Block) -> str:
    times = block.number(1) if len(block.words) > 1 else 1
    for _ in range(times):
        world.member(block.number(0)).node.tick()
    return world.news()


def _snapshot(world: World, block: Block) -> str:
    member = world.member(block.number(0))
    meta = member.take_snapshot(member.state_index - block.option_number("keep", 0))
    return f"snapshot {meta.term}/{meta.index}, {meta.size_bytes} bytes"


def _ready(world: World, block: Block) -> str:
    world.handle_ready(block.number(0))
    return world.news()


def _deliver(world: World, block: Block) -> str:
    messages = _chosen_mail(world, block)
    world.deliver(messages)
    return "\n".join([*(describe_message(each) for each in messages), world.news()])


def _drop(world: World, block: Block) -> str:
    return "\n".join(describe_message(each) for each in _chosen_mail(world, block)) or NOTHING


def _chosen_mail(world: World, block: Block) -> list[RaftMessage]:
    return world.take_mail(
        block.number(0),
        block.option_number("from", 0),
        block.option("kind"),
        block.option_number("count", 0),
    )


def _settle(world: World, block: Block) -> str:
    world.settle(block.numbers() or world.running())
    return world.news()


def _cut(world: World, block: Block) -> str:
    one, other = block.number(0), block.number(1)
    world.cut.add((one, other))
    if block.option("oneway", "off") != "on":
        world.cut.add((other, one))
    return ""


def _heal(world: World, block: Block) -> str:
    world.cut.clear()
    return ""


def _crash(world: World, block: Block) -> str:
    world.crashed.add(block.number(0))
    world.mail = [each for each in world.mail if each.to != block.number(0)]
    return ""


def _restart(world: World, block: Block) -> str:
    member = world.members[block.number(0)]
    world.crashed.discard(member.id)
    lost = block.option_number("lose", 0)
    member.disk.entries = member.disk.entries[: len(member.disk.entries) - lost]
    member.suspect = _suspect(block)
    member.restart()
    return world.news()


def _show(world: World, block: Block) -> str:
    return world.standings()


def _log(world: World, block: Block) -> str:
    entries = world.member(block.number(0)).disk.entries
    return "\n".join(describe_entry(entry) for entry in entries) or NOTHING


def _progress(world: World, block: Block) -> str:
    return describe_progress(world.member(block.number(0)))


def _config(world: World, block: Block) -> str:
    return describe_config(world.member(block.number(0)).node.config)


def _mail(world: World, block: Block) -> str:
    return "\n".join(describe_message(each) for each in world.mail) or NOTHING


def _reads(world: World, block: Block) -> str:
    member = world.member(block.number(0))
    lines = [f"request {each.request}: " + _read_words(each.index) for each in member.reads]
    member.reads.clear()
    return "\n".join(lines) or NOTHING


def _read_words(index: int) -> str:
    return f"read at {index}" if index else "ask again"


def _state(world: World, block: Block) -> str:
    member = world.member(block.number(0))
    return f"{member.state.decode()} at {member.state_index}"


MACHINE = Machine(
    World,
    {
        "campaign": _campaign,
        "change": _change,
        "cluster": _cluster,
        "config": _config,
        "crash": _crash,
        "cut": _cut,
        "deliver": _deliver,
        "drop": _drop,
        "heal": _heal,
        "log": _log,
        "lost": _lost,
        "mail": _mail,
        "member": _member,
        "progress": _progress,
        "propose": _propose,
        "read": _read,
        "reads": _reads,
        "ready": _ready,
        "restart": _restart,
        "restarted": _restarted,
        "settle": _settle,
        "show": _show,
        "snapshot": _snapshot,
        "state": _state,
        "tick": _tick,
        "transfer": _transfer,
        "unreachable": _unreachable,
    },
)
