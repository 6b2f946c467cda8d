"""What runs of the pipeline tell a lineage backend of the tables they wrote, in every format."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from bench.pipeline.lives import Lives, seal_lives
from rollq.base.errors import DiskError, ErrorCode
from rollq.spark.asking.queries import loader
from rollq.spark.pipeline.batch import PipelineBatch
from rollq.spark.pipeline.catalog import TABLES
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.formats import FORMATS, PARQUET
from rollq.spark.pipeline.manifest import Book
from rollq.spark.pipeline.run import Pipeline, PipelineStep
from tests.spark.lineages import events, needs_package, outputs, rows, states, to_file
from tests.spark.plain import read

pytestmark = [pytest.mark.any_spark, needs_package]
TURN_MS = 40_000
PUBLIC = {table.name for table in TABLES.values() if not table.is_internal}


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest, lakes: dict[str, str]) -> str:
    """A format that this Spark has."""
    name = str(request.param)
    if lakes.get(name):
        pytest.skip(lakes[name])
    return name


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which events go."""
    return to_file(monkeypatch, tmp_path)


def test_a_run_tells_what_it_read_and_wrote(
    spark: SparkSession, tmp_path: Path, told: Path, form: str
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    lives = Lives(6, turn_ms=TURN_MS)
    seal_lives(folder, lives, 300)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out, form=form)
    manifest = pipeline.run()
    start, end = events(told)
    assert states([start, end]) == ["START", "COMPLETE"]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert start["job"] == end["job"]
    assert end["job"]["name"] == f"pipeline:{out}"
    [given] = end["inputs"]
    assert (given["namespace"], given["name"]) == ("file", str(folder))
    index = manifest.marks["default"].index
    assert given["facets"]["version"]["datasetVersion"] == str(index)

    load = loader(spark, out)
    counts = {name: load(name).count() for name in PUBLIC}
    assert rows(end) == {name: count for name, count in counts.items() if count}
    assert {"bronze_events", "silver_jobs", "silver_attempts", "gold_hourly"} <= rows(end).keys()
    for name, output in outputs(end).items():
        place = out / "tables" if form == PARQUET else out
        assert (output["namespace"], output["name"]) == ("file", str(place / name))
        assert Path(output["name"]).is_dir()
        version = manifest.version(name) or str(manifest.number)
        assert output["facets"]["version"]["datasetVersion"] == version
        size = output["outputFacets"]["outputStatistics"]["size"]
        assert size == sum(file.bytes for file in manifest.files(name)) or form != PARQUET
        assert size > 0

    # The next run tells of what is new alone, and one that finds nothing of nothing.
    known = len(read(folder))
    seal_lives(folder, lives, 60)
    assert pipeline.run().number == 2
    assert pipeline.run().number == 2
    _, _, *later = events(told)
    assert states(later) == ["START", "COMPLETE"] * 2
    assert rows(later[1])["bronze_events"] == len(read(folder)) - known
    assert later[3]["outputs"] == []
    assert len({event["run"]["runId"] for event in events(told)}) == 3


def test_a_run_that_fails_tells_why(
    spark: SparkSession, tmp_path: Path, told: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal_lives(folder, Lives(3, turn_ms=TURN_MS), 60)

    def full(batch: PipelineBatch) -> None:
        raise DiskError(ErrorCode.DISK_FULL, "no space is left")

    monkeypatch.setattr(PipelineBatch, "_make_gold", full)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out, form=form)
    with pytest.raises(DiskError):
        pipeline.run()
    with pytest.raises(DiskError):
        pipeline.run(every_s=60)
    found = events(told)
    assert states(found) == ["START", "FAIL"] * 2
    for failed in found[1::2]:
        error = failed["run"]["facets"]["errorMessage"]
        assert error["message"].startswith("disk_full")
        assert error["message"].endswith("no space is left")
        assert failed["outputs"] == []


def test_each_batch_of_a_run_that_goes_on_is_a_run(
    spark: SparkSession, tmp_path: Path, told: Path
) -> None:
    folder = tmp_path / "state"
    lives = Lives(5, turn_ms=TURN_MS)
    seal_lives(folder, lives, 60)

    def committed(step: PipelineStep) -> None:
        if step.manifest.number == 2:
            pipeline.stop()
        elif not step.stage:
            seal_lives(folder, lives, 60)

    pipeline = Pipeline(spark, Feed(path=str(folder)), tmp_path / "out", told=committed)
    assert pipeline.run(every_s=0.001).number == 2
    found = events(told)
    assert states(found) == ["START", "COMPLETE"] * 2
    assert found[0]["run"]["runId"] != found[2]["run"]["runId"]
    written = [rows(event)["bronze_events"] for event in found[1::2]]
    assert sum(written) == len(read(folder))


def test_tables_that_are_made_anew_are_written_and_the_events_are_not(
    spark: SparkSession, tmp_path: Path, told: Path
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal_lives(folder, Lives(4, turn_ms=TURN_MS), 60)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out)
    made = pipeline.run()
    Book(out).commit(msgspec.structs.replace(made, number=2, schema_version=1))
    assert pipeline.run().number == 3
    first, again = (rows(event) for event in events(told)[1::2])
    assert again == {name: count for name, count in first.items() if name != "bronze_events"}
