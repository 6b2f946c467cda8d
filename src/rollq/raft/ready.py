"""`Ready`: the actions that the shell must perform now, and their order.

The actions, in order:

1. send `send_now`: safe before anything is on disk (a leader's appends and heartbeats);
2. persist `hard_state`, `entries` and `snapshot_chunks`, with one fsync if `must_sync`.
   `entries` replace whatever the log holds from `entries[0].index` on;
3. send `send_after_persist`: votes, vote requests and acks, which are promises about the disk;
4. if a snapshot is complete, load it into the state machine; then apply `committed` in order.
   Those that were on disk before this Ready (`ready_to_apply`) may be applied while it is written;
5. answer `reads` whose index is applied;
6. call `advance(ready)`. Only then may `ready()` be called again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rollq.base.ids import MemberId
from rollq.raft.types import Entry, HardState, RaftMessage, Role, SnapshotMeta


@dataclass(slots=True)
class SnapshotChunk:
    """A chunk of a snapshot, verified to be the next one, to write at `offset` of the incoming
    file."""

    meta: SnapshotMeta
    offset: int
    data: bytes
    # The file is complete with this chunk: check digest, fsync, rename, load. It replaces the log:
    # no entry that was on disk before may follow it. What this member knows to be committed in that
    # log was applied in earlier Readys. If the digest is wrong, call `snapshot_failed` before
    # `advance`: the log stays.
    done: bool


@dataclass(slots=True)
class ReadReady:
    """The read `request` may be answered once `index` is applied. index 0: it must be retried
    (leader changed)."""

    request: int
    index: int


@dataclass(slots=True)
class Ready:
    """See the module docstring for the order of actions."""

    number: int
    # Our role and the leader, if either changed since the last Ready. Never persisted.
    role: Role | None = None
    leader_id: MemberId | None = None
    # Persist, before send_after_persist. None: unchanged.
    hard_state: HardState | None = None
    # Persist, before send_after_persist; replaces the tail from entries[0].index.
    entries: list[Entry] = field(default_factory=list)
    # Write, before send_after_persist.
    snapshot_chunks: list[SnapshotChunk] = field(default_factory=list)
    # Send at once.
    send_now: list[RaftMessage] = field(default_factory=list)
    # Send only when everything above is on disk.
    send_after_persist: list[RaftMessage] = field(default_factory=list)
    # Apply, in order, after persisting; `ready_to_apply` may be sooner.
    committed: list[Entry] = field(default_factory=list)
    # Answer when their index is applied.
    reads: list[ReadReady] = field(default_factory=list)
    # Whether the persist step needs an fsync (commit alone moving does not).
    must_sync: bool = False
    # A change of configuration is among `committed`: it is applied after persisting, like all.
    changes_config: bool = False

    @property
    def installs(self) -> bool:
        """Whether a snapshot is complete with these chunks, and replaces the log."""
        return bool(self.snapshot_chunks) and self.snapshot_chunks[-1].done

    @property
    def ready_to_apply(self) -> list[Entry]:
        """The first of `committed` that do not depend on what is to be persisted now."""
        if self.snapshot_chunks or self.changes_config:
            return []
        if not self.entries or not self.committed:
            return self.committed
        return self.committed[: max(0, self.entries[0].index - self.committed[0].index)]
