"""Who asked for what, in SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rollq.grid.events import AccessFact, Event
from rollq.history.packed import pack
from rollq.history.segments import Segments
from rollq.spark.asking.queries import views
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.run import Pipeline
from rollq.store.real_disk import RealDisk
from tests.spark.segments import STAMP_MS, seal

EVE = AccessFact("eve", action="jobs.read", resource="client:bob", address="10.0.0.7")


@pytest.mark.any_spark
def test_who_was_refused_what_and_who_changed_what(spark: SparkSession, tmp_path: Path) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal(folder, 1, 3)
    Pipeline(spark, Feed(path=str(folder)), out).run()
    views(spark, out)
    assert spark.sql("SELECT count(*) FROM audit").first() == (0,)
    disk = RealDisk(folder, unsafe_no_fsync=True)
    acts = [
        Event("refused", count=3, access=EVE),
        Event("account_put", detail="role client", access=AccessFact("olga", "ann")),
    ]
    Segments(disk).seal_packed(4, 4, [pack(4, STAMP_MS + 4, acts)])
    refused = [pack(5, STAMP_MS + 5, [Event("refused", count=2, access=EVE)])]
    Segments(disk).seal(5, 5, [line for index in refused for line in index.lines()])
    disk.close()
    Pipeline(spark, Feed(path=str(folder)), out).run()
    views(spark, out)
    asked = spark.sql(
        "SELECT asked_by, action, resource, address, sum(count) FROM audit "
        "WHERE type = 'refused' GROUP BY ALL"
    )
    assert asked.collect() == [("eve", "jobs.read", "client:bob", "10.0.0.7", 5)]
    changed = spark.sql("SELECT asked_by, account, detail, _index FROM audit WHERE action IS NULL")
    assert changed.collect() == [("olga", "ann", "role client", 4)]
    assert spark.sql("SELECT count(asked_by) FROM events").first() == (3,)
