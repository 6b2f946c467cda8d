"""The world that raft scenarios play in: members, the mail between them, and cut links."""

from __future__ import annotations

from rollq.base.ids import MemberId
from rollq.raft.types import RaftMessage
from tests.scenarios.raft.member import FakeMember
from tests.scenarios.raft.words import KINDS, describe_member

ROUNDS_MAX = 1_000  # a settle that needs more will never end
UNCHANGED = "(no change)"


class World:
    """All members of one scenario. Mail waits until it is delivered, dropped or cut."""

    def __init__(self) -> None:
        self.members: dict[MemberId, FakeMember] = {}
        self.crashed: set[MemberId] = set()
        self.cut: set[tuple[MemberId, MemberId]] = set()
        self.mail: list[RaftMessage] = []
        self._told: dict[MemberId, str] = {}

    def member(self, member_id: MemberId) -> FakeMember:
        """The member, which must be running."""
        if member_id in self.crashed or member_id not in self.members:
            raise KeyError(f"member {member_id} does not run")
        return self.members[member_id]

    def running(self) -> list[MemberId]:
        """Ids of the members that run."""
        return [each for each in sorted(self.members) if each not in self.crashed]

    def add(self, member: FakeMember) -> None:
        """A member joins the world; consensus does not know of it by that."""
        self.members[member.id] = member

    def handle_ready(self, member_id: MemberId) -> None:
        """One Ready; what it sends over a cut link or to the dead is lost."""
        for message in self.member(member_id).handle_ready():
            link = (message.sender, message.to)
            lives = message.to in self.members and message.to not in self.crashed
            if link not in self.cut and lives:
                self.mail.append(message)

    def take_mail(
        self, to: MemberId, sender: MemberId = 0, kind: str = "", count: int = 0
    ) -> list[RaftMessage]:
        """Remove and return mail for a member: all, or by sender, kind and number."""
        taken: list[RaftMessage] = []
        left: list[RaftMessage] = []
        for message in self.mail:
            fits = message.to == to and (not sender or message.sender == sender)
            fits = fits and (not kind or KINDS[type(message)] == kind)
            fits = fits and (not count or len(taken) < count)
            (taken if fits else left).append(message)
        self.mail = left
        return taken

    def deliver(self, messages: list[RaftMessage]) -> None:
        """Hand messages to their receivers."""
        for message in messages:
            self.member(message.to).node.step(message)

    def settle(self, ids: list[MemberId]) -> None:
        """Every member's Ready, then every member's mail, until nothing is left to do."""
        for _ in range(ROUNDS_MAX):
            busy = [each for each in ids if self.member(each).node.has_ready()]
            for each in busy:
                self.handle_ready(each)
            mailed = [each for each in ids if any(m.to == each for m in self.mail)]
            for each in mailed:
                self.deliver(self.take_mail(each))
            if not busy and not mailed:
                return
        raise AssertionError(f"no rest after {ROUNDS_MAX} rounds")

    def news(self) -> str:
        """The members whose standing changed since it was last told."""
        lines = []
        for each in self.running():
            line = describe_member(self.members[each])
            if self._told.get(each) != line:
                self._told[each] = line
                lines.append(line)
        return "\n".join(lines) or UNCHANGED

    def standings(self) -> str:
        """All members, also those that do not run."""
        lines = []
        for each, member in sorted(self.members.items()):
            runs = each not in self.crashed
            lines.append(describe_member(member) if runs else f"{each}: down")
        return "\n".join(lines)
