from __future__ import annotations

import json

import msgspec
import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.jobs import JobOptions
from rollq.wire.models import (
    FIRST_OPTION,
    CacheEntryModel,
    CachePutRequest,
    CachePutResult,
    ClientConfig,
    InputFile,
    JobRequest,
    JobRequestHead,
    JobResult,
    JobResultHead,
    OutputFile,
    StreamBlob,
    decode_if_marked,
    decode_model,
    encode_model,
    job_request,
    options_of,
)
from tests.unit.wire.golden_vectors import GUID_TEXT, JOB, PUT, PUT_ACK, REQUEST, RESULT
from tests.unit.wire.samples import OPTIONS


def test_options_are_the_tail_of_both_request_models() -> None:
    options = JobOptions.__struct_fields__
    assert JobRequest.__struct_fields__[-len(options) :] == options
    assert JobRequestHead.__struct_fields__[FIRST_OPTION:] == options


def test_legacy_fields_are_written_even_if_empty_and_ours_only_if_set() -> None:
    assert json.loads(encode_model(job_request(JOB, "c", "calcA"))) == {
        "JobId": GUID_TEXT,
        "ClientId": "c",
        "ExecName": "calcA",
        "Args": [],
        "Files": [],
    }
    result = JobResult(GUID_TEXT, "c", "calcA", "OK", exit_code=0)
    assert list(json.loads(encode_model(result))) == [
        "JobId",
        "ClientId",
        "ExecName",
        "Status",
        "Stdout",
        "Stderr",
        "OutputArchive",
        "ExitCode",
    ]


def test_options_ride_in_extension_fields() -> None:
    raw = encode_model(job_request(JOB, "c", "calcA", options=OPTIONS))
    assert json.loads(raw)["RunMsMax"] == 6
    assert options_of(decode_model(raw, JobRequestHead)) == OPTIONS
    assert decode_model(raw, JobRequest).retry_exit_codes == (10, -11)


def test_default_options_are_not_written() -> None:
    plain = encode_model(job_request(JOB, "c", "calcA"))
    assert encode_model(job_request(JOB, "c", "calcA", options=JobOptions())) == plain
    assert options_of(decode_model(plain, JobRequestHead)) is None


def test_blobs_are_named_in_extension_fields() -> None:
    files = (InputFile("a", digest="00ff", size=7, mode=0o755),)
    raw = encode_model(job_request(JOB, "c", "calcA", files=files, outputs=("*.csv",)))
    (file,) = json.loads(raw)["Files"]
    assert file == {
        "Name": "a",
        "CacheId": None,
        "Content": None,
        "Digest": "00ff",
        "Size": 7,
        "Mode": 0o755,
    }
    assert json.loads(raw)["Outputs"] == ["*.csv"]
    assert decode_model(raw, JobRequest).files == files
    result = JobResult(
        GUID_TEXT,
        "c",
        "calcA",
        "OK",
        outputs=(OutputFile("a/b", "00ff", 7),),
        stdout_blob=StreamBlob("00ff", 9),
    )
    written = json.loads(encode_model(result))
    assert written["Outputs"] == [{"Name": "a/b", "Digest": "00ff", "Size": 7}]
    assert written["StdoutBlob"] == {"Digest": "00ff", "Size": 9}
    assert "StderrBlob" not in written
    assert decode_model(encode_model(result), JobResult) == result


def test_legacy_models_are_read() -> None:
    assert decode_model(REQUEST, JobRequest) == JobRequest(
        GUID_TEXT, "clientA", "calcA", ("-x",), (InputFile("a", None, b"\x01\x02"),)
    )
    assert decode_model(RESULT, JobResult).output_archive == b"PK"
    put = CachePutRequest("d1", (CacheEntryModel("a", b"\x01\x02"),), "job.assign.*")
    assert decode_model(PUT, CachePutRequest) == put
    assert encode_model(put) == PUT
    assert decode_model(PUT_ACK, CachePutResult) == CachePutResult("d1", "OK", "added=1")


def test_unknown_fields_and_nulls_are_taken() -> None:
    raw = b'{"JobId":"x","ClientId":null,"ExecName":"e","Args":null,"Files":null,"New":[1]}'
    assert decode_model(raw, JobRequest) == JobRequest("x", None, "e", None, None)


def test_misfits_name_model_and_field() -> None:
    with pytest.raises(RemoteError) as caught:
        decode_model(b'{"ClientId":"a","DesiredParallelism":"four"}', ClientConfig)
    assert caught.value.code == ErrorCode.BAD_PAYLOAD
    assert "ClientConfig" in caught.value.message
    assert "DesiredParallelism" in caught.value.message


def test_numbers_fit_in_64_bits() -> None:
    raw = b'{"DesiredParallelism":9223372036854775808}'
    with pytest.raises(RemoteError):
        decode_model(raw, ClientConfig)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"hello",
        b"\xff\xfe",
        b"[1]",
        b"{}",
        b" {}",
        b'{"Other":1}',
        b'{"JobId":"cut',
        b'{"JobId":' + b"[" * 100_000,
    ],
)
def test_other_bytes_are_not_the_model(payload: bytes) -> None:
    assert decode_if_marked(payload, JobRequestHead, "JobId") is None


@pytest.mark.parametrize(
    "payload", [b'{"JobId":5}', b'\n{"JobId":"x","Priority":"high"}', b'{"JobId":"\xff"}']
)
def test_marked_objects_that_do_not_fit_are_refused(payload: bytes) -> None:
    with pytest.raises(RemoteError) as caught:
        decode_if_marked(payload, JobRequestHead, "JobId")
    assert caught.value.code == ErrorCode.BAD_PAYLOAD
    assert caught.value.message.startswith("JobRequest: ")


def test_heads_skip_what_they_do_not_need() -> None:
    raw = b'{"Status":"OK","OutputArchive":"not base64 at all!","Stdout":5}'
    assert decode_model(raw, JobResultHead) == JobResultHead("OK")
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(raw, type=JobResult)
