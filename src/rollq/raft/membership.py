"""Configuration changes: the result of a change, and which changes are refused.

Pure functions over `Config`. When a change takes effect, and which member may propose one, is
decided elsewhere. Changes go one voter at a time, so that any majority before a change overlaps any
majority after it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import MemberId
from rollq.raft.types import (
    NO_MEMBER,
    ChangeKind,
    Config,
    ConfigChange,
    Member,
    MemberChange,
)


def apply_change(config: Config, change: ConfigChange) -> Config:
    """The configuration after `change`.

    Raises:
        StateError: BAD_CONFIG_CHANGE, if no voter would be left or more than one voter changes.
    """
    voters = {member.id: member for member in config.voters}
    learners = {member.id: member for member in config.learners}
    for step in change.changes:
        if step.member.id != NO_MEMBER:
            _apply_step(voters, learners, step)
    if not voters:
        raise StateError(ErrorCode.BAD_CONFIG_CHANGE, "the change would leave no voter")
    if len(voters.keys() ^ {member.id for member in config.voters}) > 1:
        raise StateError(
            ErrorCode.BAD_CONFIG_CHANGE,
            "the change touches more than one voter",
            "add or remove voters one by one; learners may change together",
        )
    return Config(voters=_by_id(voters.values()), learners=_by_id(learners.values()))


def bootstrap_change(config: Config) -> ConfigChange:
    """The change from nothing to `config`: the first entry of a new group's log."""
    voters = (MemberChange(ChangeKind.ADD_VOTER, member) for member in config.voters)
    learners = (MemberChange(ChangeKind.ADD_LEARNER, member) for member in config.learners)
    return ConfigChange(changes=(*voters, *learners))


def apply_bootstrap(change: ConfigChange) -> Config:
    """The configuration of a bootstrap change, for a member that starts without one."""
    config = Config()
    for step in change.changes:
        config = apply_change(config, ConfigChange(changes=(step,)))
    return config


def voter_ids(config: Config) -> tuple[MemberId, ...]:
    """The ids of the voters, ascending."""
    return tuple(member.id for member in config.voters)


def address_of(config: Config, member_id: MemberId) -> str:
    """The address of a member; empty if it is not in the configuration."""
    for member in (*config.voters, *config.learners):
        if member.id == member_id:
            return member.address
    return ""


def _apply_step(
    voters: dict[MemberId, Member], learners: dict[MemberId, Member], step: MemberChange
) -> None:
    member = step.member
    known = voters.get(member.id) or learners.get(member.id)
    if known is not None and not member.address:
        # Promotion and demotion need not repeat the address.
        member = known
    if step.kind == ChangeKind.ADD_VOTER:
        learners.pop(member.id, None)
        voters[member.id] = member
    elif step.kind == ChangeKind.ADD_LEARNER:
        voters.pop(member.id, None)
        learners[member.id] = member
    elif step.kind == ChangeKind.REMOVE:
        voters.pop(member.id, None)
        learners.pop(member.id, None)
    elif step.kind == ChangeKind.UPDATE:
        if member.id in voters:
            voters[member.id] = member
        elif member.id in learners:
            learners[member.id] = member
    else:
        raise StateError(ErrorCode.BAD_CONFIG_CHANGE, f"unknown kind of change: {step.kind}")


def _by_id(members: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=lambda member: member.id))
