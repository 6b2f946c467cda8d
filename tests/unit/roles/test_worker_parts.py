"""The small parts of the worker's shell, each by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from rollq.base.errors import LocalError, StateError
from rollq.base.jobs import Status
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.roles.worker import guard_main
from rollq.roles.worker.app import load_apps, raised, returned
from rollq.roles.worker.capture import Tail
from rollq.roles.worker.cpu import CALM_SAMPLES, CpuCap
from rollq.roles.worker.execs import ExecDir
from rollq.roles.worker.fitting import fit, set_stream
from rollq.roles.worker.outputs import ExecutionEnd
from rollq.roles.worker.setup import NodeSetup
from rollq.roles.worker.signals import CpuBusy, CpuOk
from rollq.wire.messages import AssignJob
from rollq.wire.models import JobResult, decode_model
from tests.effort import examples

JOB = AssignJob(bytes(15) + b"\x01", 1, 1, 1_000, "q", "calc", b"", None, "me")


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 50))
def test_a_tail_is_the_end(chunks: list[bytes], bytes_max: int) -> None:
    tail = Tail(bytes_max)
    for chunk in chunks:
        tail.feed(chunk)
    whole = b"".join(chunks)
    assert (tail.end(), tail.total) == (whole[-bytes_max:], len(whole))


STREAM = st.one_of(st.text(max_size=50).map(str.encode), st.binary(max_size=50))
DATA = st.sampled_from([UNSET, b"d" * 70_000, b"d" * 30_000])


@settings(max_examples=examples(60))
@given(STREAM, STREAM, DATA, st.booleans())
def test_a_result_fits_and_nothing_of_it_is_cut(
    out: bytes, err: bytes, data: bytes | UnsetType, is_value: bool
) -> None:
    wholes = {"stdout": out * 600, "stderr": err * 300}
    ending = ExecutionEnd(data=data, is_value=is_value)
    for name, whole in wholes.items():
        set_stream(ending, name, whole, len(whole))
    encoded = fit(JOB, ending, as_blobs=True)
    assert len(encoded) <= INLINE_BYTES_MAX
    result = decode_model(encoded, JobResult)
    assert (result.status, ending.status) == ("OK", Status.OK)
    separate = dict(ending.separate)
    for name, whole in wholes.items():
        text, exact = getattr(result, name), getattr(result, f"{name}_bytes")
        has = text.encode() if exact is UNSET else exact
        assert text == has.decode(errors="replace")
        if name in separate:
            assert separate[name] == whole
            assert getattr(result, f"{name}_size") == len(whole)
            assert whole.endswith(has)
        else:
            assert has == whole
            assert getattr(result, f"{name}_size") is UNSET
    assert separate.get("data", result.data) == data


@settings(max_examples=examples(60))
@given(
    STREAM,
    STREAM,
    st.sampled_from([None, b"z" * 60_000, b"z" * 100]),
    DATA,
    st.booleans(),
)
def test_without_blobs_a_result_is_cut_and_says_so(
    out: bytes, err: bytes, archive: bytes | None, data: bytes | UnsetType, is_value: bool
) -> None:
    wholes = {"stdout": out * 3_000, "stderr": err * 300}
    ending = ExecutionEnd(archive=archive, data=data, is_value=is_value)
    for name, whole in wholes.items():
        set_stream(ending, name, whole, len(whole))
    encoded = fit(JOB, ending, as_blobs=False)
    assert len(encoded) <= INLINE_BYTES_MAX
    assert ending.separate == ()
    result = decode_model(encoded, JobResult)
    for name, whole in wholes.items():
        text, exact = getattr(result, name), getattr(result, f"{name}_bytes")
        has = text.encode() if exact is UNSET else exact
        assert whole.endswith(has)
        if has != whole:
            assert getattr(result, f"{name}_size") == len(whole)
            assert f"{name} is cut to fit" in str(result.note)
    is_half = data != result.data or (is_value and result.stdout_size is not UNSET)
    assert (ending.status == Status.FAILED) is is_half, "half a value is none"
    assert (result.status == "FAILED") is is_half


def test_programs_are_found_by_name_then_exe_then_suffix(tmp_path: Path) -> None:
    def add(name: str, mode: int = 0o755) -> None:
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)

    execs = ExecDir(tmp_path)
    for name in ("absent", "..", ".", "a/b", "", "x" * 65, "a b"):
        with pytest.raises(StateError):
            execs.find(name)
    add("calc.py", 0o644)
    with pytest.raises(StateError, match="not executable") as caught:
        execs.find("calc")
    assert caught.value.hint == "chmod +x calc.py"
    (tmp_path / "calc.py").chmod(0o755)
    assert execs.find("calc") == str(tmp_path / "calc.py")
    assert execs.names() == {"calc", "calc.py"}
    add("calc.sh")
    assert execs.names() == {"calc.py", "calc.sh"}
    with pytest.raises(StateError, match="several"):
        execs.find("calc")
    add("calc.exe")
    add("plain", 0o644)
    add("not a name", 0o644)
    assert execs.listing() == (["calc.exe", "calc.py", "calc.sh"], ["plain"])
    assert ExecDir(None).listing() == ExecDir(tmp_path / "gone").listing() == ([], [])
    assert execs.names() == {"calc", "calc.py", "calc.sh", "calc.exe"}
    assert execs.find("calc") == str(tmp_path / "calc.exe")
    add("calc")
    assert execs.find("calc") == str(tmp_path / "calc")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StateError):
        execs.find("folder")
    assert ExecDir(None).names() == ExecDir(tmp_path / "gone").names() == set()
    with pytest.raises(StateError, match="no exec directory"):
        ExecDir(None).find("calc")
    with pytest.raises(StateError, match="cannot be read"):
        ExecDir(tmp_path / "gone").find("calc")


@pytest.mark.parametrize(
    "change",
    [
        {"addresses": ()},
        {"slots": 0},
        {"slots": 100_000},
        {"ahead": -1},
        {"cpu_cap": 0.05},
        {"cpu_cap": 0.99},
        {"patterns": ()},
        {"name": "x" * 1_000},
        {"name": "a\udcff"},
        {"patterns": ("a\udcff",)},
        {"apps": ("a",) * 100},
        {"exec_dir": Path("no/such/place")},
    ],
)
def test_a_setup_that_cannot_be_meant_is_refused(change: dict[str, object]) -> None:
    fields: dict[str, object] = {"addresses": ("h:1",)}
    NodeSetup(**fields).check()  # type: ignore[arg-type]
    with pytest.raises(LocalError):
        NodeSetup(**(fields | change)).check()  # type: ignore[arg-type]


def test_the_cpu_cap_tells_changes_only() -> None:
    cap = CpuCap(0.75)
    said = [cap.judge(load) for load in (0.1, 0.76, 0.9, 0.75, 0.2)]
    assert said == [None, CpuBusy(), None, CpuOk(), None]
    assert cap.sample() in (None, CpuBusy())
    assert CpuCap(1.0).sample() is None


def test_the_cpu_cap_says_once_that_it_holds_jobs_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "rollq.worker")
    cap = CpuCap(0.75)
    for load in (0.9, 0.1, 0.9, 0.8):  # it swings
        cap.judge(load)
    (said,) = caplog.messages
    assert "at 90 %, above the cap of 75 %" in said
    for _ in range(3 * CALM_SAMPLES):
        cap.judge(0.2)
    assert len(caplog.messages) == 2
    assert "below the cap" in caplog.messages[1]
    cap.judge(0.9)
    assert len(caplog.messages) == 3


def test_what_functions_return_and_raise() -> None:
    assert returned(None) == ExecutionEnd()
    assert returned("text").stdout == "text"
    assert returned(bytearray(b"raw")).data == b"raw"
    assert returned([1, {"a": None}]).stdout == '[1,{"a":null}]'
    assert returned(object()).status == Status.FAILED
    assert "surrogates not allowed" in returned("\ud800").stderr
    assert raised(ValueError("\ud800é")).stderr == "ValueError: \\ud800é\n"
    try:
        raise KeyError("gone")
    except KeyError as error:
        ending = raised(error)
    assert (ending.status, ending.exit_code) == (Status.FAILED, 1)
    assert "KeyError: 'gone'" in ending.stderr
    assert "test_worker_parts.py" in ending.stderr


def test_an_app_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_app.py").write_text("\n1 / 0\n")
    (tmp_path / "leaving_app.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "sound_app.py").touch()
    (tmp_path / "lacking_app.py").write_text("import no_such_module_of_mine\n")
    (tmp_path / "bad_name_app.py").write_text("from rollq import task\ntask('a b')(print)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*os.sys.path])  # type: ignore[attr-defined]
    with pytest.raises(LocalError, match=r"broken_app\.py, line 2\)") as told:
        load_apps(["broken_app"])
    assert "'broken_app' cannot be imported: ZeroDivisionError: " in told.value.message
    assert "python -c 'import broken_app'" in told.value.hint
    with pytest.raises(LocalError, match=r"SystemExit: 3 \(.*leaving_app\.py, line 1\)"):
        load_apps(["leaving_app"])
    with pytest.raises(LocalError, match=r"lacking_app\.py, line 1\); correct it"):
        load_apps(["lacking_app"])
    for name in ("not_there", "sound_app.py", "./sound_app.py", "not_there.either"):
        with pytest.raises(LocalError, match="name a module as in") as told:
            load_apps([name])
        assert "line" not in told.value.message
    with pytest.raises(LocalError, match="cannot name a task"):
        load_apps(["bad_name_app"])


def test_the_guard_finds_processes_by_their_mark() -> None:
    own = Path("/proc/self/environ").read_bytes().split(b"\0")[0]
    assert os.getpid() not in guard_main.marked(own), "it never finds itself"
    assert guard_main.marked(b"ROLLQ_WORKER=nobody-has-this") == []
