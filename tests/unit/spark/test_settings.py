"""Settings of a session that are changed for a while."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from rollq.spark.pipeline.settings import changed


def test_an_interrupt_that_cuts_the_connection_to_java_stays_an_interrupt() -> None:
    values = {"a": "1"}

    def cut(*_: object) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    conf = SimpleNamespace(get=values.get, set=values.__setitem__, unset=cut)
    spark: Any = SimpleNamespace(conf=conf)

    def interrupt() -> None:
        conf.set = cut
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), changed(spark, {"a": "2", "b": "3"}):
        interrupt()


def test_settings_are_as_before_after_the_block() -> None:
    values = {"a": "1"}
    conf = SimpleNamespace(get=values.get, set=values.__setitem__, unset=values.pop)
    spark: Any = SimpleNamespace(conf=conf)
    with changed(spark, {"a": "2", "b": "3"}):
        assert values == {"a": "2", "b": "3"}
    assert values == {"a": "1"}
