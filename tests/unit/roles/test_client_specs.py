from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from rollq import Client, Settings
from rollq.base.errors import (
    DeadlineError,
    DiskError,
    ErrorCode,
    LocalError,
    RollqError,
    StateError,
)
from rollq.base.ids import NIL_ID, guid_to_text
from rollq.base.jobs import JobOptions, JobSecret
from rollq.base.limits import INLINE_BYTES_MAX, PAYLOAD_BYTES_MAX
from rollq.roles.client.addresses import as_addresses
from rollq.roles.client.answers import error_of
from rollq.roles.client.jobs.options import Options, job_options, subject_of
from rollq.roles.client.jobs.specs import JobSpec, as_id, as_specs, body_of
from rollq.roles.client.jobs.supply import SettledSpec, SubmitMaker
from rollq.wire import messages as wire
from rollq.wire.models import InputFile, JobRequest, decode_model

ID = bytes(range(16))


def test_the_body_is_a_job_request() -> None:
    spec = JobSpec("calc", ["a", "b"], {"in/x": b"\x00\xff"})
    request = decode_model(body_of(spec, ID, "me"), JobRequest)
    assert request == JobRequest(
        guid_to_text(ID), "me", "calc", ("a", "b"), (InputFile("in/x", None, b"\x00\xff"),)
    )


def test_a_payload_is_the_body_as_it_is() -> None:
    assert body_of(JobSpec("calc", payload=b"\x00x"), ID, "me") == b"\x00x"
    with pytest.raises(LocalError) as caught:
        body_of(JobSpec("calc", ["a"], payload=b"x"), ID, "me")
    assert caught.value.code is ErrorCode.BAD_OPTIONS


def test_what_no_frame_carries_is_refused_with_figures() -> None:
    with pytest.raises(LocalError) as caught:
        body_of(JobSpec("calc", payload=bytes(PAYLOAD_BYTES_MAX + 1)), ID, "me")
    size = PAYLOAD_BYTES_MAX + 1
    told = f"the payload of 'calc' takes {size} bytes; at most {PAYLOAD_BYTES_MAX} fit"
    assert caught.value.message == told
    assert "file" in caught.value.hint
    assert len(body_of(JobSpec("calc", payload=bytes(PAYLOAD_BYTES_MAX)), ID, "me"))
    assert len(body_of(JobSpec("calc", ["x" * 100] * 1_000), ID, "me")) > INLINE_BYTES_MAX


@pytest.mark.parametrize("args", [[1], ["a", b"b"], 7, [None]])
def test_arguments_are_strings(args: Any) -> None:
    with pytest.raises(LocalError) as caught:
        body_of(JobSpec("calc", args), ID, "me")
    assert "payload" in caught.value.hint


@pytest.mark.parametrize("names", [["../x"], ["/x"], ["a", "A"], ["a", "a/b"], ["\ud800"]])
def test_files_that_no_worker_would_take_are_refused_at_once(names: list[str]) -> None:
    with pytest.raises(LocalError) as caught:
        body_of(JobSpec("calc", files=dict.fromkeys(names, b"")), ID, "me")
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert ascii(names[-1]) in caught.value.message


def test_one_string_is_one_argument() -> None:
    assert decode_model(body_of(JobSpec("calc", "abc"), ID, "me"), JobRequest).args == ("abc",)


def test_options_are_counted_in_milliseconds() -> None:
    made = job_options(
        {
            "queue": "q",
            "priority": 3,
            "delay": 1.5,
            "max_attempts": 2,
            "lease": 10,
            "run_limit": 0.0001,
            "run_limit_soft": 4,
            "expire": 5,
            "result_ttl": 6,
            "retry_base": 0.25,
            "retry_exit_codes": [7, 8],
            "worker": "w",
        }
    )
    assert made == JobOptions(3, 1_500, 2, 10_000, 4_000, 1, 5_000, 6_000, 250, (7, 8), "w")


def test_secrets_go_by_their_names() -> None:
    made = job_options({"secrets": {"TOKEN": "github", "KEY": "file:site.key"}, "env": {"A": "1"}})
    assert made is not None
    assert made.secrets == (JobSecret("KEY", "site.key", True), JobSecret("TOKEN", "github"))


@pytest.mark.parametrize(
    "secrets", [{"TOKEN": "s3cr/et"}, {"TOKEN": b"s3cret"}, "s3cret", ["s3cret"]]
)
def test_what_is_no_name_of_a_secret_is_refused_and_not_shown(secrets: Any) -> None:
    with pytest.raises(LocalError) as caught:
        job_options({"secrets": secrets})
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert "s3cr" not in str(caught.value)


def test_a_variable_is_a_secret_or_not() -> None:
    with pytest.raises(LocalError):
        job_options({"secrets": {"TOKEN": "github"}, "env": {"TOKEN": "1"}})


