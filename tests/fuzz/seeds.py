"""Where a search begins: well-formed bytes of every target, made by our own code, and what searches
have found. A file of `corpus/TARGET` is one input; its name means nothing."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rollq.base.access_rules import Account, Rule
from rollq.grid.snapshot import VERSION, encode_snapshot
from rollq.grid.state import GridState
from rollq.raft.types import InstallSnapshot
from rollq.store.archive import pack
from rollq.store.snapshot_header import encode_header
from rollq.store.snapshot_layout import encode_table
from rollq.wire.connection import Connection
from rollq.wire.frame import encode_frame
from rollq.wire.handshake import Side
from rollq.wire.login_messages import Login, LoginProof
from rollq.wire.message_codec import Dialect, encode_message
from rollq.wire.messages import HelloClient, HelloWorker, LeaderHello
from rollq.wire.registry import NUMBER_OF
from tests.fuzz.accounts import GROUP, KEY_FILE, TOKEN
from tests.fuzz.datagrams import BODIES, DATAGRAMS
from tests.unit.wire.golden_logins import LOGINS
from tests.unit.wire.golden_vectors import VECTORS
from tests.unit.wire.samples import META, SAMPLES

GOLDEN: Final = Path(__file__).parents[1] / "replay" / "golden"
CORPUS: Final = Path(__file__).parent / "corpus"


def seeds_of(target: str) -> list[bytes]:
    """All that is known for a target, in a fixed order."""
    found = sorted((CORPUS / target).glob("*")) if (CORPUS / target).is_dir() else []
    return [*MADE.get(target, lambda: ())(), *(path.read_bytes() for path in found)]


def _golden() -> Sequence[bytes]:
    return [vector.data for vector in VECTORS + LOGINS]


def _dialogues() -> Sequence[bytes]:
    dialer = Connection(Side.DIALER, GROUP)
    first = dialer.send(Login("token", "ann", TOKEN))
    offers = ("compact", "accepted", "batch", "header2", "zstd")
    hellos = (HelloClient("ann/1", 1, offers), HelloWorker(bytes(16), ("a",), features=offers))
    whole = [first + Connection(Side.DIALER, GROUP).send(hello) for hello in hellos]
    by_key = Connection(Side.DIALER, GROUP).send(Login("key", "bob", nonce=bytes(32)))
    proof = encode_frame(encode_message(LoginProof(bytes(64)), Dialect.COMPACT))
    return [first, *whole, by_key, by_key + proof, *_golden()]


def _of_members() -> Sequence[bytes]:
    dialer = Connection(Side.DIALER, GROUP)
    dialer.send(LeaderHello(1, "a:1", b"c", 1, 0))
    chunk = InstallSnapshot(1, 2, 3, META, 0, 7, b"a chunk")
    sampled = [one for one in SAMPLES if NUMBER_OF[type(one)] in range(21, 28)]
    return [dialer.send(one) for one in (chunk, *sampled)]


def _answers() -> Sequence[bytes]:
    return [vector.data for vector in LOGINS if vector.data[4] in (13, 32)]


def _archives() -> Sequence[bytes]:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("folder/", b"")
        archive.writestr("folder/a.txt", b"hello")
    files = [("a", b"x" * 100, 0o644), ("b/c", b"", 0o755)]
    return [stored.getvalue(), pack(files), pack(())]


def _accounts() -> Sequence[bytes]:
    rules = (Rule("allow", "jobs.*", "queue:a*b"), Rule("deny", "*", "*"))
    encode = msgspec.msgpack.encode
    return [encode(Account("ann", ("client",), rules)), encode(Account("a"))]


def _snapshots() -> Sequence[bytes]:
    """Of the last version, with some of everything, and an empty one."""
    golden = (path.read_bytes() for path in sorted(GOLDEN.glob("commands-v*.snapshot")))
    return [encode_snapshot(GridState()), *(data for data in golden if data[0] == VERSION)]


def _headers() -> Sequence[bytes]:
    return [encode_header(META), encode_header(META, 2, length=4096), encode_table([0], [5])]


MADE: Final[dict[str, Callable[[], Sequence[bytes]]]] = {
    "frame": _golden,
    "connection": _dialogues,
    "tls_hello": lambda: [bytes.fromhex("0200010001fc0303") + bytes(64), *_golden()[:3]],
    "dialer": _answers,
    "member": _of_members,
    "login": _dialogues,
    "token": lambda: [TOKEN, b"rollq_a_b_" + b"0" * 40],
    "key_file": lambda: [KEY_FILE],
    "certificate_name": lambda: [b"rollq://prod/member/m1", b"rollq://a/admin/b.c-d_e"],
    "snapshot": _snapshots,
    "snapshot_file": _headers,
    "archive": _archives,
    "access": _accounts,
    "datagram": lambda: DATAGRAMS,
    "gossip": lambda: BODIES,
}
