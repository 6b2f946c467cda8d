"""What functions return and what programs write comes back whole, byte by byte, of any size."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq import BlockingClient, Client, ErrorCode, Executor, LocalError, Result
from rollq.roles.client.results.streams import StreamPart
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program

ALL_BYTES = bytes(range(256))
LATIN = b"".join(b"caf\xe9 line %d\n" % number for number in range(3_000))
MIB = 1024 * 1024
MUCH = 100 * MIB
WAIT = 'while [ ! -e "$1" ]; do sleep 0.02; done'


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    directory = tmp_path_factory.mktemp("values")
    execs = directory / "exec"
    execs.mkdir()
    (directory / "bytes").write_bytes(ALL_BYTES)
    (directory / "latin").write_bytes(LATIN)
    write_program(directory, "small", f"cat {directory}/bytes; cat {directory}/bytes >&2")
    write_program(directory, "latin", f"cat {directory}/latin")
    write_program(directory, "bells", "head -c 20000 /dev/zero | tr '\\0' '\\7'")
    write_program(directory, "both", f"head -c 15000 {directory}/latin; cat {directory}/latin >&2")
    write_program(directory, "much", f"head -c {MUCH} /dev/zero | tr '\\0' x; echo end >&2")
    write_program(directory, "waits", f"printf one; {WAIT}; echo two")
    write_program(directory, "burst", f"head -c {3 * MIB} /dev/zero; echo; {WAIT}; echo two")
    write_program(directory, "code", 'exit "$1"')
    write_program(directory, "killed", "kill -9 $$")
    write_program(directory, "makes", "echo made > made.txt")
    with SmallGrid(directory, "tests.integration.sample_app") as running:
        yield running


@pytest.fixture
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.address) as running:
        yield running


def ended(client: BlockingClient, name: str, *args: str) -> Result:
    return client.submit(name, args).result(DEADLINE_S).raise_for_status()


# --- values of functions


@pytest.mark.parametrize("name", ["big_bytes", "bytes_in_loop"])
@pytest.mark.parametrize("size", [1_024, 49_152, 60_160, 70_144, 6 * MIB])
def test_bytes_that_a_function_returns_come_back_whole(
    client: BlockingClient, name: str, size: int
) -> None:
    result = ended(client, name, str(size))
    assert result.value == ALL_BYTES * (size // 256)


@pytest.mark.parametrize("name", ["big_list", "big_in_loop"])
@pytest.mark.parametrize("count", [10, 20_000, 1_000_000])
def test_json_that_a_function_returns_comes_back_whole(
    client: BlockingClient, name: str, count: int
) -> None:
    assert ended(client, name, str(count)).json() == list(range(count))


@pytest.mark.parametrize("size", [20_000, 70_000, 3_000_000])
def test_text_that_a_function_returns_comes_back_whole(client: BlockingClient, size: int) -> None:
    result = ended(client, "big_text", str(size))
    assert result.value == result.stdout == "é\x07" * (size // 2)
    assert result.whole_stdout.read() == result.stdout_bytes


def test_large_values_come_through_maps_and_futures(
    grid: SmallGrid, client: BlockingClient
) -> None:
    (mapped,) = client.map("big_list", ["20000"])
    assert mapped.json() == list(range(20_000))
    with Executor(grid.address, reads=Result.json) as executor:
        assert executor.submit("big_list", "20000").result(DEADLINE_S) == list(range(20_000))
    with Executor(grid.address) as executor:
        assert executor.submit("big_bytes", "70144").result(DEADLINE_S) == ALL_BYTES * 274


def test_in_the_event_loop_a_large_value_is_loaded_first(grid: SmallGrid) -> None:
    async def story() -> None:
        async with Client(grid.address) as client:
            result = await (await client.submit("big_list", ["20000"])).result(DEADLINE_S)
            for read in (lambda: result.value, lambda: result.stdout, result.json):
                with pytest.raises(LocalError) as caught:
                    read()
                assert "await result.aload() first" in caught.value.hint
            assert (await result.aload()).json() == list(range(20_000))

    asyncio.run(story())


# --- streams of programs


def test_bytes_of_a_short_stream_are_exact(client: BlockingClient) -> None:
    result = ended(client, "small")
    assert result.stdout_bytes == result.stderr_bytes == ALL_BYTES
    assert result.whole_stdout.read() == result.value == ALL_BYTES
    assert result.stdout == ALL_BYTES.decode(errors="replace")


def test_bytes_of_a_long_stream_are_exact(client: BlockingClient) -> None:
    result = ended(client, "latin")
    assert result.stdout_bytes == result.value == LATIN
    assert LATIN.decode(errors="replace").endswith(result.stdout_tail)
    both = ended(client, "both")
    assert (both.stdout_bytes, both.stderr_bytes) == (LATIN[:15_000], LATIN)


def test_text_that_is_long_as_json_is_whole(client: BlockingClient) -> None:
    assert ended(client, "bells").stdout == "\x07" * 20_000


@pytest.mark.parametrize(("name", "whole"), [("latin", LATIN), ("small", ALL_BYTES)])
def test_what_is_not_text_is_shown_once(client: BlockingClient, name: str, whole: bytes) -> None:
    job = client.submit(name)
    streams = (job.output(), client.output(job.id), client.output(job.id, follow=False))
    job.result(DEADLINE_S)
    for parts in (*streams, job.output()):
        assert said(parts) == whole


def said(parts: Iterator[StreamPart]) -> bytes:
    seen = b""
    for part in parts:
        assert part.skipped == 0
        seen += part.data if part.stream == "stdout" else b""
    return seen


def test_a_burst_is_followed_whole_while_the_job_runs(
    client: BlockingClient, tmp_path: Path
) -> None:
    job = client.submit("burst", [str(tmp_path / "go")])
    seen = b""
    for part in job.output():
        assert (part.offset, part.skipped) == (len(seen), 0)
        seen += part.data
        if len(seen) == 3 * MIB + 1:
            (tmp_path / "go").touch()  # it runs until all that it wrote was seen
    assert seen == bytes(3 * MIB) + b"\ntwo\n"


# --- the command line


def rollq(grid: SmallGrid, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rollq", *arguments],
        env=os.environ | {"ROLLQ_SERVERS": grid.address, "ROLLQ_TIMEOUT": "60"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "whole"),
    [
        (("small",), ALL_BYTES),
        (("latin",), LATIN),
        (("big_bytes", "70144"), ALL_BYTES * 274),
        (("big_list", "3"), b"[0,1,2]"),
    ],
)
def test_submit_and_wait_writes_what_was_written(
    grid: SmallGrid, arguments: tuple[str, ...], whole: bytes
) -> None:
    done = rollq(grid, "submit", *arguments, "--wait")
    assert (done.returncode, done.stdout) == (0, whole)
    assert done.stderr == (ALL_BYTES if arguments == ("small",) else b"")


def test_submit_and_wait_writes_100_mb(grid: SmallGrid) -> None:
    done = rollq(grid, "submit", "much", "--wait")
    assert (done.returncode, done.stderr) == (0, b"end\n")
    assert len(done.stdout) == MUCH
    assert done.stdout.count(b"x") == MUCH


def test_submit_and_wait_writes_while_the_job_runs(grid: SmallGrid, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "rollq", "submit", "waits", str(tmp_path / "go"), "--wait"],
        env=os.environ | {"ROLLQ_SERVERS": grid.address, "ROLLQ_TIMEOUT": "60"},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(3) == b"one"
        (tmp_path / "go").touch()
        assert process.stdout.read() == b"two\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "simple"),
    [
        (("code", "0"), 0, 0),
        (("code", "7"), 7, 1),
        (("killed",), 128 + signal.SIGKILL, 1),
        (("fails",), 1, 1),
        (("code", "0", "--expire", "0.001", "--delay", "0.1"), 125, 1),
        (("code", "0", "--delay", "3600", "--wait-timeout", "0.1"), 124, 3),
    ],
)
def test_the_exit_code_is_that_of_the_program(
    grid: SmallGrid, arguments: tuple[str, ...], code: int, simple: int
) -> None:
    for rule, expected in (("program", code), ("simple", simple)):
        done = rollq(grid, "submit", *arguments, "--wait", "--exit-code", rule)
        assert done.returncode == expected, done.stderr
        assert done.stdout == b""
        assert bool(done.stderr) is bool(expected), "why it failed is told on stderr"


def test_a_job_that_was_cancelled_has_an_exit_code_of_its_own(grid: SmallGrid) -> None:
    own = "11111111-2222-3333-4444-666666666666"
    with BlockingClient(grid.address, client_id="canceller") as client:
        job = client.submit("code", ["0"], job_id=own, delay=3600)
        assert job.cancel()
    asked = ("code", "0", "--id", own, "--client-id", "canceller", "--delay", "3600", "--wait")
    assert rollq(grid, "submit", *asked).returncode == 143


def test_notes_are_told_on_stderr(grid: SmallGrid, tmp_path: Path) -> None:
    done = rollq(grid, "submit", "makes", "--output", "*.nope", "--wait", "--save", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"no output fits '*.nope'" in done.stderr


def test_a_document_has_all_of_it(grid: SmallGrid) -> None:
    latin = json.loads(rollq(grid, "submit", "latin", "--wait", "--json").stdout)
    assert base64.b64decode(latin["stdout_base64"]) == LATIN
    assert latin["stdout"] == LATIN.decode(errors="replace")
    listed = json.loads(rollq(grid, "submit", "big_list", "20000", "--wait", "--json").stdout)
    assert json.loads(listed["stdout"]) == list(range(20_000))
    assert "stdout_size" not in listed
    view = json.loads(rollq(grid, "job", listed["id"], "--json").stdout)["end"]
    assert listed["stdout"].endswith(view["stdout"]), "a view shows the end"
    assert view["stdout_size"] == len(listed["stdout"])
    data = json.loads(rollq(grid, "submit", "big_bytes", "512", "--wait", "--json").stdout)
    assert base64.b64decode(data["data_base64"]) == ALL_BYTES * 2


def test_a_result_that_is_gone_is_an_error_and_no_half(client: BlockingClient) -> None:
    result = ended(client, "big_list", "20000")
    alone = Result(result._message)
    with pytest.raises(LocalError) as caught:
        alone.json()
    assert caught.value.code is ErrorCode.BAD_SETUP


def test_bytes_of_a_function_are_had_after_its_end(grid: SmallGrid, tmp_path: Path) -> None:
    for count in ("512", "70144"):
        shown = rollq(grid, "submit", "big_bytes", count, "--wait", "--json").stdout
        job = json.loads(shown)["id"]
        whole = ALL_BYTES * (int(count) // 256)
        assert rollq(grid, "logs", job).stdout == whole
        assert f"{count} bytes: rollq logs {job}" in rollq(grid, "job", job).stdout.decode()
        told = rollq(grid, "fetch", job, "--save", str(tmp_path)).stderr.decode()
        assert f"{count} bytes: rollq logs {job}" in told


def test_an_argument_that_does_not_fit_is_told_without_frames_of_ours(grid: SmallGrid) -> None:
    failed = rollq(grid, "submit", "typed", "x", "--wait")
    assert failed.returncode == 1
    line, *rest = failed.stderr.decode().splitlines()
    assert line == "TypeError: argument 'number' must be int, and 'x' is not"
    assert len(rest) == 1, "how it ended"
