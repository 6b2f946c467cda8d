from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.wire import messages as m
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.features import FEATURES, agree
from rollq.wire.handshake import (
    BEFORE_HELLO,
    TABLE,
    WAITS,
    Side,
    Stage,
    is_covered,
    must_step,
)
from rollq.wire.login_messages import Login, LoginChallenge, LoginProof
from rollq.wire.reader_messages import HelloReader
from rollq.wire.registry import COVERED_BY, NUMBER_OF, ROW_NUMBERED

EVERY_TYPE = frozenset(ROW_NUMBERED)
LEGACY_TYPES = {number for number in EVERY_TYPE if number <= 27}
OF_MEMBERS = set(TABLE[Stage.MEMBER][Side.DIALER])
OF_BLOBS = {number for number in EVERY_TYPE if 70 <= number <= 80}
OF_READERS = {number for number in EVERY_TYPE if 84 <= number <= 95 or 99 <= number <= 100}


def test_every_type_may_be_said_somewhere() -> None:
    said = {kind for sides in TABLE.values() for words in sides.values() for kind in words}
    assert said == EVERY_TYPE


def test_every_type_of_ours_in_a_session_has_its_features() -> None:
    assert set(COVERED_BY) == EVERY_TYPE - LEGACY_TYPES - OF_MEMBERS - OF_BLOBS - OF_READERS
    assert all(features <= set(FEATURES) for features in COVERED_BY.values())


def test_every_state_can_be_reached_and_left_only_by_the_table() -> None:
    reached = {
        after for sides in TABLE.values() for words in sides.values() for after in words.values()
    }
    reached |= {WAITS[state] for state in reached if state in WAITS}
    assert reached | {Stage.NEW} == set(Stage)
    assert set(TABLE) == set(Stage)


def test_first_word_is_the_dialers_and_decides_the_role() -> None:
    assert must_step(Stage.NEW, Side.DIALER, NUMBER_OF[m.HelloClient]) is Stage.CLIENT
    assert must_step(Stage.NEW, Side.DIALER, NUMBER_OF[m.HelloWorker]) is Stage.WORKER
    assert must_step(Stage.NEW, Side.DIALER, NUMBER_OF[m.LeaderHello]) is Stage.MEMBER
    assert must_step(Stage.NEW, Side.DIALER, NUMBER_OF[HelloBlobs]) is Stage.BLOBS
    assert must_step(Stage.NEW, Side.DIALER, NUMBER_OF[HelloReader]) is Stage.READER
    for kind in EVERY_TYPE:
        with pytest.raises(RemoteError):
            must_step(Stage.NEW, Side.ACCEPTER, kind)


def test_a_login_comes_before_the_hello_and_only_there() -> None:
    login, challenge, proof = (NUMBER_OF[kind] for kind in (Login, LoginChallenge, LoginProof))
    assert must_step(Stage.NEW, Side.DIALER, login) is Stage.LOGIN_WAITS
    assert must_step(Stage.LOGIN_WAITS, Side.ACCEPTER, challenge) is Stage.LOGIN_CHALLENGED
    assert must_step(Stage.LOGIN_CHALLENGED, Side.DIALER, proof) is Stage.LOGGED_IN
    hellos = dict(TABLE[Stage.NEW][Side.DIALER])
    del hellos[login]
    assert TABLE[Stage.LOGGED_IN][Side.DIALER] == hellos
    for stage, sides in TABLE.items():
        said = {kind for words in sides.values() for kind in words}
        assert stage in BEFORE_HELLO or said.isdisjoint((login, challenge, proof))


def test_an_error_may_answer_a_login_and_ends_it() -> None:
    error = NUMBER_OF[m.Error]
    for stage in BEFORE_HELLO - {Stage.NEW}:
        assert must_step(stage, Side.ACCEPTER, error) is Stage.CLOSED


def test_nobody_speaks_twice_at_once_and_nothing_follows_the_end() -> None:
    completing = {NUMBER_OF[m.Holdings]: Stage.WORKER_WAITS}  # it is still the hello
    for state in (*WAITS.values(),):
        assert TABLE[state][Side.DIALER] == (completing if state is Stage.WORKER_WAITS else {})
    assert TABLE[Stage.CLOSED] == {Side.DIALER: {}, Side.ACCEPTER: {}}


def test_refusals_say_what_would_have_been_legal() -> None:
    with pytest.raises(RemoteError) as caught:
        must_step(Stage.NEW, Side.DIALER, NUMBER_OF[m.SubmitJob])
    assert caught.value.code == ErrorCode.BAD_HANDSHAKE
    assert "SubmitJob" in caught.value.message
    hellos = "Login, HelloClient, HelloWorker, LeaderHello, HelloBlobs, HelloReader"
    assert caught.value.hint == f"it may send {hellos}"
    with pytest.raises(RemoteError) as caught:
        must_step(Stage.CLIENT, Side.DIALER, 8)
    assert caught.value.code == ErrorCode.UNKNOWN_MESSAGE


def test_agreed_is_what_both_offer() -> None:
    assert agree(()) == ()
    assert agree(("zstd", "of tomorrow", "compact")) == ("compact", "zstd")
    assert agree(FEATURES) == FEATURES
    assert agree(("runs", "accepted")) == ("accepted",)  # runs are compact


def test_features_cover_types() -> None:
    nothing: frozenset[str] = frozenset()
    assert is_covered(NUMBER_OF[m.SubmitJob], nothing)
    assert not is_covered(NUMBER_OF[m.Accepted], nothing)
    assert is_covered(NUMBER_OF[m.Accepted], frozenset({"accepted"}))
    assert not is_covered(NUMBER_OF[m.Cancel], frozenset({"accepted"}))
    runs = {kind for kind in EVERY_TYPE if is_covered(kind, frozenset({"runs"}))}
    runs = {kind for kind in runs if not is_covered(kind, nothing) and kind != NUMBER_OF[m.Welcome]}
    assert runs == set(range(50, 56))
    subjects = {kind for kind in EVERY_TYPE if is_covered(kind, frozenset({"subjects"}))}
    subjects -= {kind for kind in subjects if is_covered(kind, nothing)} | {NUMBER_OF[m.Welcome]}
    assert subjects == set(range(101, 107))
    others = set(EVERY_TYPE) - runs - subjects
    assert all(is_covered(kind, frozenset({"compact"})) for kind in others)
    assert not any(is_covered(kind, frozenset(FEATURES) - {"runs"}) for kind in runs)
