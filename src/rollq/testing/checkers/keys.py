"""Checker of cluster keys: one key per cluster, known only to its members, and never forgotten."""

from __future__ import annotations

from typing import Any

from rollq.base.ids import MemberId
from rollq.raft.types import Config
from rollq.roles.member.driver import Driver
from rollq.roles.member.outputs import ToPeer
from rollq.roles.member.rollcall import JoinPhase
from rollq.roles.member.work import Work
from rollq.security.cluster_key import key_id_of
from rollq.store.identity import ClusterKey
from rollq.testing.checkers.base import Checker
from rollq.testing.sim_member import SimMember
from rollq.wire.messages import LeaderHello, RollAnswer


class OneKey(Checker):
    """Members that are sure of a key are sure of the same one; a key that a member claims to hold
    is on its disk, and still there after a restart; and only members are sent the key."""

    name = "one cluster key"

    def __init__(self) -> None:
        self._sure: dict[bytes, bytes] = {}  # by cluster
        # By member, in its current life: ids of keys that were on its disk, and if it was sure.
        self._written: dict[str, set[tuple[bytes, bool]]] = {}
        self._on_disk: dict[str, ClusterKey] = {}  # the latest of these
        self._told: dict[MemberId, bytes] = {}  # ids of sure keys that members have claimed to hold
        # Configurations since a member's last turn: a message sent at the end of a turn may be
        # based on any of them.
        self._configs: dict[str, list[Config]] = {}

    def on_write(self, member: SimMember, driver: Driver, work: Work) -> None:
        self._configs[member.name].append(driver.raft.config)

    def on_turn(self, member: SimMember, driver: Driver) -> None:
        self._configs[member.name] = [driver.raft.config]
        keys = driver.roll.keys
        on_disk = driver._store.wal.key
        if self._on_disk.get(member.name) is not on_disk:
            self._on_disk[member.name] = on_disk
            self._written[member.name].add((key_id_of(on_disk.value), on_disk.is_sure))
        if driver.roll.phase is JoinPhase.PRESENT and keys.key.is_sure:
            sure = self._sure.setdefault(driver.roll.cluster_id, keys.key.value)
            if sure != keys.key.value:
                self.fail(f"{member.name} is sure of another key than a member before it")

    def on_send(self, member: SimMember, driver: Driver, output: Any) -> None:
        if not isinstance(output, ToPeer):
            return
        message = output.message
        if isinstance(message, LeaderHello | RollAnswer) and message.key_id:
            on_disk = driver._store.wal.key
            said = message.key_id, message.key_sure
            now = key_id_of(on_disk.value), on_disk.is_sure
            # The message may be older than a key of a later term.
            if said not in (now, (now[0], False), *self._written[member.name]):
                self.fail(f"{member.name} says that it holds a key that is not on its disk")
            if message.key_sure:
                self._told[message.member_id] = message.key_id
        if isinstance(message, RollAnswer):
            configs = [driver.raft.config, *self._configs[member.name]]
            members = [one for config in configs for one in config.voters + config.learners]
            if message.key and output.address not in [one.address for one in members]:
                self.fail(f"{member.name} tells the key to {output.address}, which is no member")
            if message.share and output.address not in member.setup.peers:
                self.fail(f"{member.name} tells its share to {output.address}")

    def on_start(self, member: SimMember, driver: Driver) -> None:
        self._written[member.name] = set()
        self._on_disk.pop(member.name, None)
        self._configs[member.name] = [driver.raft.config]
        told = self._told.get(driver.raft.member_id)
        if told is None or member.damaged:
            return
        if key_id_of(driver.roll.keys.key.value) != told:
            self.fail(f"{member.name} forgot the key that it was sure of")

    def on_finish(self, members: list[SimMember]) -> None:
        for member in members:
            if member.driver is not None and not member.driver.roll.keys.is_guarded:
                self.fail(f"{member.name} has no key that is sure")
