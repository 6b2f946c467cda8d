"""`start_workers`: grid workers in Spark tasks."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Final, Self

from rollq.base.errors import DeadlineError, ErrorCode, LocalError, RollqError, StateError
from rollq.base.limits import CPU_CAP_MAX, CPU_CAP_MIN
from rollq.roles.client.addresses import as_addresses
from rollq.roles.client.blocking.clients import BlockingClient
from rollq.spark.grid.tending import Tending, WorkerPlan
from rollq.subjects.grammar import fold
from rollq.subjects.queues import worker_pattern

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

READY_S: Final = 60.0
DRAIN_S: Final = 10.0
POLL_S: Final = 0.1
STOP_S: Final = 30.0  # beyond the drain


def start_workers(
    spark: SparkSession,
    count: int,
    *,
    servers: str,
    patterns: Sequence[str] = ("job.assign.>",),
    slots: int = 1,
    apps: Sequence[str] = (),
    exec_dir: str | PathLike[str] = "",
    name: str = "spark",
    cpu_cap: float = 1.0,
    drain: float = DRAIN_S,
    allow_shipped_execs: bool = False,
    credentials: str | PathLike[str] = "",
) -> WorkersHandle:
    """Run workers in Spark tasks; returns at once.

    Each occupies one task slot until `stop`, so leave some for your queries: in local mode
    `local[k+n]` for n workers. If an executor is lost so are its workers, and their jobs run
    elsewhere; Spark restarts the workers where it can.

    Args:
        spark: The session: embedded, of a cluster, or of a Connect server.
        count: The number of workers.
        servers: Members of the group, `host:port,host:port…`, as reached from executors.
        patterns: The queues to serve.
        slots: Concurrent jobs of each worker.
        apps: Modules with functions, importable on executors.
        exec_dir: A folder of programs on every executor.
        name: Prefix of their names.
        cpu_cap: As of `rollq worker`.
        drain: Seconds that running jobs may continue after `stop`.
        allow_shipped_execs: Whether programs may come with their jobs.
        credentials: Their directory, on the driver and on every executor.

    Raises:
        LocalError: an argument is not valid.
    """
    for what, number, least in (("count", count, 1), ("slots", slots, 1), ("drain", drain, 0)):
        if not number >= least:
            raise _bad(f"{what}={number}", f"use {least} or more")
    if not (CPU_CAP_MIN <= cpu_cap <= CPU_CAP_MAX or cpu_cap == 1):
        raise _bad(f"cpu_cap={cpu_cap}", f"use {CPU_CAP_MIN} to {CPU_CAP_MAX}, or 1 for none")
    for what, listed in (("apps", apps), ("patterns", patterns)):
        if isinstance(listed, str):
            raise _bad(f"{what}={listed!r}", f"it is a list: [{listed!r}]")
    for pattern in patterns:
        try:
            worker_pattern(pattern)
        except RollqError as error:
            raise _bad(f"patterns: {error.message}", error.hint) from None
    if not apps and not exec_dir and not allow_shipped_execs:
        raise _bad(
            "these workers have no programs and no functions to run",
            "give apps with functions, or exec_dir with programs",
        )
    plan = WorkerPlan(
        as_addresses(servers),
        f"{fold(name)}-{secrets.token_hex(2)}",  # folded like in the group
        tuple(patterns),
        slots,
        tuple(apps),
        fspath(exec_dir),
        cpu_cap,
        drain,
        allow_shipped_execs,
        fspath(credentials),
    )
    return WorkersHandle(spark, plan, count)


class WorkersHandle:
    """Workers in Spark tasks.

    Attributes:
        names: Of the workers; a job may select one by its option `worker`.
    """

    def __init__(self, spark: SparkSession, plan: WorkerPlan, count: int) -> None:
        self.names = tuple(plan.name_of(number) for number in range(count))
        self._spark = spark
        self._plan = plan
        self._failure: BaseException | None = None
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=plan.name, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether their Spark job is running."""
        return self._thread.is_alive()

    @property
    def ids(self) -> list[str]:
        """The ids of the workers registered in the group."""
        with self._client() as client:
            return list(self._registered(client).values())

    def wait_ready(self, timeout: float = READY_S) -> Self:
        """Wait until all workers are registered in the group.

        Raises:
            DeadlineError: TIMED_OUT, with the number of registered workers.
            StateError: WRONG_STATE, if their Spark job failed; with its reason.
        """
        deadline = time.monotonic() + timeout
        with self._client(timeout) as client:
            while len(registered := self._registered(client)) < len(self.names):
                self._check_running()
                if time.monotonic() > deadline:
                    raise DeadlineError(
                        ErrorCode.TIMED_OUT,
                        f"{len(registered)} of {len(self.names)} workers are here "
                        f"after {timeout:g} s",
                        "each needs a free task slot of Spark; in local mode use local[k+n]",
                    )
                time.sleep(POLL_S)
        return self

    def stop(self, drain: bool = True) -> None:
        """End their Spark job; returns when the workers are gone. Idempotent.

        Args:
            drain: Whether running jobs may finish, within the time given to `start_workers`;
                otherwise they are killed, and run elsewhere.

        Raises:
            DeadlineError: TIMED_OUT, if some workers remain.
        """
        self._is_stopping = True
        deadline = time.monotonic() + (self._plan.drain_s if drain else 0.0) + STOP_S
        while self._thread.is_alive():
            with contextlib.suppress(Exception):  # the session may be stopped, which ends the job
                self._cancel()  # repeated: a job that has not started cannot be cancelled
            self._thread.join(POLL_S)
            if time.monotonic() > deadline:
                raise _late("the job in Spark does not end")
        with self._client() as client:
            while registered := self._registered(client):
                if time.monotonic() > deadline:
                    raise _late(f"still here: {', '.join(registered)}")
                if not drain:
                    _dismiss(client, registered.values())
                time.sleep(POLL_S)

    # --- helpers

    def _run(self) -> None:
        """Run the Spark job, in its own thread: job groups are per thread."""
        tending = Tending(self._plan)

        def tend(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return tending(batches)

        count = len(self.names)
        try:
            if _is_connect(self._spark):
                self._spark.addTag(self._plan.name)
            else:
                self._spark.sparkContext.setJobGroup(
                    self._plan.name, f"{count} workers of rollq", interruptOnCancel=True
                )
            numbers = self._spark.range(0, count, 1, count)
            numbers.mapInArrow(tend, "id long").collect()
        except BaseException as error:
            self._failure = error

    def _cancel(self) -> None:
        if _is_connect(self._spark):
            self._spark.interruptTag(self._plan.name)
        else:
            self._spark.sparkContext.cancelJobGroup(self._plan.name)

    def _client(self, timeout: float = READY_S) -> BlockingClient:
        return BlockingClient(
            ",".join(self._plan.servers), timeout=timeout, credentials=self._plan.credentials
        )

    def _registered(self, client: BlockingClient) -> dict[str, str]:
        """The registered workers: their ids by name."""
        known = {one.name: one.worker_id for one in client.workers()}
        return {name: known[name] for name in self.names if name in known}

    def _check_running(self) -> None:
        if not self._thread.is_alive():
            why = "it was stopped" if self._is_stopping else str(self._failure or "it ended")
            raise StateError(
                ErrorCode.WRONG_STATE, f"the job of these workers in Spark is over: {why}"
            )


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _dismiss(client: BlockingClient, worker_ids: Iterable[str]) -> None:
    try:
        client.dismiss(*worker_ids)
    except RollqError as error:
        if error.code is not ErrorCode.OUTCOME_UNKNOWN:  # the caller checks who is left
            raise


def _bad(message: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, message, hint)


def _late(what: str) -> DeadlineError:
    return DeadlineError(
        ErrorCode.TIMED_OUT,
        f"workers in Spark were told to stop: {what}",
        "look at their executors",
    )
