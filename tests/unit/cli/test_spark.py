"""Spark for commands: its chatter is kept, its failures are told."""

from __future__ import annotations

import errno
import importlib
import os
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.spark import quiet_spark
from rollq.spark.pipeline.failures import as_rollq_error


class Session:
    """In the place of Spark's."""

    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def replace(monkeypatch: pytest.MonkeyPatch, start: Any) -> None:
    # The package hands out a function of the same name as the module.
    module = importlib.import_module("rollq.spark.session")
    monkeypatch.setattr(module, "session", start)


def test_what_spark_says_is_not_heard(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made = Session()

    def start(master: str, **conf: object) -> Session:
        os.write(2, b"WARN something\n")
        assert (master, conf) == ("local[1]", {"x": 1})
        return made

    replace(monkeypatch, start)
    with quiet_spark("local[1]", x=1) as spark:
        assert id(spark) == id(made)
        assert made.stops == 0
    assert made.stops == 1
    os.write(2, b"heard again\n")
    assert capfd.readouterr().err == "starting Spark\nheard again\n"


def test_an_interrupt_is_no_traceback_of_py4j(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    replace(monkeypatch, lambda master, **conf: Session())
    connection = SimpleNamespace(send_command=interrupted, socket=None, close=lambda *_: None)
    java = GatewayClient()
    monkeypatch.setattr(java, "_get_connection", lambda: connection)
    with pytest.raises(KeyboardInterrupt), quiet_spark("local[1]"):
        java.send_command("")
    assert caplog.records == []
    with pytest.raises(KeyboardInterrupt):
        java.send_command("")
    assert len(caplog.records) == 1  # the logs of others are as they were


def test_a_session_that_was_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Session()
    replace(monkeypatch, lambda master, **conf: made)
    # It is active in another thread of Java than the one that is asked.
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda _: None))
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    with quiet_spark("local[1]"):
        pass
    assert made.stops == 0


def test_if_it_does_not_start_its_last_words_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(master: str, **conf: object) -> Session:
        os.write(2, b"".join(b"line %d\n" % n for n in range(9)))
        raise RuntimeError("gateway\nexited")

    replace(monkeypatch, start)
    with pytest.raises(LocalError) as caught, quiet_spark("local[1]"):
        pass
    assert caught.value.code is ErrorCode.BAD_SETUP
    assert caught.value.message == "Spark does not start: gateway"
    assert caught.value.__notes__ == [f"line {n}" for n in range(4, 9)]


def test_what_is_missing_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(master: str, **conf: object) -> Session:
        raise LocalError(ErrorCode.BAD_SETUP, "no Java", "install one")

    replace(monkeypatch, start)
    with pytest.raises(LocalError, match="no Java"), quiet_spark("local[1]"):
        pass


def test_a_failure_of_spark_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Session()
    replace(monkeypatch, lambda master, **conf: made)
    with pytest.raises(LocalError, match="Spark failed") as caught, quiet_spark("local[1]"):
        raise PySparkRuntimeError("the executor is gone\nat somewhere")
    assert caught.value.message == "Spark failed: the executor is gone"
    assert made.stops == 1


class JavaError(Exception):
    """In the place of Py4JJavaError, whose text is the stack trace of Java."""

    def __str__(self) -> str:
        return (
            "An error occurred while calling o93.save.\n: org.apache.spark.SparkException: Job "
            "aborted.\n\tat org.apache\nCaused by: java.io.IOException: No space left on device\n"
        )


@pytest.mark.parametrize("kind", [JavaError, PySparkRuntimeError])
def test_a_full_disk_is_told_without_the_trace_of_java(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    replace(monkeypatch, lambda master, **conf: Session())
    with pytest.raises(LocalError) as caught, quiet_spark("local[1]"):
        raise kind(str(JavaError()))
    assert caught.value.code is ErrorCode.DISK_FULL
    assert caught.value.message == "cannot write the output: No space left on device"
    assert as_rollq_error(kind(str(JavaError()))).code is ErrorCode.DISK_FULL


def test_a_full_disk_behind_stdout_is_not_sparks(monkeypatch: pytest.MonkeyPatch) -> None:
    replace(monkeypatch, lambda master, **conf: Session())
    with pytest.raises(OSError, match="No space left"), quiet_spark("local[1]"):
        raise OSError(errno.ENOSPC, "No space left on device")
