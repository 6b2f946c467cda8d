"""Who may say what, and when: the handshake as a table.

Laws:
- The first frame decides the role: HelloClient, HelloWorker, LeaderHello, HelloBlobs or
  HelloReader, from the dialer.
- The table does not know which side we are: what one side may send is what the other may receive.
- A peer that offers features waits for Welcome before it says more, because from Welcome on both
  sides speak as agreed. A peer that offers none goes on at once, and is never sent a Welcome.
- A type of ours is legal only under a feature that covers it. Legacy types always are, and
  so are those of members, of blobs and of readers, which have links of their own.
- A link for blobs or of a reader waits for its Welcome whatever it offers, and speaks the compact
  dialect.

A new message type needs a place in `TABLE`, and in `COVERED_BY` if it is not a legacy one.
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias

from rollq.base.errors import ErrorCode, RemoteError
from rollq.wire.compact import AREA_OF, TYPE_OF
from rollq.wire.compression import METHODS
from rollq.wire.kinds import MessageType as T

COMPACT: Final = "compact"  # the legacy types too have msgpack payloads
ACCEPTED: Final = "accepted"  # Accepted and Error are sent
LEASE: Final = "lease"  # the worker renews leases and is told of stops and taken acks
PATTERNS: Final = "patterns"  # several patterns in a worker's hello
HEADER: Final = "header"  # payloads begin with the header area
BATCH: Final = "batch"  # many messages may ride in one frame; needs `compact`
CACHE: Final = "cache"  # a CachePut to the worker may name blobs in place of files
OUTPUT: Final = "output"  # the worker shows what jobs write while they run
OWN: Final = "own"  # where sessions share a client id, results come to the one that asked
ALIVE: Final = "alive"  # Ping is answered with Pong, so that silence means something
PROGRAMS: Final = "programs"  # the worker says what it can run, and which nacks are no attempt
TASKS: Final = "tasks"  # tasks of an array may be numbered so that none has the array's own id
# A method of compression is a feature too; it needs `header`, which names it.
FEATURES: Final = (
    COMPACT,
    ACCEPTED,
    LEASE,
    PATTERNS,
    HEADER,
    BATCH,
    CACHE,
    OUTPUT,
    OWN,
    ALIVE,
    PROGRAMS,
    TASKS,
    *METHODS,
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
    """How far a connection has come."""

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


Words: TypeAlias = dict[int, State]

# Where a hello leads if it offered features.
WAITS: Final = {
    State.CLIENT: State.CLIENT_WAITS,
    State.WORKER: State.WORKER_WAITS,
    State.BLOBS: State.BLOBS_WAITS,
    State.READER: State.READER_WAITS,
}

MEMBER_WORDS: Final[Words] = dict.fromkeys(AREA_OF, State.MEMBER)

TABLE: Final[dict[State, dict[Side, Words]]] = {
    State.NEW: {
        Side.DIALER: {
            T.HELLO_CLIENT: State.CLIENT,
            T.HELLO_WORKER: State.WORKER,
            T.LEADER_HELLO: State.MEMBER,
            T.HELLO_BLOBS: State.BLOBS,
            T.HELLO_READER: State.READER,
        },
        Side.ACCEPTER: {},
    },
    State.CLIENT_WAITS: {
        Side.DIALER: {},
        Side.ACCEPTER: {
            T.WELCOME: State.CLIENT,
            T.NOT_LEADER: State.CLOSED,
            T.ERROR: State.CLOSED,
        },
    },
    State.WORKER_WAITS: {
        Side.DIALER: {},
        Side.ACCEPTER: {
            T.WELCOME: State.WORKER,
            T.NOT_LEADER: State.CLOSED,
            T.ERROR: State.CLOSED,
        },
    },
    State.BLOBS_WAITS: {
        Side.DIALER: {},
        Side.ACCEPTER: {
            T.WELCOME: State.BLOBS,
            T.NOT_LEADER: State.CLOSED,
            T.ERROR: State.CLOSED,
        },
    },
    State.READER_WAITS: {
        Side.DIALER: {},
        Side.ACCEPTER: {T.WELCOME: State.READER, T.ERROR: State.CLOSED},
    },
    State.CLIENT: {
        Side.DIALER: {
            T.SUBMIT_JOB: State.CLIENT,
            T.SUBMIT_BULK: State.CLIENT,
            T.SUBMIT_ARRAY: State.CLIENT,
            T.CANCEL: State.CLIENT,
            T.CONFIRM: State.CLIENT,
            T.QUERY: State.CLIENT,
            T.ADMIN: State.CLIENT,
            T.CACHE_PUT: State.CLIENT,
            T.WATCH_OUTPUT: State.CLIENT,
            T.STAGE_JOBS: State.CLIENT,
            T.COMMIT_BATCH: State.CLIENT,
            T.DROP_BATCH: State.CLIENT,
            T.PING: State.CLIENT,
        },
        Side.ACCEPTER: {
            T.ACCEPTED: State.CLIENT,
            T.ERROR: State.CLIENT,
            T.RESULT: State.CLIENT,
            T.ANSWER: State.CLIENT,
            T.CACHE_ACK: State.CLIENT,
            T.OUTPUT_CHUNK: State.CLIENT,
            T.PONG: State.CLIENT,
            T.NOT_LEADER: State.CLOSED,
        },
    },
    State.WORKER: {
        Side.DIALER: {
            T.CREDIT: State.WORKER,
            T.ACK_JOB: State.WORKER,
            T.NACK: State.WORKER,
            T.HEARTBEAT: State.WORKER,
            T.CACHE_ACK: State.WORKER,
            T.OUTPUT_CHUNK: State.WORKER,
            T.PING: State.WORKER,
            T.ANNOUNCE: State.WORKER,
            T.GOODBYE: State.CLOSED,
        },
        Side.ACCEPTER: {
            T.ASSIGN_JOB: State.WORKER,
            T.STOP_JOB: State.WORKER,
            T.ACK_TAKEN: State.WORKER,
            T.ERROR: State.WORKER,
            T.CACHE_PUT: State.WORKER,
            T.TELL_OUTPUT: State.WORKER,
            T.PONG: State.WORKER,
            T.NOT_LEADER: State.CLOSED,
        },
    },
    State.MEMBER: {
        Side.DIALER: MEMBER_WORDS,
        Side.ACCEPTER: MEMBER_WORDS | {T.ERROR: State.CLOSED},
    },
    State.BLOBS: {
        Side.DIALER: {
            T.BLOB_ASK: State.BLOBS,
            T.BLOB_PUT: State.BLOBS,
            T.BLOB_CHUNK: State.BLOBS,
            T.BLOB_GET: State.BLOBS,
            T.BLOB_MORE: State.BLOBS,
            T.BLOB_DROP: State.BLOBS,
        },
        Side.ACCEPTER: {
            T.BLOB_HAVE: State.BLOBS,
            T.BLOB_GO: State.BLOBS,
            T.BLOB_CHUNK: State.BLOBS,
            T.BLOB_STORED: State.BLOBS,
            T.BLOB_INFO: State.BLOBS,
            T.BLOB_MORE: State.BLOBS,
            T.ERROR: State.CLOSED,
            T.NOT_LEADER: State.CLOSED,
        },
    },
    State.READER: {
        Side.DIALER: {
            T.SPAN_ASK: State.READER,
            T.PIECES_ASK: State.READER,
            T.TABLE_ASK: State.READER,
            T.PART_ASK: State.READER,
            T.RESULTS_ASK: State.READER,
        },
        Side.ACCEPTER: {
            T.SPAN_TOLD: State.READER,
            T.PIECE_CHUNK: State.READER,
            T.TABLE_TOLD: State.READER,
            T.ERROR: State.READER,
        },
    },
    State.CLOSED: {Side.DIALER: {}, Side.ACCEPTER: {}},
}

# Which features make a type of ours legal; any one of them is enough.
COVERED_BY: Final[dict[int, frozenset[str]]] = {
    T.WELCOME: frozenset(FEATURES),
    T.ACCEPTED: frozenset({COMPACT, ACCEPTED}),
    T.ERROR: frozenset({COMPACT, ACCEPTED}),
    T.HEARTBEAT: frozenset({COMPACT, LEASE}),
    T.NACK: frozenset({COMPACT, LEASE}),
    T.ACK_TAKEN: frozenset({COMPACT, LEASE}),
    T.STOP_JOB: frozenset({COMPACT, LEASE}),
    T.GOODBYE: frozenset({COMPACT, LEASE}),
    T.SUBMIT_BULK: frozenset({COMPACT}),
    T.SUBMIT_ARRAY: frozenset({COMPACT}),
    T.CANCEL: frozenset({COMPACT}),
    T.CONFIRM: frozenset({COMPACT}),
    T.QUERY: frozenset({COMPACT}),
    T.ANSWER: frozenset({COMPACT}),
    T.ADMIN: frozenset({COMPACT}),
    T.WATCH_OUTPUT: frozenset({COMPACT}),
    T.TELL_OUTPUT: frozenset({COMPACT}),
    T.OUTPUT_CHUNK: frozenset({COMPACT}),
    T.STAGE_JOBS: frozenset({COMPACT}),
    T.COMMIT_BATCH: frozenset({COMPACT}),
    T.DROP_BATCH: frozenset({COMPACT}),
    T.PING: frozenset({COMPACT, ALIVE}),
    T.ANNOUNCE: frozenset({COMPACT, PROGRAMS}),
    T.PONG: frozenset({COMPACT, ALIVE}),
}


def agree(offered: tuple[str, ...]) -> tuple[str, ...]:
    """The features that both sides speak, for the Welcome to a peer that offered some."""
    return tuple(feature for feature in FEATURES if feature in offered)


def is_covered(kind: int, features: frozenset[str]) -> bool:
    """Whether a peer with these features understands a type at all."""
    covering = COVERED_BY.get(kind)
    return covering is None or not covering.isdisjoint(features)


def steady_types(state: State, speaker: Side, features: frozenset[str]) -> frozenset[type]:
    """The messages that `speaker` may say in this state, that a peer with these features
    understands, and that leave the state as it is."""
    words = TABLE[state][speaker]
    return frozenset(
        struct
        for struct, kind in TYPE_OF.items()
        if words.get(kind) is state and is_covered(kind, features)
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
    try:
        name = T(kind).name.lower()
    except ValueError:
        return RemoteError(ErrorCode.UNKNOWN_MESSAGE, f"no message has the type {kind}")
    legal = ", ".join(T(word).name.lower() for word in TABLE[state][speaker]) or "nothing"
    return RemoteError(
        ErrorCode.BAD_HANDSHAKE,
        f"the {speaker.value} may not send {name} while the connection is: {state.value}",
        f"it may send {legal}",
    )
