"""Frames of logins, written by hand as those in `golden_vectors`."""

from __future__ import annotations

from rollq.wire import login_messages as g
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
]
