"""Documents, tables, logs and job files."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from rollq.base.errors import LocalError, RemoteError
from rollq.base.jobs import JobOptions
from rollq.base.needs import WorkerLoad
from rollq.cli.health import load_findings
from rollq.cli.ids import digits_of, short_ids
from rollq.cli.job import job_fields, show_job
from rollq.cli.joblist import check_jobs, read_jobs
from rollq.cli.joblogs import Shown, nothing_text
from rollq.cli.logs import JsonLines, Lines
from rollq.cli.output import fitted, write_fields, write_table
from rollq.cli.progress import progress_bar
from rollq.cli.status import show_workers
from rollq.cli.submitting import save_files
from rollq.cli.waiting import follow
from rollq.documents.grid import queue_document, worker_document
from rollq.documents.jobs import job_document, listed_document, result_document
from rollq.grid import events
from rollq.grid.state import AttemptOutcome
from rollq.grid.views import RawEndView, RawJobView, RawQueueView, RawWorkerView
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.results.handles import Job
from rollq.roles.client.results.result import Result
from rollq.roles.client.results.streams import StreamPart
from rollq.wire import messages as wire
from rollq.wire.models import JobResult, StreamBlob, encode_model

JOB = bytes(range(16))
TEXT = "03020100-0504-0706-0809-0a0b0c0d0e0f"


def view(**fields: object) -> RawJobView:
    known: dict[str, object] = {
        "job_id": JOB,
        "client_id": "ann",
        "queue": "q",
        "exec_name": "calc",
        "state": "queued",
        "attempt": 0,
        "options": JobOptions(priority=3),
        "body_bytes": 7,
        "stamp_ms": 1_700_000_000_123,
    }
    return RawJobView(**(known | fields))  # type: ignore[arg-type]


def test_a_waiting_job_says_little() -> None:
    document = job_document(view())
    assert document["id"] == TEXT
    assert document["options"] == {"priority": 3}
    assert document["changed"].endswith(".123")
    assert not {"end", "worker", "attempts", "array"} & set(document)


def test_a_running_job_names_its_worker() -> None:
    document = job_document(
        view(state="assigned", worker_id=JOB, fence=4, lease_ms=9, cancel_requested=True)
    )
    assert document["state"] == "running"
    assert (document["worker"], document["fence"]) == (TEXT, 4)
    assert document["cancel_requested"] is True


def test_a_dead_job_tells_how_it_died() -> None:
    end = RawEndView(0, b"", 0, 0, 5, 6, 3, "no such exec", False)
    lost = AttemptOutcome(1, JOB, 3, 0, "no such exec", 0)
    document = job_document(view(state="dead", attempt=1, end=end, attempts=(lost,)))
    assert document["end"]["status"] == "DEAD"
    assert document["end"]["cause"] == "nacked"
    assert document["attempts"] == [{"attempt": 1, "cause": "nacked", "detail": "no such exec"}]
    assert json.dumps(document)


def test_output_that_cannot_be_written_is_told_in_words(tmp_path: Path) -> None:
    result = Result(wire.Result(JOB, "done"))
    result.__dict__["files"] = {"a.txt": b"1"}
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(LocalError, match="cannot be written"):
        asyncio.run(save_files(tmp_path, result))


def test_a_list_does_not_say_that_a_program_wrote_nothing() -> None:
    end = RawEndView(0, b"", 0, 0, 5, 6, 0, "", False)
    assert "stdout" in job_document(view(state="done", end=end))["end"]
    assert not {"stdout", "stderr"} & set(listed_document(view(state="done", end=end))["end"])
    assert listed_document(view()) == job_document(view())


def test_a_result_opens_what_the_worker_sent() -> None:
    report = encode_model(JobResult(TEXT, "ann", "calc", "OK", "out", "err"))
    document = result_document(Result(wire.Result(JOB, "done", 0, report, "calc")))
    assert (document["status"], document["stdout"], document["stderr"]) == ("OK", "out", "err")
    assert "files" not in document


@pytest.mark.parametrize(
    ("kept", "remark"),
    [
        (StreamBlob("00" * 32, 9), f"`rollq logs {TEXT}` shows all"),
        (StreamBlob("00" * 32, 4), "5 bytes were not kept"),
        (UNSET, "6 bytes were not kept"),
    ],
)
def test_output_that_is_not_kept_is_not_promised(
    capsys: pytest.CaptureFixture[str], kept: StreamBlob | UnsetType, remark: str
) -> None:
    whole = JobResult(TEXT, "ann", "calc", "OK", "end", stdout_size=9, stdout_blob=kept)
    report = encode_model(whole)
    end = RawEndView(0, report, 0, 0, 5, 6, 0, "", False)
    show_job(job_document(view(state="done", attempt=1, end=end)), as_json=False)
    assert f"--- stdout (the last 3 of 9 bytes; {remark})" in capsys.readouterr().out


def test_the_sum_of_queues_has_no_name() -> None:
    assert "name" not in queue_document(RawQueueView("", False, 1, 2, 3, 4, 5, 6))
    assert queue_document(RawQueueView("a", True, 1, 2, 3, 4, 5, 6))["running"] == 3
    assert queue_document(RawQueueView("a", True, 1, 2, 3, 4, 5, 6, 0, 2))["failed"] == 2


def test_tables_keep_a_row_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(["name", "count", "on"], [["a\nb", 1, True], ["c" * 200, 10, False]])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "count", "on"]
    assert first.split() == ["a", "b", "1", "yes"]
    assert second.startswith("c" * 200 + "     10")
    write_table(["name"], [])
    assert capsys.readouterr().out == "name\n"


def test_fields_that_say_nothing_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    write_fields({"a": 0, "bb": "", "ccc": None, "d": "x"})
    assert capsys.readouterr().out == "a  0\nd  x\n"


def test_progress_without_a_terminal_is_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("done") as advance:
        for count in range(101):
            advance(count, 100)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[-1] == "done: 100 of 100"
    with progress_bar("done", is_quiet=True) as advance:
        advance(1, 1)
    assert capsys.readouterr().err == ""


def test_log_lines_for_people_and_programs() -> None:
    record = logging.LogRecord("rollq.member", logging.WARNING, "", 0, "lost %s", ("x",), None)
    line = Lines().format(record)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} member  WARNING: lost x", line)
    row = json.loads(JsonLines().format(record))
    assert (row["level"], row["logger"], row["message"]) == ("warning", "rollq.member", "lost x")


def read(path: Path, text: str, exec_name: str = "", *, header: bool = False) -> list[JobSpec]:
    path.write_text(text, encoding="utf-8")
    return [spec for _, spec in read_jobs(path, exec_name, Options(queue="q"), header=header)]


def test_csv_rows_are_arguments(tmp_path: Path) -> None:
    specs = read(tmp_path / "a.csv", "a,b\n1,two words\n\n2,x\n", "calc", header=True)
    assert [(spec.exec_name, spec.args) for spec in specs] == [
        ("calc", ["1", "two words"]),
        ("calc", ["2", "x"]),
    ]
    (spec,) = read(tmp_path / "a.csv", "calc,1\n")
    assert (spec.exec_name, spec.args, spec.options) == ("calc", ["1"], {"queue": "q"})


def test_a_csv_file_of_a_spreadsheet_has_no_mark_in_its_first_argument(tmp_path: Path) -> None:
    (spec,) = read(tmp_path / "a.csv", "\ufeff1,2\n", "calc")
    assert spec.args == ["1", "2"]
    (spec,) = read(tmp_path / "a.jsonl", '\ufeff["1"]\n', "calc")
    assert spec.args == ["1"]


def test_a_quote_that_is_never_closed_is_told(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="line 2"):
        read(tmp_path / "a.csv", '1,2\n3,"4\n5,6\n', "calc")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('["show", true]', 'write each argument as a text or a number, as in ["true", 2]'),
        ('{"args": ["1", null]}', "write each argument as a text or a number"),
        ('{"args": "1"}', "write a list"),
        ('{"files": ["a"]}', "write names and paths"),
        ('{"options": 3}', "write names and values"),
        ('{"key": 3}', "write a text in quotes"),
        ('{"colour": 3}', "use exec, args, files, options and key"),
        ("3", "write a JSON object or a list"),
        ("[", "write a JSON object or a list"),
    ],
)
def test_a_bad_row_has_a_hint_that_fits(tmp_path: Path, line: str, hint: str) -> None:
    with pytest.raises(LocalError) as caught:
        read(tmp_path / "a.jsonl", line, "calc")
    assert f"({hint}" in caught.value.message


def test_every_bad_row_of_a_file_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    bad = ['["é", x]', '["1", 2', '{"exec": "a", "args": [[]]}', '{"exec": "/bin/ls"}']
    bad += ['{"exec": "a", "options": {"priority": 10}}', '["ok"]']
    path.write_text("\n".join(bad + ["{"] * 30), encoding="utf-8")
    with pytest.raises(LocalError) as caught:
        check_jobs(path, "calc", Options(), header=False)
    told = caught.value.message.splitlines()
    assert "35 invalid lines" in told[0]
    assert told[1].startswith("  line 1, column 7: JSON is malformed")
    assert told[2].startswith("  line 2, column 8: ")
    assert told[3].startswith("  line 3: ")
    assert "$.args[0]" in told[3]
    assert told[4].startswith("  line 4: no worker can have")
    assert told[5].startswith("  line 5: priority cannot be 10")
    assert told[-1] == "  and 15 more"
    assert len(told) == 22
    path.write_text('["1"]\n["2"]\n')
    assert check_jobs(path, "calc", Options(), header=False).count == 2


def test_tables_fit_a_terminal_by_cutting_their_widest_columns() -> None:
    rows = [["id", "exec", "detail"], ["6f9619ff", "calcA", "x" * 200], ["6f9619f0", "b", "short"]]
    cut = fitted(rows, 80)
    assert max(len("  ".join(row)) for row in cut) == 80
    assert [row[:2] for row in cut] == [row[:2] for row in rows]
    assert cut[1][2].endswith("…")
    assert fitted(rows, 500) == rows


def test_a_table_is_aligned_by_what_a_terminal_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """A Japanese character takes two columns there."""
    write_table(["name", "jobs"], [["夜間処理", 3], ["ab", 12]])
    assert capsys.readouterr().out == "name      jobs\n夜間処理     3\nab          12\n"
    (row,) = fitted([["夜間処理の仕事の名前", "x"]], 14)
    assert row == ["夜間処理の…", "x"]
    (row,) = fitted([["a夜間処理の仕事の名前", "x"]], 14)
    assert row == ["a夜間処理 …", "x"], "half of a character cannot be shown"


def test_a_task_that_is_listed_without_its_array_is_not_shortened_to_it() -> None:
    task = "01400740-10e5-eef7-fb09-921c00000001"
    assert short_ids([task]) == {task: "01400740..00000001"}


def test_ids_of_a_list_are_short_where_that_is_clear() -> None:
    alone = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
    twins = [f"aaaaaaaa-8b86-d011-b42d-00c00000000{number}" for number in range(2)]
    short = short_ids([alone, *twins])
    assert short == {
        alone: "6f9619ff",
        twins[0]: "aaaaaaaa..00000000",
        twins[1]: "aaaaaaaa..00000001",
    }
    for text, shown in short.items():
        first, last = digits_of(shown)
        assert text.replace("-", "").startswith(first)
        assert text.endswith(last)


def test_json_lines_are_objects_or_lists(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("data")
    text = (
        '["1", 2]\n'
        '{"exec": "other", "files": {"x": "in.txt"}, "options": {"queue": "z", "delay": 1.5}}\n'
    )
    first, second = read(tmp_path / "a.jsonl", text, "calc")
    assert (first.exec_name, first.args, first.options) == ("calc", ["1", "2"], {"queue": "q"})
    assert (second.exec_name, second.files) == ("other", {"x": tmp_path / "in.txt"})
    assert second.options == {"queue": "z", "delay": 1.5}


def test_every_line_has_a_key_or_none_has_and_no_two_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    specs = read(path, '{"exec": "a", "key": "x"}\n{"exec": "a", "key": "y"}\n')
    assert [spec.key for spec in specs] == ["x", "y"]
    assert [spec.key for spec in read(path, '{"exec": "a"}\n' * 2)] == ["", ""]
    for keys, fault in (
        (("x", "y", "x"), "line 3: same key as line 1"),
        (("x", ""), "line 2: some lines have a key"),
        (("", "", "x"), "line 3: some lines have a key"),
    ):
        lines = [json.dumps({"exec": "a", "key": key}) for key in keys]
        with pytest.raises(LocalError, match=fault):
            read(path, "\n".join(lines))


@pytest.mark.parametrize(
    "line",
    [
        '["1"]',
        "{",
        "7",
        '{"exec": "a", "frob": 1}',
        '{"exec": "a", "options": {"frob": 1}}',
        '{"exec": "a", "files": {"x": "none"}}',
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(LocalError) as caught:
        read(tmp_path / "a.jsonl", f'{{"exec": "a"}}\n{line}\n')
    assert "line 2" in caught.value.message
    assert "a.jsonl" in caught.value.message


def test_output_files_stay_in_their_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(wire.Result(JOB, "done"))
    result.__dict__["files"] = {"a/b.txt": b"1"}
    asyncio.run(save_files(tmp_path / "out", result, "line-3"))
    assert (tmp_path / "out" / "line-3" / "a" / "b.txt").read_bytes() == b"1"
    asyncio.run(save_files(None, result, "line-3"))
    result = Result(wire.Result(JOB, "done"))
    result.__dict__["files"] = {"c.txt": b"1", "../evil": b"2"}
    asyncio.run(save_files(tmp_path / "out", result, "line-3"))
    assert "evil" in capsys.readouterr().err
    with pytest.raises(RemoteError, match="evil"):
        asyncio.run(save_files(tmp_path / "out", result))
    assert not [*tmp_path.rglob("evil"), *tmp_path.rglob("c.txt")]


def test_every_type_of_row_can_be_asked_for() -> None:
    named = {
        value
        for name, value in vars(events).items()
        if name.isupper() and isinstance(value, str) and value.isidentifier()
    }
    assert set(events.EVENT_TYPES) == named


def test_a_job_of_a_file_knows_the_line_where_it_begins(tmp_path: Path) -> None:
    rows = tmp_path / "jobs.csv"
    rows.write_text('head\n1\n\n"two\nlines"\n3\n')
    found = [number for number, _ in read_jobs(rows, "calc", Options(), header=True)]
    assert found == [2, 4, 6]
    lines = tmp_path / "jobs.jsonl"
    lines.write_text('\n["1"]\n\n["2"]\n')
    found = [number for number, _ in read_jobs(lines, "calc", Options(), header=False)]
    assert found == [2, 4]


def test_people_are_told_what_is_known_of_a_job_and_nothing_else() -> None:
    assert not {"attempts", "exit code", "signal", "fence", "worker"} & known(job_document(view()))
    report = encode_model(JobResult(TEXT, "ann", "calc", "OK", data=b"12"))
    end = RawEndView(0, report, 0, 0, 5, 0, 0, "", False)
    ok = job_fields(job_document(view(state="done", attempt=1, end=end)))
    assert (ok["attempts"], ok["exit code"], ok["run time"]) == (1, 0, "5 ms")
    assert ok["value"] == f"2 bytes: rollq logs {TEXT} > FILE"
    assert ok["result"] == "not confirmed by its client"
    assert not ok["signal"]
    assert not ok["peak memory"]
    end = RawEndView(1, b"", 0, 11, 5, 3 * 1024**2, 0, "", True)
    failed = job_fields(job_document(view(state="done", attempt=1, end=end)))
    assert (failed["exit code"], failed["signal"]) == (139, "SIGSEGV (11)")
    assert (failed["peak memory"], failed["result"]) == ("3 MiB", "confirmed by its client")
    end = RawEndView(2, b"", 0, 0, 0, 0, 0, "rollq-cli", False)
    gone = job_fields(job_document(view(state="cancelled", end=end)))
    assert (gone["cancelled by"], gone["detail"]) == ("`rollq cancel`", None)
    assert not {"exit code", "run time"} & {name for name, value in gone.items() if value}


def known(document: dict[str, object]) -> set[str]:
    return {name for name, value in job_fields(document).items() if value}


class Written:
    """A job that wrote something, and ended well."""

    id = TEXT

    def __init__(self, data: bytes, attempts: int = 1) -> None:
        self._data = data
        self._attempts = attempts

    async def output(self) -> AsyncIterator[StreamPart]:
        yield StreamPart("stdout", self._data, 0, 1)

    async def result(self) -> Result:
        return Result(wire.Result(JOB, "done", attempt=self._attempts))


@pytest.mark.parametrize(
    ("data", "is_terminal", "shown"),
    [(b"6", True, b"6\n"), (b"6\n", True, b"6\n"), (b"6", False, b"6")],
)
def test_only_a_terminal_gets_a_line_end_that_was_not_written(
    data: bytes, is_terminal: bool, shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), write_through=True)
    monkeypatch.setattr(stdout, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr("sys.stdout", stdout)
    asyncio.run(follow(cast("Job", Written(data)), None, is_quiet=False))
    assert stdout.buffer.getvalue() == shown


@pytest.mark.parametrize("attempts", [(1, 2), (2,)])
def test_an_attempt_after_the_first_is_told_whatever_was_seen_of_the_first(
    attempts: tuple[int, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """Output of the first comes only while it runs, so it may be missing."""
    shown = Shown(as_json=False)
    for attempt in attempts:
        shown.show(StreamPart("stderr", b"out\n", 0, attempt))
    assert capfd.readouterr().err == "out\n" * (len(attempts) - 1) + "[attempt 2]\nout\n"


def test_an_attempt_that_wrote_nothing_is_told_at_the_end(
    capfd: pytest.CaptureFixture[str],
) -> None:
    job = Written(b"of the first\n", attempts=2)
    asyncio.run(follow(cast("Job", job), None, is_quiet=False))
    assert capfd.readouterr() == ("of the first\n", "[attempt 2]\n")


@pytest.mark.parametrize(
    ("stream", "is_over", "said"),
    [
        ("", True, "the job wrote nothing"),
        ("stderr", True, "the job wrote nothing to stderr"),
        ("stdout", False, "the job has written nothing to stdout so far"),
    ],
)
def test_what_was_asked_for_is_what_is_missing(stream: str, said: str, *, is_over: bool) -> None:
    assert nothing_text(stream, is_over=is_over) == said


def test_a_worker_that_its_cpu_cap_holds_back_says_so_beside_its_slots(
    capsys: pytest.CaptureFixture[str],
) -> None:
    calm = RawWorkerView(bytes(16), 1, name="calm", patterns=(">",), slots=4, held=())
    busy = RawWorkerView(
        bytes([1]) * 16, 1, name="busy", patterns=(">",), slots=4, held=(), is_capped=True
    )
    shown = [worker_document(one) for one in (calm, busy)]
    assert [one["cpu_capped"] for one in shown] == [False, True]
    show_workers(shown)
    lines = capsys.readouterr().out.splitlines()
    assert ["(CPU cap: 1)" in line for line in lines if "calm" in line or "busy" in line] == [
        False,
        True,
    ]


def test_a_worker_that_is_not_connected_is_not_called_ready() -> None:
    gone = RawWorkerView(bytes(16), 1, "gone", (">",), 4, (), connected=False)
    there = replace(gone, connected=True)
    not_told = replace(gone, connected=None)  # by a member that does not lead
    states = [worker_document(one)["state"] for one in (gone, there, not_told)]
    assert states == ["away", "ready", "ready"]
    assert worker_document(replace(gone, is_drained=True))["state"] == "drained"


def test_doctor_names_workers_that_are_short_of_memory_or_disk() -> None:
    def view(name: str, used: int, free: int) -> RawWorkerView:
        load = WorkerLoad(10, used, 1_000, 0, free)
        return RawWorkerView(bytes(16), 1, name, (">",), 4, (), load=load)

    silent = RawWorkerView(bytes(16), 1, "old", (">",), 4, ())
    fine = view("fine", 900, 2**40)
    assert load_findings([silent, fine]) == []
    told = [found.what for found in load_findings([silent, view("a", 990, 2**40), view("b", 1, 9)])]
    assert told == [
        "memory is nearly used up on a",
        "less than 1 GiB of disk is free on b",
    ]
