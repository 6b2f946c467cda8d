"""What a run of the pipeline tells a lineage backend, without Spark; what needs the package of
OpenLineage is skipped without it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rollq.net.ports import free_ports
from rollq.spark.pipeline import lineage, lineage_events
from rollq.spark.pipeline.catalog import TABLES
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.lineage import (
    Lineage,
    TablesPlace,
    database_place,
    folder_of,
    folder_place,
    history_of,
)
from rollq.spark.pipeline.lineage_events import (
    Dataset,
    EventSender,
    OutputTable,
    RunEvent,
    as_openlineage,
    is_configured,
)
from rollq.spark.pipeline.manifest import Mark, TableManifest
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.storage import TableOutput
from rollq.spark.source.options import SourceOrigin
from rollq.spark.source.places import Extent
from tests.integration.receiver import Receiver
from tests.spark.lineages import configured, events, needs_package, states, to_file, unconfigured
from tests.unit.spark.test_pipeline_run import Settings

JOB = Dataset("rollq", "pipeline:/lake")
PLACE = TablesPlace("file", "/lake/")
TWO = (SourceOrigin(servers="b:1,a:2"), SourceOrigin(path="/state"))
EXTENTS = [Extent("one", 1, 6), Extent("two", 1, 10)]
AT = datetime(2026, 11, 15, tzinfo=UTC)


class Noted(EventSender):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[RunEvent] = []
        self.is_closed = False

    def send(self, event: RunEvent) -> None:
        self.told.append(event)

    def close(self) -> None:
        self.is_closed = True

    @property
    def states(self) -> list[str]:
        return [event.state for event in self.told]


class Written:
    """As much of a batch as is asked for after its commit."""

    def __init__(self, **outputs: TableOutput) -> None:
        self._outputs = outputs

    def outputs(self) -> Mapping[str, TableOutput]:
        return self._outputs


def batch(number: int, index: int) -> TableManifest:
    marks = {"one": Mark(index, 1, 2)}
    return TableManifest(number, 1, "source", 0, 0, marks, {})


def begun(sender: Noted, *, is_once: bool) -> Lineage:
    told = Lineage(sender, JOB, PLACE, TWO, is_once=is_once)
    told.begin()
    told.reads(EXTENTS)
    return told


def wrote(told: Lineage, manifest: TableManifest, **outputs: TableOutput) -> None:
    told.start()
    told.wrote(manifest, Written(**outputs))  # type: ignore[arg-type]


def test_the_batches_of_a_run_are_added_up() -> None:
    sender = Noted()
    with begun(sender, is_once=True) as told:
        first = {"silver_jobs": TableOutput(3, 30), "state_levels": TableOutput(1, 1)}
        wrote(told, batch(1, 3), **first, gold_dead=TableOutput(1, None))
        wrote(told, batch(2, 5), silver_jobs=TableOutput(4, 40), gold_dead=TableOutput(1, 5))
        told.complete()
    assert sender.states == ["START", "COMPLETE"]
    assert sender.is_closed
    start, end = sender.told
    assert start.run_id == end.run_id
    assert UUID(start.run_id)
    assert start.at <= end.at
    assert start.job == end.job == JOB
    one, two = Dataset("rollq://a:2", "one"), Dataset("file", "/state")
    assert (start.inputs, start.outputs) == ({one: "", two: ""}, [])
    assert (end.inputs, end.error) == ({one: "5", two: ""}, "")
    assert end.outputs == [
        OutputTable(Dataset("file", "/lake/silver_jobs"), "silver_jobs", "2", TableOutput(7, 70)),
        OutputTable(Dataset("file", "/lake/gold_dead"), "gold_dead", "2", TableOutput(2, None)),
    ]


def test_a_run_that_finds_nothing_is_told_if_it_is_the_only_one() -> None:
    for is_once, expected in ((True, ["START", "COMPLETE"]), (False, [])):
        sender = Noted()
        with begun(sender, is_once=is_once) as told:
            told.complete()
        assert sender.states == expected


def test_each_batch_of_a_run_that_goes_on_is_a_run() -> None:
    sender = Noted()
    with begun(sender, is_once=False) as told:
        for number in (1, 2):
            wrote(told, batch(number, number), silver_jobs=TableOutput(number, 0))
        told.complete()
        for _ in range(3):  # nothing new
            told.begin()
            told.reads(EXTENTS)
            told.complete()
    assert sender.states == ["START", "COMPLETE"] * 2
    assert len({event.run_id for event in sender.told}) == 2
    assert [event.outputs[0].written.rows for event in sender.told[1::2]] == [1, 2]


@pytest.mark.parametrize("is_once", [True, False])
def test_an_error_ends_a_run_with_its_words(is_once: bool) -> None:
    sender = Noted()
    with pytest.raises(ZeroDivisionError), begun(sender, is_once=is_once):
        raise ZeroDivisionError
    assert sender.states == ["START", "FAIL"]
    assert sender.told[1].error == "ZeroDivisionError"
    assert set(sender.told[1].inputs) == {Dataset("rollq://a:2", "one"), Dataset("file", "/state")}
    assert sender.is_closed


def test_who_interrupts_a_run_aborts_it_and_who_interrupts_a_pause_does_not() -> None:
    for is_once, expected in ((True, ["START", "ABORT"]), (False, [])):
        sender = Noted()
        with pytest.raises(KeyboardInterrupt), begun(sender, is_once=is_once):
            raise KeyboardInterrupt
        assert sender.states == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/srv/tables", ("file", "/srv/tables")),
        ("file:///srv/tables/", ("file", "/srv/tables")),
        ("s3a://bucket/lake/", ("s3://bucket", "lake")),
        ("s3://bucket/a/b", ("s3://bucket", "a/b")),
        ("gs://bucket/lake", ("gs://bucket", "lake")),
        ("hdfs://host:8020/lake", ("hdfs://host:8020", "/lake")),
        ("abfss://box@account.example/lake", ("abfss://box@account.example", "lake")),
        ("https://me:secret@host/lake", ("https://host", "lake")),
    ],
)
def test_folders_are_named_as_openlineage_does(place: str, expected: tuple[str, str]) -> None:
    assert folder_of(place) == expected


def test_a_folder_is_the_same_wherever_a_run_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert folder_of("./lake") == folder_of(str(tmp_path / "lake"))


def test_a_history_is_named_by_its_group_or_its_folder() -> None:
    for servers in ("b:5000,a:5000", "a:5000, b:5000"):
        origin = SourceOrigin(servers=servers)
        assert history_of(origin, "east") == ("rollq://a:5000", "east")
    assert history_of(SourceOrigin(path="s3://bucket/h"), "east") == ("s3://bucket", "h")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("", ("lake", "rollq.silver_jobs")),
        ("jdbc:postgresql://host/db?password=secret", ("lake", "rollq.silver_jobs")),
        ("https://catalog.example/api/", ("https://catalog.example/api", "rollq.silver_jobs")),
        ("https://me:secret@host?key=1", ("https://host", "rollq.silver_jobs")),
        ("thrift://host:9083", ("hive://host:9083", "rollq.silver_jobs")),
    ],
)
def test_tables_of_a_catalog(uri: str, expected: tuple[str, str]) -> None:
    assert database_place("lake.rollq", uri).dataset("silver_jobs") == expected


def test_tables_of_a_folder() -> None:
    name = folder_place("/srv/t", "parquet").dataset("silver_jobs").name
    assert name == "/srv/t/tables/silver_jobs"
    assert folder_place("/srv/t", "delta").dataset("silver_jobs").name == "/srv/t/silver_jobs"


def test_it_is_configured_by_the_means_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unconfigured(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lineage_events, "find_spec", lambda name: name)
    assert not is_configured({})
    assert not is_configured({"OPENLINEAGE_URL": "", "OPENLINEAGE_NAMESPACE": "mine"})
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__TYPE"):
        assert is_configured({name: "given"})
        assert not is_configured({name: "given", "OPENLINEAGE_DISABLED": "True"})
    (tmp_path / ".openlineage").mkdir()
    for file in (tmp_path / "openlineage.yml", tmp_path / ".openlineage/openlineage.yml"):
        file.touch()
        assert is_configured({})
        file.unlink()


@contextmanager
def without_package() -> Iterator[None]:
    """As if it were not installed."""
    names = [name for name in sys.modules if name.split(".")[0] == "openlineage"]
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "openlineage", None)
        yield


class EmptyFeed(Feed):
    """A group in which nothing has happened."""

    def extents(self) -> list[Extent]:
        return [Extent("default", 1, 1)]

    def hold(self, starts: Mapping[str, int]) -> None:
        pass


def idle_run(tmp_path: Path) -> TableManifest:
    """A run that finds nothing, and needs no Spark."""
    feed = EmptyFeed(servers="127.0.0.1:1")
    return Pipeline(Settings(), feed, tmp_path / "out").run()  # type: ignore[arg-type]


@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_begun_without_a_configuration_or_without_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    unconfigured(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lineage, "EventSender", None)  # calling it would be an error
    if is_there:
        idle_run(tmp_path)
    else:
        monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
        with without_package():
            assert not is_configured({"OPENLINEAGE_URL": "http://127.0.0.1:1"})
            idle_run(tmp_path)


def event(state: str = "COMPLETE", error: str = "") -> RunEvent:
    outputs = [
        OutputTable(PLACE.dataset(name), name, "7", TableOutput(2, 200))
        for name, table in TABLES.items()
        if not table.is_internal
    ]
    run_id = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
    return RunEvent(state, AT, run_id, JOB, {Dataset("rollq://a:1", "one"): "5"}, outputs, error)


def as_json(made: Any) -> dict[str, Any]:
    import json  # noqa: PLC0415

    from openlineage.client.serde import Serde  # noqa: PLC0415

    document: dict[str, Any] = json.loads(Serde.to_json(made))
    return document


@needs_package
def test_an_event_has_what_openlineage_asks_for() -> None:
    told = as_json(as_openlineage(event()))
    assert told["eventType"] == "COMPLETE"
    assert told["eventTime"] == "2026-11-15T00:00:00+00:00"
    assert told["producer"].startswith("pkg:pypi/rollq@")
    assert told["schemaURL"].endswith("OpenLineage.json#/$defs/RunEvent")
    assert told["run"]["runId"] == event().run_id
    assert "errorMessage" not in told["run"]["facets"]
    assert (told["job"]["namespace"], told["job"]["name"]) == JOB
    kind = told["job"]["facets"]["jobType"]
    assert (kind["processingType"], kind["integration"]) == ("BATCH", "ROLLQ")
    [given] = told["inputs"]
    assert (given["namespace"], given["name"]) == ("rollq://a:1", "one")
    assert given["facets"]["version"]["datasetVersion"] == "5"
    jobs = told["outputs"][1]
    assert jobs["name"] == "/lake/silver_jobs"
    assert jobs["facets"]["version"]["datasetVersion"] == "7"
    statistics = jobs["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (2, 200)
    assert statistics["_producer"] == told["producer"]
    fields = jobs["facets"]["schema"]["fields"]
    assert [one["name"] for one in fields] == list(TABLES["silver_jobs"].names)
    assert fields[0]["type"] == "string"
    assert all(one["description"] for one in fields)


@needs_package
def test_an_event_of_a_failure_has_the_error() -> None:
    facet = as_json(as_openlineage(event("FAIL", "disk_busy (102): another pipeline")))["run"]
    error = facet["facets"]["errorMessage"]
    assert (error["message"], error["programmingLanguage"]) == (
        "disk_busy (102): another pipeline",
        "PYTHON",
    )


@needs_package
def test_a_run_tells_what_it_is_configured_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = to_file(monkeypatch, tmp_path)
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "mine")
    idle_run(tmp_path)
    assert states(events(told)) == ["START", "COMPLETE"]
    job = events(told)[0]["job"]
    assert (job["namespace"], job["name"]) == ("mine", f"pipeline:{tmp_path / 'out'}")


@needs_package
def test_an_http_backend_is_told_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as backend:
        configured(monkeypatch, tmp_path, type="http", url=backend.url)
        idle_run(tmp_path)
        posted = [one.told for one in backend.until_told(2)]
    assert states(posted) == ["START", "COMPLETE"]
    assert posted[0]["inputs"][0]["namespace"] == "rollq://127.0.0.1:1"


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == lineage_events.log.name]


@needs_package
@pytest.mark.parametrize("kind", ["http", "async_http"])
@pytest.mark.parametrize("answer", ["down", "refuses", "silent"])
def test_a_backend_that_fails_is_one_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    answer: str,
) -> None:
    made: list[EventSender] = []

    class Kept(EventSender):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(lineage, "EventSender", Kept)
    monkeypatch.setattr(lineage_events, "FLUSH_S", 0.5)
    with Receiver(*([0] * 9 if answer == "silent" else [403] * 9)) as backend:
        url = f"http://127.0.0.1:{free_ports(1)[0]}" if answer == "down" else backend.url
        retry = {"total": 1, "connect": 1, "read": 0, "backoff_factor": 0.01}
        configured(monkeypatch, tmp_path, type=kind, url=url, timeout=60, retry=retry)
        with caplog.at_level(logging.WARNING):
            assert idle_run(tmp_path).number == 0  # the pipeline does not mind
        backend.go.set()
        made[0]._thread.join()
    [warning] = warnings_of(caplog)
    assert warning.startswith("OpenLineage events are lost, and the pipeline goes on: ")
    assert "\n" not in warning


@needs_package
def test_a_wrong_configuration_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configured(monkeypatch, tmp_path, type="http", url="nowhere")
    assert idle_run(tmp_path).number == 0
    assert len(warnings_of(caplog)) == 1


def test_a_broken_package_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lineage, "is_configured", lambda environ: True)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    assert idle_run(tmp_path).number == 0
    assert len(warnings_of(caplog)) == 1


def test_events_that_nobody_takes_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lineage_events, "WAITING_MAX", 3)
    monkeypatch.setattr(EventSender, "_run", lambda self: None)
    sender = EventSender()
    for _ in range(9):
        sender.send(event())
    sender.close()
    assert sender._waiting.qsize() == 4  # and the end
    assert len(warnings_of(caplog)) == 1
