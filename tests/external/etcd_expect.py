"""What the text of an etcd-raft script says about its nodes, as values.

The text is a log of what etcd's nodes did; its wording and the batching of messages are theirs.
The meaning is kept: what each node persisted, announced and applied. A `View` gathers it line by
line; what a script has not shown, or did while it was silent, is unknown (None) and never
compared. Knows nothing of our nodes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rollq.raft.types import ChangeKind, ConfigChange, Member, MemberChange, Role

ROLES = {
    "follower": Role.FOLLOWER,
    "pre-candidate": Role.PRE_CANDIDATE,
    "candidate": Role.CANDIDATE,
    "leader": Role.LEADER,
    "StateFollower": Role.FOLLOWER,
    "StatePreCandidate": Role.PRE_CANDIDATE,
    "StateCandidate": Role.CANDIDATE,
    "StateLeader": Role.LEADER,
}
CHANGE_LETTERS = {
    "v": ChangeKind.ADD_VOTER,
    "l": ChangeKind.ADD_LEARNER,
    "r": ChangeKind.REMOVE,
    "u": ChangeKind.UPDATE,
}
ENTRY = re.compile(r"(?P<term>\d+)/(?P<index>\d+) Entry(?P<kind>\w+)(?: (?P<data>.*))?$")
HEADER = re.compile(r"> (?P<node>\d+) (?P<act>handling Ready|receiving messages)$")
SECTIONS = ("Entries:", "CommittedEntries:", "Messages:")


@dataclass(slots=True, frozen=True)
class LogLine:
    """One entry as a script prints it; `data` of a configuration change is its short form."""

    term: int
    index: int
    change: bool
    data: bytes


@dataclass(slots=True, frozen=True)
class Voters:
    """A configuration as a script prints it."""

    voters: tuple[int, ...]
    learners: tuple[int, ...]


@dataclass(slots=True)
class Shown:
    """What happened to one node during one block, in order."""

    persisted: list[tuple[int, int, int]] = field(default_factory=list)  # term, vote, commit
    announced: list[tuple[Role, int]] = field(default_factory=list)  # role, leader
    appended: list[LogLine] = field(default_factory=list)
    applied: list[LogLine] = field(default_factory=list)
    became: list[tuple[Role, int]] = field(default_factory=list)  # role, term
    cast: list[tuple[int, int]] = field(default_factory=list)  # candidate, term


@dataclass(slots=True)
class View:
    """What a script has shown of one node so far. None: not known."""

    role: Role | None = None
    leader_id: int | None = None
    term: int | None = None
    vote: int | None = None
    commit: int | None = None
    applied: int | None = None
    last_index: int | None = None
    snapshot: tuple[int, int] | None = None  # term and index of the one it received last
    voters: Voters | None = None
    log: dict[int, LogLine] = field(default_factory=dict)
    shown: Shown = field(default_factory=Shown)


class Views:
    """The views of all nodes of a script, fed block by block."""

    def __init__(self) -> None:
        self.by_node: dict[int, View] = {}

    def of(self, node: int) -> View:
        """The view of a node; an unknown one at first."""
        return self.by_node.setdefault(node, View())

    def forget(self) -> None:
        """The script was silent: anything may have happened."""
        self.by_node.clear()

    def forget_configurations(self) -> None:
        """The script shows no INFO lines, which alone tell of configurations."""
        for view in self.by_node.values():
            view.voters = None

    def read(self, lines: tuple[str, ...], node: int) -> None:
        """Take in a block's text; `node` is who acts until a header names another."""
        for view in self.by_node.values():
            view.shown = Shown()
        section = ""
        fresh = False  # the next entry line is the first of its list
        for raw in lines:
            line = raw.strip()
            header = HEADER.match(line)
            if header:
                node, section = int(header["node"]), ""
            elif line in SECTIONS:
                section, fresh = line, True
            elif section in ("Entries:", "CommittedEntries:") and ENTRY.match(line):
                _take_entry(self.of(node), parse_entry(line), section, fresh)
                fresh = False
            elif not (section == "Messages:" and _is_message(line)):
                self._take_fact(line, node)

    def _take_fact(self, line: str, node: int) -> None:
        for pattern, take in FACTS:
            match = pattern.match(line)
            if match:
                named = match.groupdict().get("node")
                take(self.of(int(named) if named else node), match)
                return


