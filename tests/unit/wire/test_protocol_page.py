"""docs/protocol.md is normative, so its tables must be those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from rollq.base.errors import ErrorCode
from rollq.base.jobs import JobOptions
from rollq.base.limits import (
    BLOB_CHUNK_BYTES_MAX,
    BLOB_TRANSFERS_MAX,
    BLOB_WINDOW_BYTES,
    CREDIT_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    HELLO_BYTES_MAX,
    HELLO_KNOWN_WORKER_BYTES_MAX,
    HOLDINGS_PER_MESSAGE_MAX,
    OUTPUT_CHUNK_BYTES_MAX,
    OUTPUT_WINDOW_BYTES,
)
from rollq.grid.commands import Cause
from rollq.wire import messages as m
from rollq.wire import models
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.features import FEATURES
from rollq.wire.frame import LEN_MIN
from rollq.wire.handshake import TABLE, Side, Stage
from rollq.wire.reader_messages import HelloReader
from rollq.wire.registry import NUMBER_OF, ROW_NUMBERED

PAGE = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
ONE_LINE = " ".join(PAGE.split())


def test_compact_fields() -> None:
    section = PAGE[PAGE.index("## 4.") : PAGE.index("## 5.")]
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (?:(.+) )?\|$", section, re.MULTILINE)
    assert {int(kind): fields for kind, _, fields in rows} == {
        kind: ", ".join(struct.__struct_fields__) for struct, kind in NUMBER_OF.items()
    }
    names = {int(kind): name for kind, name, _ in rows}
    assert names == {kind: struct.__name__ for struct, kind in NUMBER_OF.items()}


def test_roles_and_what_they_may_say() -> None:
    for hello, state in (
        (m.HelloClient, Stage.CLIENT),
        (m.HelloWorker, Stage.WORKER),
        (HelloBlobs, Stage.BLOBS),
        (HelloReader, Stage.READER),
    ):
        (said, told) = re.findall(
            rf"^\| {hello.__name__} \| \w+ \| (.*) \| (.*) \|$", PAGE, re.MULTILINE
        )[0]
        for side, names in ((Side.DIALER, said), (Side.ACCEPTER, told)):
            legal = {ROW_NUMBERED[number].name for number in TABLE[state][side]}
            assert set(names.split(", ")) == legal


def test_json_fields() -> None:
    rows = dict(re.findall(r"^\| ([A-Z]\w+)(?: \+)? \| (.*) \|$", PAGE, re.MULTILINE))
    for model in (
        models.JobRequest,
        models.JobResult,
        models.ClientConfig,
        models.WorkerConfig,
        models.CachePutRequest,
        models.CachePutResult,
    ):
        # Brackets hold the fields of what is inside an array, parentheses hold values.
        said = re.sub(r"\[[^]]*\]|\([^)]*\)|\+", "", rows[model.__name__])
        assert [name.strip() for name in said.split(",")] == list(model.__struct_encode_fields__)


def test_features() -> None:
    section = PAGE[PAGE.index("| feature |") : PAGE.index("## 3.")]
    rows = re.findall(r"^\| ((?:`\w+` ?)+) \|", section, re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", " ".join(rows))) == FEATURES


def test_options_and_causes() -> None:
    assert ", ".join(JobOptions.__struct_fields__) in ONE_LINE
    assert (
        ", ".join(f"{int(cause)} {cause.name.lower().replace('_', ' ')}" for cause in Cause)
        in ONE_LINE
    )


def test_error_codes() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \| \w", PAGE, re.MULTILINE)
    assert [(int(code), name) for code, name in rows] == [
        (int(code), code.name) for code in ErrorCode if code < 300
    ]


def test_bounds() -> None:
    first = (HELLO_BYTES_MAX, HELLO_KNOWN_WORKER_BYTES_MAX, HOLDINGS_PER_MESSAGE_MAX)
    for bound in (FRAME_BYTES_MAX, *first, HEADER_BYTES_MAX, CREDIT_MAX):
        assert f"{bound:,}" in PAGE
    assert f"A chunk has at most {BLOB_CHUNK_BYTES_MAX:,} bytes" in PAGE
    assert f"A sender is at most {BLOB_WINDOW_BYTES:,} bytes ahead" in PAGE
    assert f"A stream is sent up to {OUTPUT_WINDOW_BYTES:,} bytes" in PAGE
    assert f"A chunk has at most {OUTPUT_CHUNK_BYTES_MAX:,} bytes" in PAGE
    assert f"at most {BLOB_TRANSFERS_MAX} in each direction" in PAGE
    assert f"{LEN_MIN} + subject + payload bytes" in PAGE