def test_needs_are_written_as_people_do_and_stored_in_one_way() -> None:
    made = job_options(
        {
            "resources": {"memory": "2G", "cpu": 1.5},
            "labels": ["zone=a", "!spot"],
            "limits": ["matlab", ("db", 2)],
            "sticky_key": "movie-7",
        }
    )
    assert made == JobOptions(
        resources=(("cpu", 1_500), ("memory", 2 * 1024**3 * 1_000)),
        labels=("!spot", "zone=a"),
        limits=(("db", 2), ("matlab", 1)),
        sticky_key="movie-7",
    )
    assert job_options({"resources": {}, "labels": [], "limits": [], "sticky_key": ""}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("resources", ["gpu"]),
        ("resources", {"gpu": None}),
        ("resources", {"gpu": 0}),
        ("labels", "gpu"),
        ("labels", [1]),
        ("labels", ["zone="]),
        ("limits", "matlab"),
        ("limits", [("db", "2")]),
        ("limits", ["db", "db"]),
        ("sticky_key", 7),
        ("sticky_key", "k" * 257),
    ],
)
def test_needs_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(LocalError) as caught:
        job_options(cast("Options", {name: value}))
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert caught.value.hint


def test_no_options_are_none() -> None:
    assert job_options({}) is None
    assert job_options({"queue": "q", "delay": 0}) is None


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 10},
        {"priority": "high"},
        {"delay": -1},
        {"delay": "1s"},
        {"delay": float("nan")},
        {"expire": float("inf")},
        {"expire": 1e300},
        {"delay": 400 * 86_400},
        {"max_attempts": 101},
        {"max_attempts": -1},
        {"retry_exit_codes": [2**70]},
        {"lease": 0.999},
        {"retry_exit_codes": ["1"]},
        {"retry_exit_codes": 3},
        {"retry_exit_codes": [0]},
        {"retry_exit_codes": [256]},
        {"colour": "red"},
        {"worker": "a\udcff"},
        {"sticky_key": "a\udcff"},
        {"queue": "a\udcff"},
        {"traceparent": "a\udcff"},
    ],
)
def test_bad_options_are_named(options: Any) -> None:
    with pytest.raises(LocalError) as caught:
        job_options(options)
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert next(iter(options)) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"max_attempts": 10**13}, "use 1 to 100"),
        ({"delay": float("inf")}, "give seconds, from 0 to 31622400 (366 days)"),
        ({"retry_exit_codes": 3}, "give a list of exit codes, each from 1 to 255: [75]"),
    ],
)
def test_the_hint_is_about_the_option(options: Any, hint: str) -> None:
    with pytest.raises(LocalError) as caught:
        job_options(options)
    assert caught.value.hint == hint


def test_ids_of_either_form() -> None:
    assert as_id(ID) == as_id(guid_to_text(ID)) == ID
    for bad in (NIL_ID, b"short", "no guid"):
        with pytest.raises(RollqError):
            as_id(bad)


def test_many_by_name_or_by_spec() -> None:
    named = list(as_specs("calc", ["a", ("b", "c"), b"d"], {"queue": "q"}))
    assert [(one.args, one.payload) for one in named] == [
        (("a",), None),
        (("b", "c"), None),
        ((), b"d"),
    ]
    assert all(one.options == {"queue": "q"} for one in named)
    specs = [JobSpec("x"), JobSpec("y")]
    assert list(as_specs(specs, None, {})) == specs
    with pytest.raises(LocalError):
        list(as_specs(specs, ["a"], {}))


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ("calc", "jobs is the name 'calc', and there are no arguments"),
        (5, "jobs is int"),
        ([JobSpec("x"), "y"], r"jobs\[1\] is str"),
    ],
)
def test_what_is_no_spec_is_a_type_error_that_names_it(jobs: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said) as caught:
        list(as_specs(jobs, None, {}))
    assert isinstance(caught.value, LocalError)
    assert "JobSpec" in caught.value.hint


def test_one_job_of_a_wrong_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="job is int") as caught:
        asyncio.run(Client("127.0.0.1:1").submit(5))  # type: ignore[arg-type]
    assert isinstance(caught.value, LocalError)


def test_addresses_in_a_list_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="addresses is list") as caught:
        Client(["127.0.0.1:5000"])  # type: ignore[arg-type]
    assert isinstance(caught.value, LocalError)
    assert "host:port,host:port" in caught.value.hint


def test_a_submit_that_nobody_answers_names_its_job() -> None:
    async def submit() -> None:
        async with Client("127.0.0.1:1") as client:
            await client.submit("calc", job_id=ID, timeout=0)

    with pytest.raises(DeadlineError, match=f"job {guid_to_text(ID)}"):
        asyncio.run(submit())


