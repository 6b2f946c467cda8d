"""How commands find a server that runs, and do not find one that is gone."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.spark import serving
from rollq.spark.pipeline.failures import store_error
from rollq.spark.pipeline.manifest import FOLDER

ANNOUNCES = """
import sys
import time
from pathlib import Path
from rollq.spark.serving import announcing
with announcing(Path(sys.argv[1]), {}) as announce:
    announce("sc://localhost:1/;token=a")
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir()
    return tmp_path


def test_a_server_is_found_from_when_it_is_ready_until_it_ends(tables: Path) -> None:
    assert serving.find_server(tables, {}) == ""
    with serving.announcing(tables, {}) as announce:
        assert serving.find_server(tables, {}) == ""
        announce("sc://localhost:7/;token=x")
        assert serving.find_server(tables, {}) == "sc://localhost:7/;token=x"
        mode = (tables / FOLDER / "server.json").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
    assert serving.find_server(tables, {}) == ""
    with serving.announcing(tables, {}) as announce:
        announce("sc://localhost:8/;token=y")
        assert serving.find_server(tables, {}) == "sc://localhost:8/;token=y"


def test_one_that_was_killed_is_not_found(tables: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ANNOUNCES, tables], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert serving.find_server(tables, {}) == "sc://localhost:1/;token=a"
        with pytest.raises(DiskError) as caught, serving.announcing(tables, {}):
            pass
        assert caught.value.code is ErrorCode.DISK_BUSY
        process.kill()
    assert (tables / FOLDER / "server.json").read_bytes() != b""
    assert serving.find_server(tables, {}) == ""


