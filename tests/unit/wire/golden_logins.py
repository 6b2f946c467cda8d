"""Frames of logins and of cluster keys, written by hand as those in `golden_vectors`."""

from __future__ import annotations

from rollq.wire import login_messages as g
from rollq.wire import messages as m
from tests.unit.wire.golden_vectors import NIL, Vector, from_parts

NONCE = "ab" * 32

LOGINS = [
    Vector(
        "12 Login by token",
        from_parts(
            "4a000000 0c" + NIL + NIL,
            "0000",
            "23000000",
            "94 a5" + b"token".hex() + "a5" + b"alice".hex(),
            "c412" + b"rollq_alice_0123ab".hex() + "c400",
        ),
        g.Login("token", "alice", b"rollq_alice_0123ab"),
    ),
    Vector(
        "12 Login by key",
        from_parts(
            "56000000 0c" + NIL + NIL,
            "0000",
            "2f000000",
            "94 a3" + b"key".hex() + "a5" + b"alice".hex() + "c400 c420" + NONCE,
        ),
        g.Login("key", "alice", nonce=b"\xab" * 32),
    ),
    Vector(
        "13 LoginChallenge",
        from_parts(
            "4f000000 0d" + NIL + NIL,
            "0000",
            "28000000",
            "93 c420" + NONCE + "c400 a2" + b"g1".hex(),
        ),
        g.LoginChallenge(b"\xab" * 32, group="g1"),
    ),
    Vector(
        "14 LoginProof",
        from_parts("2d000000 0e" + NIL + NIL, "0000", "06000000", "91 c403" + b"abc".hex()),
        g.LoginProof(b"abc"),
    ),
    Vector(
        "21 LeaderHello with a key",
        from_parts(
            "5b000000 15" + NIL + NIL,
            "0f00",
            b"cluster.g1.roll",
            "25000000",
            "9c 01 a3613a31 c401cc 02 03 c2 92 01 02 91 a4",
            b"keys",
            "c402 0102 c408 0707070707070707 04 c3",
        ),
        m.LeaderHello(
            *(1, "a:1", b"\xcc", 2, 3),
            lives=(1, 2),
            features=("keys",),
            call=b"\x01\x02",
            key_id=b"\x07" * 8,
            key_term=4,
            key_sure=True,
        ),
    ),
    Vector(
        "65 RollAnswer with a key",
        from_parts(
            "82000000 41" + NIL + NIL,
            "0f00",
            b"cluster.g1.roll",
            "4c000000",
            "dc0012 01 a3613a31 c401cc 02 03 c2 90 92 90 90 00 90 90 c3",
            "c402 0102 c408 0707070707070707 04 c3 c420" + "05" * 32 + "c402 0606",
        ),
        m.RollAnswer(
            *(1, "a:1", b"\xcc", 2, 3),
            to_call=b"\x01\x02",
            key_id=b"\x07" * 8,
            key_term=4,
            key_sure=True,
            key=b"\x05" * 32,
            share=b"\x06\x06",
        ),
    ),
]