@pytest.mark.parametrize("bad", ["", " , ", "host", "host:0", "host:port"])
def test_addresses_are_checked(bad: str) -> None:
    with pytest.raises(LocalError) as caught:
        as_addresses(bad)
    assert caught.value.code is ErrorCode.BAD_ADDRESS


@pytest.mark.parametrize("bad", ["", "z", "host:0", "host:port", "a b:1"])
def test_the_address_of_a_new_member_is_checked(bad: str) -> None:
    with pytest.raises(LocalError) as caught:
        asyncio.run(Client("127.0.0.1:1").admin.add_member(7, bad))
    assert caught.value.code is ErrorCode.BAD_ADDRESS


def test_addresses_may_be_several() -> None:
    assert as_addresses("a:1, b:2,[::1]:3") == ("a:1", "b:2", "[::1]:3")


def test_refusals_become_errors_of_their_kind() -> None:
    ours = error_of(wire.Error(ID, int(ErrorCode.BAD_OPTIONS), "no", "do"))
    assert isinstance(ours, LocalError)
    assert (ours.code, ours.message, ours.hint) == (ErrorCode.BAD_OPTIONS, "no", "do")
    assert isinstance(error_of(wire.Error(ID, int(ErrorCode.JOB_CONFLICT), "")), StateError)
    full = error_of(wire.Error(ID, int(ErrorCode.DISK_FULL), "m:1: no room"))
    assert isinstance(full, StateError), "the disk is a member's"
    assert isinstance(error_of(wire.Error(ID, int(ErrorCode.DISK_FAILED), "")), DiskError)
    unknown = error_of(wire.Error(ID, 9_999, "words"))
    assert isinstance(unknown, StateError)
    assert "9999" in unknown.message
    assert "words" in unknown.message


def test_a_deadline_is_a_timeout_for_those_who_catch_that() -> None:
    error = DeadlineError(ErrorCode.TIMED_OUT, "late", "wait")
    assert isinstance(error, TimeoutError)
    assert str(error) == "timed_out (602): late; wait"
    assert error.retryable


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("args", JobSpec("calc", ["fine", "a\udcff"])),
        ("outputs", JobSpec("calc", outputs=["a\udcff"])),
        ("payload", JobSpec("calc", payload="a\udcff")),
        ("key", JobSpec("calc", key="a\udcff")),
        ("worker", JobSpec("calc", options={"worker": "a\udcff"})),
        ("SubmitJob", SettledSpec("calc", caches=("a\udcff",))),
    ],
)
def test_text_that_is_not_utf8_is_refused_by_its_name(name: str, spec: JobSpec) -> None:
    with pytest.raises(LocalError) as caught:
        SubmitMaker("me").make(spec)
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert name in caught.value.message
    assert "'a\\udcff'" in caught.value.message
    assert "UTF-8" in caught.value.hint


def test_a_client_id_is_utf8() -> None:
    with pytest.raises(LocalError, match=r"client_id: .* is not UTF-8"):
        Client("h:1", client_id="\udcff")


def test_a_payload_is_bytes_or_text_and_nothing_else() -> None:
    for payload in (bytearray(b"ab"), memoryview(b"ab"), "ab"):
        assert body_of(JobSpec("calc", payload=payload), ID, "me") == b"ab"
    for bad in (5, [1, 2, 3], {"a": 1}, 1.5):
        with pytest.raises(TypeError, match=f"the payload is {type(bad).__name__}") as caught:
            body_of(JobSpec("calc", payload=bad), ID, "me")  # type: ignore[arg-type]
        assert isinstance(caught.value, LocalError)
        assert "json.dumps" in caught.value.hint


def test_a_job_that_names_no_queue_goes_to_that_of_its_program() -> None:
    assert subject_of("calcA", {}) == "job.submit.calcA"
    assert subject_of("calc.py", {"priority": 3}) == "job.submit.calc_py"
    assert subject_of("calcA", {"queue": "default"}) == "job.submit.default"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"lease_ms": 5_000}, "settings is dict"),
        (None, "settings is NoneType"),
        (Settings(lease_ms="5"), "lease_ms is str"),  # type: ignore[arg-type]
        (Settings(max_attempts=True), "max_attempts is bool"),
        (Settings(lease_ms=1 << 70), "lease_ms is beyond 64 bits"),
    ],
)
def test_settings_of_a_wrong_type_are_refused_by_the_name_of_the_field(
    settings: Any, told: str
) -> None:
    with pytest.raises(LocalError, match=told) as caught:
        asyncio.run(Client("127.0.0.1:1").admin.set_settings(settings))
    assert caught.value.code is ErrorCode.BAD_OPTIONS
