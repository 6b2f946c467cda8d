"""What people may see of a job's body."""

from __future__ import annotations

import json

from rollq.base.ids import NIL_ID
from rollq.base.requests import (
    KEPT_BYTES_MAX,
    REQUEST_BYTES_MAX,
    Request,
    RequestFile,
    kept_of,
    request_in,
)
from rollq.wire.models import InputFile, encode_model, job_request


def body(*args: str, files: tuple[InputFile, ...] = (), env: dict[str, str] | None = None) -> bytes:
    made = encode_model(job_request(NIL_ID, "me", "calc", args=args, files=files))
    return made if env is None else json.dumps({**json.loads(made), "Env": env}).encode()


def test_arguments_files_and_names_of_the_environment_are_told() -> None:
    files = (
        InputFile("a.txt", None, b"12345"),
        InputFile("big.bin", digest="ab" * 32, size=10**9),
        InputFile("c.csv", "dataset"),
    )
    made = body("1", "two words", files=files, env={"TOKEN": "secret", "HOME": "/"})
    found = request_in(made)
    assert found.args == ("1", "two words")
    assert found.files == (
        RequestFile("a.txt", 5),
        RequestFile("big.bin", 10**9, "ab" * 32),
        RequestFile("c.csv", -1, "", "dataset"),
    )
    assert (found.env, found.body_bytes, found.is_cut) == (("TOKEN", "HOME"), len(made), False)


def test_other_bodies_are_payloads_of_which_only_the_size_is_told() -> None:
    for payload in (b"", b"raw", b"{", b'{"a": 1}', b"[1, 2]", b"\xff"):
        assert request_in(payload) == Request(body_bytes=len(payload), is_payload=True)


def test_what_is_kept_after_the_end_is_bounded_and_holds_no_values() -> None:
    short = body("1", "2")
    assert kept_of(short) is short
    secret = kept_of(body("1", env={"TOKEN": "secret"}))
    assert b"secret" not in secret
    assert request_in(secret).env == ("TOKEN",)
    for long in (
        body(*map(str, range(10_000))),
        body("x" * 50_000),
        body(files=tuple(InputFile(f"f{number}", None, b"y" * 90) for number in range(200))),
        b"p" * (KEPT_BYTES_MAX + 1),
    ):
        kept = kept_of(long)
        assert len(kept) < 3 * REQUEST_BYTES_MAX
        assert request_in(kept) == request_in(long)
        assert request_in(kept).body_bytes == len(long)
        assert kept_of(kept) == kept or len(kept) > KEPT_BYTES_MAX
    assert request_in(body("x" * 50_000)).is_cut
    assert request_in(kept_of(body(*["a"] * 9_999))).is_cut
