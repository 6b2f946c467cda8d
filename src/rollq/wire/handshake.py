"""Who may send what, and when: the handshake as a table of states.

Laws:
- The first frame decides the role: HelloClient, HelloWorker, LeaderHello, HelloBlobs or
  HelloReader, from the dialer.
- The table does not know which side we are: what one side may send is what the other may receive.
- A peer that offers features waits for Welcome before it sends more, because from Welcome on both
  sides speak as agreed. A peer that offers none goes on at once, and is never sent a Welcome.
- A type of ours is legal only under a feature that covers it. Legacy types always are, and
  so are those of members, of blobs and of readers, which have links of their own.
- A link for blobs or of a reader waits for its Welcome whatever it offers, and speaks the compact
  dialect.

All of it follows from the rows of `registry`.
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias

from rollq.base.errors import ErrorCode, RemoteError
from rollq.wire.registry import (
    COVERED_BY,
    ROW_NUMBERED,
    ROWS,
    Direction,
    Phase,
)


class Side(enum.Enum):
    """The two ends of a connection."""

    DIALER = "dialer"  # client, worker, or the member that called
    ACCEPTER = "accepter"  # the member that was called

    # Looked up once a message; an enum's own hash is a call into Python.
    __hash__ = object.__hash__

    @property
    def other(self) -> Side:
        """The opposite end."""
        return Side.ACCEPTER if self is Side.DIALER else Side.DIALER


class State(enum.Enum):
    """How far a connection has come. Open are CLIENT, WORKER, MEMBER, BLOBS and READER."""

    NEW = "new"
    CLIENT_WAITS = "client waits"  # features are offered, Welcome is due
    WORKER_WAITS = "worker waits"
    BLOBS_WAITS = "blobs wait"
    READER_WAITS = "reader waits"
    CLIENT = "client"
    WORKER = "worker"
    MEMBER = "member"
    BLOBS = "blobs"
    READER = "reader"
    CLOSED = "closed"

    __hash__ = object.__hash__


Transitions: TypeAlias = dict[int, State]  # from a message type to the state after it

# Where a hello leads if it offered features.
WAITS: Final = {
    State.CLIENT: State.CLIENT_WAITS,
    State.WORKER: State.WORKER_WAITS,
    State.BLOBS: State.BLOBS_WAITS,
    State.READER: State.READER_WAITS,
}

# Where a direction is spoken: in which state, once the connection is open, and by which side.
PLACES: Final[dict[Direction, tuple[State, tuple[Side, ...]]]] = {
    Direction.CLIENT_TO_MEMBER: (State.CLIENT, (Side.DIALER,)),
    Direction.MEMBER_TO_CLIENT: (State.CLIENT, (Side.ACCEPTER,)),
    Direction.WORKER_TO_MEMBER: (State.WORKER, (Side.DIALER,)),
    Direction.MEMBER_TO_WORKER: (State.WORKER, (Side.ACCEPTER,)),
    Direction.MEMBER_TO_MEMBER: (State.MEMBER, (Side.DIALER, Side.ACCEPTER)),
    Direction.MEMBER_TO_CALLER: (State.MEMBER, (Side.ACCEPTER,)),
    Direction.BLOB_CLIENT_TO_SERVER: (State.BLOBS, (Side.DIALER,)),
    Direction.BLOB_SERVER_TO_CLIENT: (State.BLOBS, (Side.ACCEPTER,)),
    Direction.READER_TO_MEMBER: (State.READER, (Side.DIALER,)),
    Direction.MEMBER_TO_READER: (State.READER, (Side.ACCEPTER,)),
}


def _table() -> dict[State, dict[Side, Transitions]]:
    """What each side may say in each state, and where that leads."""
    table: dict[State, dict[Side, Transitions]] = {
        state: {side: {} for side in Side} for state in State
    }
    for row in ROWS:
        for direction in row.directions:
            state, speakers = PLACES[direction]
            for speaker in speakers:
                if Phase.HELLO in row.phase and speaker is Side.DIALER:
                    table[State.NEW][speaker][row.number] = state
                if Phase.REPLY in row.phase and state in WAITS:
                    opens = row.phase is Phase.REPLY  # else it may refuse later too, and does now
                    table[WAITS[state]][speaker][row.number] = state if opens else State.CLOSED
                if Phase.OPEN in row.phase:
                    ends = direction in row.closes
                    table[state][speaker][row.number] = State.CLOSED if ends else state
    return table


TABLE: Final = _table()


def is_covered(kind: int, features: frozenset[str]) -> bool:
    """Whether a peer with these features understands a type at all."""
    covering = COVERED_BY.get(kind)
    return covering is None or not covering.isdisjoint(features)


def stateless_types(state: State, speaker: Side, features: frozenset[str]) -> frozenset[type]:
    """The messages that `speaker` may send in this state, that a peer with these features
    understands, and that leave the state as it is."""
    legal = TABLE[state][speaker]
    return frozenset(
        row.struct
        for row in ROWS
        if legal.get(row.number) is state and is_covered(row.number, features)
    )


def must_step(state: State, speaker: Side, kind: int) -> State:
    """The state after `speaker` said something of this type.

    Raises:
        RemoteError: UNKNOWN_MESSAGE, or BAD_HANDSHAKE if it may not be said in this state.
    """
    after = TABLE[state][speaker].get(kind)
    if after is None:
        raise _out_of_place(state, speaker, kind)
    return after


def _out_of_place(state: State, speaker: Side, kind: int) -> RemoteError:
    row = ROW_NUMBERED.get(kind)
    if row is None:
        return RemoteError(ErrorCode.UNKNOWN_MESSAGE, f"no message has the type {kind}")
    legal = ", ".join(ROW_NUMBERED[number].name for number in TABLE[state][speaker]) or "nothing"
    return RemoteError(
        ErrorCode.BAD_HANDSHAKE,
        f"the {speaker.value} may not send {row.name} while the connection is: {state.value}",
        f"it may send {legal}",
    )
