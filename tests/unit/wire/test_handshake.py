from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.wire.handshake import (
    COVERED_BY,
    FEATURES,
    TABLE,
    WAITS,
    Side,
    State,
    agree,
    is_covered,
    must_step,
)
from rollq.wire.kinds import MessageType as T

LEGACY_TYPES = {kind for kind in T if kind <= T.INSTALL_SNAPSHOT_RESPONSE}
BETWEEN_MEMBERS = set(TABLE[State.MEMBER][Side.DIALER])
OF_BLOBS = {kind for kind in T if T.HELLO_BLOBS <= kind <= T.BLOB_DROP}
OF_READERS = {kind for kind in T if T.HELLO_READER <= kind <= 95}


def test_every_type_may_be_said_somewhere() -> None:
    said = {kind for sides in TABLE.values() for words in sides.values() for kind in words}
    assert said == set(T) - {T.BATCH}  # it says what is inside it


def test_every_type_of_ours_in_a_session_has_its_features() -> None:
    others = LEGACY_TYPES | BETWEEN_MEMBERS | OF_BLOBS | OF_READERS | {T.BATCH}
    assert set(COVERED_BY) == set(T) - others
    assert all(features <= set(FEATURES) for features in COVERED_BY.values())


def test_every_state_can_be_reached_and_left_only_by_the_table() -> None:
    reached = {
        after for sides in TABLE.values() for words in sides.values() for after in words.values()
    }
    reached |= {WAITS[state] for state in reached if state in WAITS}
    assert reached | {State.NEW} == set(State)
    assert set(TABLE) == set(State)


def test_first_word_is_the_dialers_and_decides_the_role() -> None:
    assert must_step(State.NEW, Side.DIALER, T.HELLO_CLIENT) is State.CLIENT
    assert must_step(State.NEW, Side.DIALER, T.HELLO_WORKER) is State.WORKER
    assert must_step(State.NEW, Side.DIALER, T.LEADER_HELLO) is State.MEMBER
    assert must_step(State.NEW, Side.DIALER, T.HELLO_BLOBS) is State.BLOBS
    assert must_step(State.NEW, Side.DIALER, T.HELLO_READER) is State.READER
    for kind in T:
        with pytest.raises(RemoteError):
            must_step(State.NEW, Side.ACCEPTER, kind)


def test_nobody_speaks_twice_at_once_and_nothing_follows_the_end() -> None:
    for state in (*WAITS.values(),):
        assert TABLE[state][Side.DIALER] == {}
    assert TABLE[State.CLOSED] == {Side.DIALER: {}, Side.ACCEPTER: {}}


def test_refusals_say_what_would_have_been_legal() -> None:
    with pytest.raises(RemoteError) as caught:
        must_step(State.NEW, Side.DIALER, T.SUBMIT_JOB)
    assert caught.value.code == ErrorCode.BAD_HANDSHAKE
    assert "submit_job" in caught.value.message
    hellos = "hello_client, hello_worker, leader_hello, hello_blobs, hello_reader"
    assert caught.value.hint == f"it may send {hellos}"
    with pytest.raises(RemoteError) as caught:
        must_step(State.CLIENT, Side.DIALER, 8)
    assert caught.value.code == ErrorCode.UNKNOWN_MESSAGE


def test_agreed_is_what_both_offer() -> None:
    assert agree(()) == ()
    assert agree(("zstd", "of tomorrow", "compact")) == ("compact", "zstd")
    assert agree(FEATURES) == FEATURES


def test_features_cover_types() -> None:
    nothing: frozenset[str] = frozenset()
    assert is_covered(T.SUBMIT_JOB, nothing)
    assert not is_covered(T.ACCEPTED, nothing)
    assert is_covered(T.ACCEPTED, frozenset({"accepted"}))
    assert not is_covered(T.CANCEL, frozenset({"accepted"}))
    assert all(is_covered(kind, frozenset({"compact"})) for kind in T)
