"""The handshake as a state table: which side may send what, and when.

Rules:
- The first frame decides the role: HelloClient, HelloWorker, LeaderHello, HelloBlobs or
  HelloReader, from the dialer.
- Before it the dialer may log in, once: by a token, after which its hello follows at once, or by
  Login, LoginChallenge and LoginProof. An Error that answers a login ends the connection.
- The table does not know which side we are: what one side may send is what the other may receive.
- A peer that offers features waits for Welcome before it sends more, because from Welcome on both
  sides speak as agreed; only what completes its hello (Holdings) it sends before. A peer that
  offers none goes on at once, and is never sent a Welcome.
- A type of ours is legal only under a feature that covers it. Legacy types always are, and
  so are those of members, of blobs and of readers, which have links of their own.
- A link for blobs or of a reader waits for its Welcome whatever it offers, and speaks the compact
  dialect.

All of it follows from the rows of `registry`, but for the order of the messages of a login.
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias

from msgspec import Struct

from rollq.base.errors import ErrorCode, RemoteError
from rollq.wire.login_messages import Login, LoginChallenge, LoginProof
from rollq.wire.messages import Error
from rollq.wire.registry import (
    COVERED_BY,
    NUMBER_OF,
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


class Stage(enum.Enum):
    """The stage of a connection. Open are CLIENT, WORKER, MEMBER, BLOBS and READER."""

    NEW = "new"
    LOGIN_WAITS = "login waits"  # LoginChallenge is next
    LOGIN_CHALLENGED = "login challenged"  # LoginProof is due
    LOGGED_IN = "logged in"  # the hello is next; the accepter decides about the login
    CLIENT_WAITS = "client waits"  # features are offered, Welcome is next
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


Transitions: TypeAlias = dict[int, Stage]  # from a message type to the state after it

# The state after a hello that offered features.
WAITS: Final = {
    Stage.CLIENT: Stage.CLIENT_WAITS,
    Stage.WORKER: Stage.WORKER_WAITS,
    Stage.BLOBS: Stage.BLOBS_WAITS,
    Stage.READER: Stage.READER_WAITS,
}

# States before the hello, in which the peer is unauthenticated.
BEFORE_HELLO: Final = frozenset(
    {Stage.NEW, Stage.LOGIN_WAITS, Stage.LOGIN_CHALLENGED, Stage.LOGGED_IN}
)

# The order of a login; one by token goes to LOGGED_IN at once.
LOGIN_STEPS: Final[tuple[tuple[Stage, Side, type[Struct], Stage], ...]] = (
    (Stage.NEW, Side.DIALER, Login, Stage.LOGIN_WAITS),
    (Stage.LOGIN_WAITS, Side.ACCEPTER, LoginChallenge, Stage.LOGIN_CHALLENGED),
    (Stage.LOGIN_CHALLENGED, Side.DIALER, LoginProof, Stage.LOGGED_IN),
    *(
        (stage, Side.ACCEPTER, Error, Stage.CLOSED)
        for stage in (Stage.LOGIN_WAITS, Stage.LOGIN_CHALLENGED, Stage.LOGGED_IN)
    ),
)

# Where messages of a direction are legal: state of an open connection, and sender.
PLACES: Final[dict[Direction, tuple[Stage, tuple[Side, ...]]]] = {
    Direction.CLIENT_TO_MEMBER: (Stage.CLIENT, (Side.DIALER,)),
    Direction.MEMBER_TO_CLIENT: (Stage.CLIENT, (Side.ACCEPTER,)),
    Direction.WORKER_TO_MEMBER: (Stage.WORKER, (Side.DIALER,)),
    Direction.MEMBER_TO_WORKER: (Stage.WORKER, (Side.ACCEPTER,)),
    Direction.MEMBER_TO_MEMBER: (Stage.MEMBER, (Side.DIALER, Side.ACCEPTER)),
    Direction.MEMBER_TO_CALLER: (Stage.MEMBER, (Side.ACCEPTER,)),
    Direction.BLOB_CLIENT_TO_SERVER: (Stage.BLOBS, (Side.DIALER,)),
    Direction.BLOB_SERVER_TO_CLIENT: (Stage.BLOBS, (Side.ACCEPTER,)),
    Direction.READER_TO_MEMBER: (Stage.READER, (Side.DIALER,)),
    Direction.MEMBER_TO_READER: (Stage.READER, (Side.ACCEPTER,)),
}


def _table() -> dict[Stage, dict[Side, Transitions]]:
    """Legal messages by state and side, with the next state."""
    table: dict[Stage, dict[Side, Transitions]] = {
        state: {side: {} for side in Side} for state in Stage
    }
    for before, speaker, struct, after in LOGIN_STEPS:
        table[before][speaker][NUMBER_OF[struct]] = after
    for row in ROWS:
        for direction in row.directions:
            if direction not in PLACES:
                continue  # of a login, above
            state, speakers = PLACES[direction]
            for speaker in speakers:
                if Phase.HELLO in row.phase and speaker is Side.DIALER:
                    table[Stage.NEW][speaker][row.number] = state
                    table[Stage.LOGGED_IN][speaker][row.number] = state
                if Phase.MORE in row.phase:
                    table[WAITS[state]][speaker][row.number] = WAITS[state]
                if Phase.REPLY in row.phase and state in WAITS:
                    opens = row.phase is Phase.REPLY  # otherwise it may also refuse later
                    table[WAITS[state]][speaker][row.number] = state if opens else Stage.CLOSED
                if Phase.OPEN in row.phase:
                    ends = direction in row.closes
                    table[state][speaker][row.number] = Stage.CLOSED if ends else state
    return table


TABLE: Final = _table()


def is_covered(kind: int, features: frozenset[str]) -> bool:
    """Whether a peer with these features understands a type."""
    covering = COVERED_BY.get(kind)
    return covering is None or not covering.isdisjoint(features)


def stateless_types(state: Stage, speaker: Side, features: frozenset[str]) -> frozenset[type]:
    """The messages that `speaker` may send in this state, that a peer with these features
    understands, and that do not change the state."""
    legal = TABLE[state][speaker]
    return frozenset(
        row.struct
        for row in ROWS
        if legal.get(row.number) is state and is_covered(row.number, features)
    )


def must_step(state: Stage, speaker: Side, kind: int) -> Stage:
    """The state after `speaker` sent a message of this type.

    Raises:
        RemoteError: UNKNOWN_MESSAGE, or BAD_HANDSHAKE if it is illegal in this state.
    """
    after = TABLE[state][speaker].get(kind)
    if after is None:
        raise _out_of_place(state, speaker, kind)
    return after


def _out_of_place(state: Stage, speaker: Side, kind: int) -> RemoteError:
    row = ROW_NUMBERED.get(kind)
    if row is None:
        return RemoteError(ErrorCode.UNKNOWN_MESSAGE, f"no message has the type {kind}")
    legal = ", ".join(ROW_NUMBERED[number].name for number in TABLE[state][speaker]) or "nothing"
    return RemoteError(
        ErrorCode.BAD_HANDSHAKE,
        f"the {speaker.value} may not send {row.name} while the connection is: {state.value}",
        f"it may send {legal}",
    )