def parse_entry(line: str) -> LogLine:
    """An entry from `term/index EntryKind data`."""
    match = ENTRY.match(line.strip())
    if match is None:
        raise ValueError(f"not an entry: {line!r}")
    text = match["data"] or ""
    change = match["kind"] != "Normal"
    data = text.encode() if change else ast.literal_eval(text or '""').encode()
    return LogLine(int(match["term"]), int(match["index"]), change, data)


def _is_message(line: str) -> bool:
    return bool(re.match(r"\d+->\d+ |Snapshot: |\]$", line) or ENTRY.match(line))


def _take_entry(view: View, entry: LogLine, section: str, fresh: bool) -> None:
    if section == "CommittedEntries:":
        view.applied = entry.index
        view.shown.applied.append(entry)
    else:
        view.shown.appended.append(entry)
        if fresh:
            view.log = {at: kept for at, kept in view.log.items() if at < entry.index}
        view.last_index = entry.index
    view.log[entry.index] = entry


def _take_became(view: View, match: re.Match[str]) -> None:
    view.role, view.term = ROLES[match["role"]], int(match["term"])
    view.shown.became.append((view.role, view.term))


def _take_announced(view: View, match: re.Match[str]) -> None:
    view.role, view.leader_id = ROLES[match["role"]], int(match["lead"])
    view.shown.announced.append((view.role, view.leader_id))


def _take_persisted(view: View, match: re.Match[str]) -> None:
    view.term, view.vote = int(match["term"]), int(match["vote"] or 0)
    view.commit = int(match["commit"])
    view.shown.persisted.append((view.term, view.vote, view.commit))


def _take_configuration(view: View, match: re.Match[str]) -> None:
    view.voters = Voters(ids(match["voters"]), ids(match["learners"] or ""))


def _take_snapshot(view: View, match: re.Match[str]) -> None:
    view.log = {}
    view.last_index = view.applied = int(match["index"])
    view.snapshot = (int(match["term"]), int(match["index"]))
    view.voters = Voters(ids(match["voters"]), ids(match["learners"]))


def _take_birth(view: View, match: re.Match[str]) -> None:
    view.term, view.commit = int(match["term"]), int(match["commit"])
    view.applied, view.last_index = int(match["applied"]), int(match["last"])


def _take_cast(view: View, match: re.Match[str]) -> None:
    view.shown.cast.append((int(match["candidate"]), int(match["term"])))


def parse_change(text: str) -> ConfigChange:
    """A configuration change from its short form: `v1 l2 r3 u4`."""
    changes = []
    for token in text.split():
        if token[0] not in CHANGE_LETTERS or not token[1:].isdigit():
            raise ValueError(f"not a change: {token!r}")
        changes.append(MemberChange(CHANGE_LETTERS[token[0]], Member(int(token[1:]))))
    return ConfigChange(tuple(changes))


def ids(text: str) -> tuple[int, ...]:
    """Sorted ids of a list such as `1 2 3`."""
    return tuple(sorted(int(each) for each in text.split()))


FACTS: tuple[tuple[re.Pattern[str], Callable[[View, re.Match[str]], None]], ...] = (
    (
        re.compile(r"INFO (?P<node>\d+) became (?P<role>[a-z-]+) at term (?P<term>\d+)$"),
        _take_became,
    ),
    (re.compile(r"Lead:(?P<lead>\d+) State:(?P<role>\w+)$"), _take_announced),
    (
        re.compile(r"HardState Term:(?P<term>\d+)(?: Vote:(?P<vote>\d+))? Commit:(?P<commit>\d+)$"),
        _take_persisted,
    ),
    (
        re.compile(
            r"INFO (?P<node>\d+) switched to configuration "
            r"voters=\((?P<voters>[^)]*)\)(?: learners=\((?P<learners>[^)]*)\))?$"
        ),
        _take_configuration,
    ),
    (
        re.compile(
            r"Snapshot Index:(?P<index>\d+) Term:(?P<term>\d+) "
            r"ConfState:Voters:\[(?P<voters>[^]]*)\] "
            r"VotersOutgoing:\[\] Learners:\[(?P<learners>[^]]*)\]"
        ),
        _take_snapshot,
    ),
    (
        re.compile(
            r"INFO newRaft (?P<node>\d+) \[peers: \[[^]]*\], term: (?P<term>\d+), "
            r"commit: (?P<commit>\d+), applied: (?P<applied>\d+), lastindex: (?P<last>\d+)"
        ),
        _take_birth,
    ),
    (
        re.compile(
            r"INFO (?P<node>\d+) \[.*\] cast MsgVote for (?P<candidate>\d+) .*at term (?P<term>\d+)"
        ),
        _take_cast,
    ),
)
