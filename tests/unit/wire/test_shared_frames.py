"""Frames for many receivers: made once a form, and read by each as if they were its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rollq.wire import messages as m
from rollq.wire import shared_frames
from rollq.wire.compact import Message, encode_batch
from rollq.wire.connection import Connection
from rollq.wire.features import BATCH, COMPACT, HEADER, SUBJECTS, agree
from rollq.wire.frame import Frame
from rollq.wire.handshake import Side
from rollq.wire.shared_frames import SharedFrames
from rollq.wire.subject_messages import Deliver

TOLD = [Deliver("a.b", b"1"), Deliver("a.c", b"\x00" * 2_000, "r", "g", "t", 5, 6)]


def pair(*features: str) -> tuple[Connection, Connection]:
    """Both ends of the session of a client that agreed on these."""
    client, member = Connection(Side.DIALER), Connection(Side.ACCEPTER)
    member.receive_data(client.send(m.HelloClient("ann", 0, features)))
    client.receive_data(member.send(m.Welcome("g", 1, features)))
    return client, member


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("more", [(), (BATCH,), (HEADER,), (BATCH, HEADER, "zstd")])
def test_every_form_is_read_as_it_was_said(more: tuple[str, ...], count: int) -> None:
    client, member = pair(COMPACT, SUBJECTS, *more)
    assert member.form is not None
    data = SharedFrames(TOLD[:count]).encoded(member.form)
    assert client.receive_data(data) == TOLD[:count]
    assert client.error is None


def test_who_did_not_agree_has_no_form() -> None:
    _, member = pair(COMPACT)
    assert member.form is Connection(Side.ACCEPTER).form is None
    assert agree((SUBJECTS, BATCH)) == (BATCH,)  # it needs `compact`


def test_a_session_that_ends_has_no_form() -> None:
    _, member = pair(COMPACT, SUBJECTS)
    member.send(m.NotLeader())
    assert member.form is None


def test_a_message_is_encoded_once_for_a_thousand_receivers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encodes: list[int] = []

    def counted(said: Sequence[Message]) -> list[Frame]:
        encodes.append(len(said))
        return encode_batch(said)

    monkeypatch.setattr(shared_frames, "encode_batch", counted)
    members = [pair(COMPACT, SUBJECTS, BATCH)[1] for _ in range(1_000)]
    shared = SharedFrames(TOLD)
    sent = {id(shared.encoded(one.form)) for one in members if one.form is not None}
    assert (len(sent), encodes) == (1, [2])


@pytest.mark.parametrize("at", [0, 5, 9])
@pytest.mark.parametrize(
    "wrong",
    [
        Deliver("s" * 1_025, b""),
        Deliver("é" * 513, b""),  # too long in bytes, and not in characters
        Deliver("a", bytes(1024 * 1024 + 1)),
        Deliver("a", b"", index=-1),
    ],
)
def test_one_among_many_that_is_out_of_bounds_is_found(wrong: Deliver, at: int) -> None:
    client, member = pair(COMPACT, SUBJECTS, BATCH)
    many = [Deliver("a.b", b"x", "é", "g")] * 10
    assert client.receive_data(member.send_all(many)) == many
    many[at] = wrong
    assert client.receive_data(member.send_all(many)) == many[:at]
    assert client.error is not None


def test_a_text_of_many_bytes_within_its_bounds_is_taken() -> None:
    client, member = pair(COMPACT, SUBJECTS, BATCH)
    many = [Deliver("é" * 512, b"x")] * 10
    assert client.receive_data(member.send_all(many)) == many
