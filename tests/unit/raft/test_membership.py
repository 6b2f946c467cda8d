"""The algebra of configurations, and its bytes."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, StateError
from rollq.raft.codec import decode_change, encode_change
from rollq.raft.membership import (
    address_of,
    apply_bootstrap,
    apply_change,
    bootstrap_change,
)
from rollq.raft.types import ChangeKind, Config, ConfigChange, Member, MemberChange

KINDS = {
    "v": ChangeKind.ADD_VOTER,
    "l": ChangeKind.ADD_LEARNER,
    "r": ChangeKind.REMOVE,
    "u": ChangeKind.UPDATE,
}


def change(text: str) -> ConfigChange:
    """`v1 l2@there r3` and so on."""
    steps = []
    for word in text.split():
        number, _, address = word[1:].partition("@")
        steps.append(MemberChange(int(KINDS[word[0]]), Member(int(number), address)))
    return ConfigChange(tuple(steps))


def show(config: Config) -> str:
    voters = " ".join(f"{m.id}@{m.address}" for m in config.voters)
    learners = " ".join(f"{m.id}@{m.address}" for m in config.learners)
    return f"{voters} | {learners}"


START = Config(voters=(Member(1, "a"), Member(2, "b"), Member(3, "c")), learners=(Member(4, "d"),))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("v5@e", "1@a 2@b 3@c 5@e | 4@d"),
        ("v4", "1@a 2@b 3@c 4@d | "),
        ("l2", "1@a 3@c | 2@b 4@d"),
        ("r3", "1@a 2@b | 4@d"),
        ("r9", "1@a 2@b 3@c | 4@d"),
        ("u1@z u4@y u9@x", "1@z 2@b 3@c | 4@y"),
        ("u1", "1@a 2@b 3@c | 4@d"),
        ("v0 r0 l0", "1@a 2@b 3@c | 4@d"),
        ("l5@e l6@f r4", "1@a 2@b 3@c | 5@e 6@f"),
        ("r1 l7", "2@b 3@c | 4@d 7@"),
    ],
)
def test_a_change_makes(text: str, result: str) -> None:
    assert show(apply_change(START, change(text))) == result


@pytest.mark.parametrize("text", ["r1 r2", "r1 v5", "v5 v6", "r1 r2 r3", "l1 l2", "v4 r1"])
def test_a_change_of_more_than_one_voter_is_refused(text: str) -> None:
    with pytest.raises(StateError) as caught:
        apply_change(START, change(text))
    assert caught.value.code is ErrorCode.BAD_CONFIG_CHANGE


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(StateError):
        apply_change(START, ConfigChange((MemberChange(9, Member(1)),)))


def test_the_last_voter_stays() -> None:
    one = Config(voters=(Member(1),))
    for text in ("r1", "l1"):
        with pytest.raises(StateError, match="no voter"):
            apply_change(one, change(text))


def test_bootstrap_makes_a_configuration_out_of_nothing() -> None:
    assert apply_bootstrap(bootstrap_change(START)) == START


def test_a_change_survives_its_bytes() -> None:
    assert decode_change(encode_change(change("v5@e r9"))) == change("v5@e r9")
    with pytest.raises(StateError) as caught:
        decode_change(b"\xc1")
    assert caught.value.code is ErrorCode.BAD_CONFIG_CHANGE


def test_addresses() -> None:
    assert [address_of(START, i) for i in (1, 4, 9)] == ["a", "d", ""]
