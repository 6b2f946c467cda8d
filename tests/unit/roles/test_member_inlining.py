"""Results as peers get them that know no blobs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from msgspec import UNSET

from rollq.base.ids import guid_to_text
from rollq.base.jobs import BlobRef
from rollq.base.limits import FRAME_BYTES_MAX
from rollq.roles.member.inlining import completed
from rollq.store.archive import pack, unpack
from rollq.wire.frame import encode_frame
from rollq.wire.kept import result_kept, stand_in_for_result
from rollq.wire.legacy_codec import encode_legacy
from rollq.wire.messages import AssignJob, Result
from rollq.wire.models import JobResult, OutputFile, StreamBlob, decode_model, encode_model
from tests.unit.roles.members import job

MIB = 1024 * 1024


class Blobs:
    """A store in memory, which counts what is read."""

    def __init__(self) -> None:
        self.all: dict[bytes, bytes] = {}
        self.read_bytes = 0

    def add(self, data: bytes) -> BlobRef:
        ref = BlobRef(hashlib.sha256(data).digest(), len(data))
        self.all[ref.digest] = data
        return ref

    def read(self, ref: BlobRef) -> bytes:
        self.read_bytes += ref.size
        return self.all[ref.digest]


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that do not pack."""
    return hashlib.shake_128(bytes([seed])).digest(size)


def result_of(blobs: Blobs, files: dict[str, bytes], **fields: Any) -> Result:
    """What a worker of ours says of a job that left these files as blobs."""
    refs = {name: blobs.add(content) for name, content in files.items()}
    outputs = tuple(OutputFile(name, ref.digest.hex(), ref.size) for name, ref in refs.items())
    for name in ("stdout_blob", "stderr_blob", "data_blob"):
        if name in fields:
            ref = blobs.add(fields[name])
            refs[name] = ref
            fields[name] = StreamBlob(ref.digest.hex(), ref.size)
    ident = guid_to_text(job(1))
    report = JobResult(ident, "ann", "calc", "OK", outputs=outputs, **fields)
    return Result(job(1), "done", 0, encode_model(report), "calc", blobs=tuple(refs.values()))


def for_legacy(message: Result, blobs: Blobs) -> JobResult:
    """The report that a legacy client gets, in a frame that it takes."""
    whole = completed(message, blobs.read, knows_blobs=False)
    assert isinstance(whole, Result)
    frame = encode_legacy(whole)
    assert len(encode_frame(frame)) <= FRAME_BYTES_MAX + 4
    return decode_model(frame.payload, JobResult)


def test_files_of_a_worker_of_ours_are_in_the_archive() -> None:
    blobs = Blobs()
    files = {"a.bin": noise(2 * MIB), "d/b.bin": noise(100_000, 1)}
    small = pack([("c.txt", b"small", 0o755)])
    report = for_legacy(result_of(blobs, files, output_archive=small), blobs)
    assert report.output_archive is not None
    assert unpack(report.output_archive, 64 * MIB) == files | {"c.txt": b"small"}
    assert not report.note
    assert not report.stderr


def test_what_does_not_fit_a_frame_is_named_with_the_way_to_get_it() -> None:
    blobs = Blobs()
    files = {"large.bin": noise(4 * MIB), "small.bin": noise(1_000, 1)}
    report = for_legacy(result_of(blobs, files), blobs)
    assert report.output_archive is not None
    assert unpack(report.output_archive, 64 * MIB) == {"small.bin": files["small.bin"]}
    for text in (report.note, report.stderr):
        assert isinstance(text, str)
        assert "large.bin (4194304)" in text
        assert f"rollq fetch {guid_to_text(job(1))}" in text


def test_files_beyond_all_measure_are_not_even_read() -> None:
    blobs = Blobs()
    message = result_of(blobs, {"huge.bin": b""})
    report = decode_model(message.result, JobResult)
    digest = report.outputs[0].digest  # type: ignore[index]
    huge = (OutputFile("huge.bin", digest, 1024**4),)
    message = Result(
        job(1),
        "done",
        0,
        encode_model(JobResult(report.job_id, "ann", "calc", "OK", outputs=huge)),
        "calc",
        blobs=(BlobRef(bytes.fromhex(digest), 1024**4),),
    )
    assert "huge.bin" in str(for_legacy(message, blobs).note)
    assert blobs.read_bytes == 0


def test_whole_streams_take_the_place_of_their_ends() -> None:
    blobs = Blobs()
    whole = ("line\n" * 200_000).encode()
    message = result_of(blobs, {}, stdout="line\n", stdout_blob=whole, stderr_blob=noise(5 * MIB))
    report = for_legacy(message, blobs)
    assert report.stdout == whole.decode()
    assert "stderr has 5242880 bytes" in str(report.stderr)


def test_a_large_result_that_grows_too_large_as_text_is_explained() -> None:
    blobs = Blobs()
    raw = noise(4_000_000)
    ref = blobs.add(raw)
    message = Result(job(1), "done", 0, stand_in_for_result(ref, job(1), raw), blobs=(ref,))
    report = for_legacy(message, blobs)
    assert report.output_archive is None
    assert "4000000 bytes" in str(report.stderr)
    ours = completed(message, blobs.read, knows_blobs=True)
    assert isinstance(ours, Result)
    assert ours.result == raw


def test_a_stand_in_is_small_whatever_the_result_says() -> None:
    told = {
        "JobId": "j" * 100_000,
        "ClientId": "\x01" * 100_000,
        "ExecName": "\x01" * 100_000,
        "Status": "OK",
        "Stdout": "\x01" * 100_000,
        "Stderr": "\U0001f600" * 100_000,
    }
    result = json.dumps(told).encode()
    ref = BlobRef(hashlib.sha256(result).digest(), len(result))
    stand_in = stand_in_for_result(ref, job(1), result)
    assert len(stand_in) <= 64 * 1024
    assert result_kept(stand_in, (ref,)) == ref


def test_a_stand_in_of_a_stranger_is_not_believed() -> None:
    ref = BlobRef(bytes(32), 7)
    forged = stand_in_for_result(ref, job(1), b"x")
    assert result_kept(forged, ()) is None
    assert result_kept(forged, (BlobRef(b"\1" * 32, 7),)) is None
    body = b'{"BodyBlob":{"Digest":"00","Size":7}}'
    message = AssignJob(job(1), 1, 1, 0, "calc", "calc", body, blobs=(ref,))
    assert completed(message, lambda _: b"?", knows_blobs=True) == message


def test_a_large_value_of_a_function_is_in_the_result_or_named() -> None:
    blobs = Blobs()
    value = noise(1_000_000)
    report = for_legacy(result_of(blobs, {}, data_blob=value), blobs)
    assert (report.data, report.data_blob) == (value, UNSET)
    report = for_legacy(result_of(blobs, {}, data_blob=noise(4_000_000)), blobs)
    assert report.data is UNSET
    assert "4000000 bytes" in str(report.stderr)
