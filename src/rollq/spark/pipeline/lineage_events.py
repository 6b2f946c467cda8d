"""Events of OpenLineage: the only place that uses its package, `openlineage-python`.

A thread imports it, makes events and sends them, so that a run neither waits for a backend, but
for `FLUSH_S` at its end, nor fails with it: the first failure is a warning, and no other is told.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, NamedTuple

from rollq.spark.pipeline.catalog import TABLES
from rollq.spark.pipeline.dictionary import meaning_of
from rollq.spark.pipeline.storage import TableOutput

START: Final = "START"
COMPLETE: Final = "COMPLETE"
FAIL: Final = "FAIL"
ABORT: Final = "ABORT"  # by the user
FLUSH_S: Final = 2.0
WAITING_MAX: Final = 1000  # events; of a backend that is away for long, the rest is dropped
_SETTINGS: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_PREFIX: Final = "OPENLINEAGE__"
_DISABLED: Final = "OPENLINEAGE_DISABLED"
_FILES: Final = ("openlineage.yml", "~/.openlineage/openlineage.yml")
_PACKAGE: Final = "openlineage"

log = logging.getLogger("rollq.pipeline")


class Dataset(NamedTuple):
    """The name of a job, or of what it reads or writes."""

    namespace: str
    name: str


class OutputTable(NamedTuple):
    """A table that a run wrote."""

    dataset: Dataset
    table: str
    version: str  # the snapshot or version; of Parquet the batch
    written: TableOutput


@dataclass(frozen=True, slots=True)
class RunEvent:
    """What happened to a run."""

    state: str
    at: datetime
    run_id: str
    job: Dataset
    inputs: Mapping[Dataset, str]  # with the last index that is in the tables; "": not known
    outputs: Sequence[OutputTable] = ()
    error: str = ""


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether the package is configured by one of its own means, and installed. Without a
    configuration it would print events."""
    if environ.get(_DISABLED, "").strip().lower() == "true":
        return False
    has_settings = any(
        value and (name in _SETTINGS or name.startswith(_PREFIX)) for name, value in environ.items()
    )
    if not (has_settings or any(os.path.isfile(os.path.expanduser(file)) for file in _FILES)):
        return False
    try:
        return find_spec(f"{_PACKAGE}.client") is not None
    except ModuleNotFoundError:
        return False


class EventSender:
    """Sends events in their order, to where the package is configured to send them."""

    def __init__(self) -> None:
        """Starts the thread. It does not keep the process."""
        self._waiting: SimpleQueue[RunEvent | None] = SimpleQueue()
        self._has_warned = False
        self._lock = Lock()
        self._thread = Thread(target=self._run, name="rollq-lineage", daemon=True)
        self._thread.start()

    def send(self, event: RunEvent) -> None:
        """Send an event later."""
        if self._waiting.qsize() < WAITING_MAX:
            self._waiting.put(event)
        else:
            self.warn("too many are waiting")

    def close(self) -> None:
        """Wait for what was not sent yet, for a short time; what is left then is sent if the
        process goes on."""
        self._waiting.put(None)
        self._thread.join(FLUSH_S)
        if self._thread.is_alive():
            self.warn(f"no answer within {FLUSH_S:.0f} s")

    def warn(self, reason: object) -> None:
        """Warn once."""
        with self._lock:
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            text = " ".join(str(reason).split())
            log.warning("OpenLineage events are lost, and the pipeline goes on: %s", text)

    def _run(self) -> None:
        complaints = _Complaints(self)
        logging.getLogger(_PACKAGE).addHandler(complaints)
        try:
            self._send_all()
        finally:
            logging.getLogger(_PACKAGE).removeHandler(complaints)

    def _send_all(self) -> None:
        try:
            from openlineage.client import OpenLineageClient

            client = OpenLineageClient()
        except Exception as error:  # whatever a broken package or a wrong configuration leads to
            self.warn(error)
            return
        while (event := self._waiting.get()) is not None:
            try:
                client.emit(as_openlineage(event))
            except Exception as error:  # whatever the transport raises
                self.warn(error)
        # Transports with threads of their own may still be sending; older clients have none.
        if hasattr(client, "close") and not client.close(FLUSH_S):
            self.warn(f"no answer within {FLUSH_S:.0f} s")


class _Complaints(logging.Handler):
    """Takes what the package logs, which would be many lines, and does not always raise."""

    def __init__(self, sender: EventSender) -> None:
        super().__init__(logging.WARNING)
        self._sender = sender

    def emit(self, record: logging.LogRecord) -> None:
        self._sender.warn(record.getMessage())


def as_openlineage(event: RunEvent) -> Any:
    """An event as the package has it."""
    from openlineage.client import event_v2
    from openlineage.client.facet_v2 import error_message_run, job_type_job

    producer = f"pkg:pypi/rollq@{version('rollq')}"
    kind = job_type_job.JobTypeJobFacet("BATCH", "ROLLQ", "PIPELINE", producer=producer)
    error = error_message_run.ErrorMessageRunFacet(event.error, "PYTHON", producer=producer)
    return event_v2.RunEvent(
        eventType=event_v2.RunState(event.state),
        eventTime=event.at.isoformat(),
        run=event_v2.Run(event.run_id, {"errorMessage": error} if event.error else {}),
        job=event_v2.Job(*event.job, facets={"jobType": kind}),
        inputs=[
            event_v2.InputDataset(*dataset, facets=_version_facet(index, producer))
            for dataset, index in event.inputs.items()
        ],
        outputs=[_output(output, producer) for output in event.outputs],
        producer=producer,
    )


def _output(output: OutputTable, producer: str) -> Any:
    from openlineage.client import event_v2
    from openlineage.client.facet_v2 import output_statistics_output_dataset, schema_dataset

    fields = [
        schema_dataset.SchemaDatasetFacetFields(
            column.name, column.type, meaning_of(output.table, column.name)
        )
        for column in TABLES[output.table].columns
    ]
    schema = schema_dataset.SchemaDatasetFacet(fields, producer=producer)
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        output.written.rows, output.written.bytes, producer=producer
    )
    return event_v2.OutputDataset(
        *output.dataset,
        facets={"schema": schema} | _version_facet(output.version, producer),
        outputFacets={"outputStatistics": statistics},
    )


def _version_facet(text: str, producer: str) -> dict[str, Any]:
    from openlineage.client.facet_v2 import dataset_version_dataset

    if not text:
        return {}
    facet = dataset_version_dataset.DatasetVersionDatasetFacet(text, producer=producer)
    return {"version": facet}