def test_one_of_another_machine_is_not_found(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving.announcing(tables, {}) as announce:
        announce("sc://localhost:7/;token=x")
        monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
        assert serving.find_server(tables, {}) == ""


def test_tables_at_a_url_have_it_in_the_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with serving.announcing("s3a://bucket/lake", {}) as announce:
        announce("sc://localhost:7/;token=x")
        assert serving.find_server("s3a://bucket/lake", {}) == "sc://localhost:7/;token=x"
        assert serving.find_server("s3a://bucket/other", {}) == ""
    [note] = (tmp_path / "rollq" / "serve").iterdir()
    assert note.stat().st_mode & 0o077 == 0


def test_the_same_relative_folder_elsewhere_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of Iceberg and Delta need not have the folder in which the address is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for place in ("here", "there"):
        (tmp_path / place / "lake").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    with serving.announcing("lake", {}) as announce:
        announce("sc://localhost:7/;token=x")
        assert serving.find_server("./lake", {}) == "sc://localhost:7/;token=x"
        assert serving.find_server(tmp_path / "here" / "lake", {}) == "sc://localhost:7/;token=x"
        monkeypatch.chdir(tmp_path / "there")
        assert serving.find_server("lake", {}) == ""


def test_catalogs_of_one_name_are_told_apart_by_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers over both run at once, and each client finds its own: not that of the other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    mine, yours = ({"spark.sql.catalog.lake.uri": f"http://{host}"} for host in ("a", "b"))
    with serving.announcing("lake.rollq", mine) as announce:
        announce("sc://localhost:1/;token=mine")
        assert serving.find_server("lake.rollq", yours) == ""
        assert serving.find_server("lake.rollq", {}) == "sc://localhost:1/;token=mine"
        with serving.announcing("lake.rollq", yours) as announce_yours:
            announce_yours("sc://localhost:2/;token=yours")
            assert serving.find_server("lake.rollq", mine) == "sc://localhost:1/;token=mine"
            other = {"spark.sql.shuffle.partitions": "1"}
            assert serving.find_server("lake.rollq", yours | other) == (
                "sc://localhost:2/;token=yours"
            )
            assert serving.find_server("lake.rollq", {}) == ""  # it could be either
            with pytest.raises(DiskError), serving.announcing("lake.rollq", mine | other):
                pass
        defaults = "# catalogs\nspark.sql.catalog.lake.uri = http://a\nspark.executor.cores 2\n"
        (tmp_path / "spark-defaults.conf").write_text(defaults)
        assert serving.find_server("lake.rollq", {}) == "sc://localhost:1/;token=mine"
        (tmp_path / "spark-defaults.conf").write_text(defaults.replace("//a", "//b"))
        assert serving.find_server("lake.rollq", {}) == ""


def test_a_user_without_a_home_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert serving.find_server("s3a://bucket/lake", {}) == ""
    with (
        pytest.raises(DiskError, match="home directory"),
        serving.announcing("s3a://bucket/lake", {}),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / FOLDER / "server.json").mkdir(parents=True)
    with pytest.raises(DiskError) as caught, serving.announcing(tmp_path, {}):
        pass
    assert caught.value.code is ErrorCode.DISK_FAILED


def test_a_passing_failure_is_outlasted_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    fails = iter([True] * 8)

    def work() -> str:
        if next(fails, False):
            raise RuntimeError("Caused by: software.amazon.x.S3Exception: (Status Code: 503)")
        return "done"

    told: list[serving.Outage] = []
    assert serving.outlasting(work, told.append) == "done"
    assert waited == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert [each.retry_s for each in told] == [*waited, 0.0]
    assert [each.error and each.error.code for each in told] == [
        *[ErrorCode.UNREACHABLE] * 8,
        None,
    ]
    assert serving.outlasting(work, told.append) == "done"
    assert len(told) == 9  # nothing failed


def test_a_bug_is_not_taken_for_a_store_that_fails() -> None:
    told: list[serving.Outage] = []
    with pytest.raises(KeyError):
        serving.outlasting(lambda: dict[str, str]()["batch"], told.append)
    assert not told


S3 = "software.amazon.awssdk.services.s3.model.S3Exception"
PLACE = "getFileStatus on s3a://lake/tables/rollq_batches/_delta_log"
CALL = "An error occurred while calling o76.sql.\n: "


@pytest.mark.parametrize(
    ("error", "code", "cause"),
    [
        (
            RuntimeError(
                f"{CALL}org.apache.hadoop.fs.s3a.AWSServiceThrottledException: {PLACE}: {S3}: "
                "Service Unavailable (Service: S3, Status Code: 503)\n\tat org.apache.hadoop.X.y"
            ),
            ErrorCode.UNREACHABLE,
            f"AWSServiceThrottledException: {PLACE}: S3Exception: "
            "Service Unavailable (Service: S3, Status Code: 503)",
        ),
        (
            RuntimeError(
                f"{CALL}org.apache.iceberg.jdbc.UncheckedSQLException: Failed to load table\n"
                "\tat org.apache.iceberg.X.y\nCaused by: java.sql.SQLException: locked\n\tat a.b"
            ),
            ErrorCode.UNREACHABLE,
            "SQLException: locked",
        ),
        (
            RuntimeError(f"{CALL}{S3}: Forbidden (Service: S3, Status Code: 403)"),
            ErrorCode.BAD_CREDENTIALS,
            "S3Exception: Forbidden (Service: S3, Status Code: 403)",
        ),
        (
            RuntimeError(f"{CALL}java.lang.ClassNotFoundException: org.example.Catalog"),
            ErrorCode.BAD_SETUP,
            "ClassNotFoundException: org.example.Catalog",
        ),
        (ConnectionError(), ErrorCode.DISK_FAILED, "ConnectionError"),
        (PermissionError(13, "denied"), ErrorCode.BAD_CREDENTIALS, "[Errno 13] denied"),
    ],
)
def test_why_tables_cannot_be_read(error: Exception, code: ErrorCode, cause: str) -> None:
    found = store_error(error)
    assert (found.code, found.message.partition(": ")[2]) == (code, cause)
    assert found.retryable == (code in (ErrorCode.UNREACHABLE, ErrorCode.DISK_FAILED))


def test_an_error_of_ours_says_itself_why() -> None:
    gone = LocalError(ErrorCode.BAD_OPTIONS, "lake holds no tables")
    assert store_error(gone) is gone


def test_a_failure_that_no_retry_mends_is_raised() -> None:
    def work() -> None:
        raise RuntimeError("java.nio.file.AccessDeniedException: s3a://lake: InvalidAccessKeyId")

    told: list[serving.Outage] = []
    with pytest.raises(LocalError) as caught:
        serving.outlasting(work, told.append)
    assert caught.value.code is ErrorCode.BAD_CREDENTIALS
    assert caught.value.message == (
        "the tables may not be read: AccessDeniedException: s3a://lake: InvalidAccessKeyId"
    )
    assert told == []


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(LocalError, match="port") as caught:
            serving.usable_port(taken.getsockname()[1])
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert serving.usable_port(0) > 0


def test_the_token_is_told_to_spark_alone_and_not_for_long() -> None:
    with serving.with_token() as token:
        assert os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == token
        assert token not in str(serving.connect_settings(15002))
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN" not in os.environ
