"""`start_workers`: workers of the grid in tasks of Spark, for as long as they are wanted."""

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
from rollq.roles.client.blocking import BlockingClient
from rollq.roles.client.session import as_addresses
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
    """Run workers in tasks of Spark; returns at once.

    Each occupies one task slot until `stop`, so leave some for your queries: in local mode
    `local[k+n]` for n workers. Losing an executor loses its workers, and what they ran is run
    elsewhere; Spark starts them again where it can.

    Args:
        spark: The session: embedded, of a cluster, or of a Connect server.
        count: How many.
        servers: Members of the group, `host:port,host:port…`, as executors reach them.
        patterns: The queues to serve.
        slots: Jobs at once, of each.
        apps: Modules with functions, importable on executors.
        exec_dir: A folder of programs that is on every executor.
        name: Their names begin so.
        cpu_cap: As of `rollq worker`.
        drain: For how many seconds what runs may go on after `stop`.
        allow_shipped_execs: Whether programs may come with their jobs.
        credentials: Their directory, which is here and on every executor.

    Raises:
        LocalError: what is asked for cannot be meant so.
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
        f"{fold(name)}-{secrets.token_hex(2)}",  # as the group tells it
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
    """Workers in tasks of Spark.

    Attributes:
        names: What they are called; a job may name one as its `worker`.
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
        """Whether their job in Spark goes on."""
        return self._thread.is_alive()

    @property
    def ids(self) -> list[str]:
        """The ids of those that the group knows now."""
        with self._client() as client:
            return list(self._here(client).values())

    def wait_ready(self, timeout: float = READY_S) -> Self:
        """Return when the group knows all of them.

        Raises:
            DeadlineError: TIMED_OUT, with how many there are.
            StateError: WRONG_STATE, if their job in Spark failed; with its reason.
        """
        deadline = time.monotonic() + timeout
        with self._client(timeout) as client:
            while len(here := self._here(client)) < len(self.names):
                self._must_run()
                if time.monotonic() > deadline:
                    raise DeadlineError(
                        ErrorCode.TIMED_OUT,
                        f"{len(here)} of {len(self.names)} workers are here after {timeout:g} s",
                        "each needs a free task slot of Spark; in local mode use local[k+n]",
                    )
                time.sleep(POLL_S)
        return self

    def stop(self, drain: bool = True) -> None:
        """End their job in Spark; return when the workers are gone. Safe to call twice.

        Args:
            drain: Whether what they run may end, within the time that `start_workers` was told; if
                not, it is cut off, and the grid runs it elsewhere.

        Raises:
            DeadlineError: TIMED_OUT, if some do not go.
        """
        self._is_stopping = True
        deadline = time.monotonic() + (self._plan.drain_s if drain else 0.0) + STOP_S
        while self._thread.is_alive():
            with contextlib.suppress(Exception):  # a session that was stopped has ended it
                self._cancel()  # again: what had not begun yet could not be cancelled
            self._thread.join(POLL_S)
            if time.monotonic() > deadline:
                raise _late("the job in Spark does not end")
        with self._client() as client:
            while here := self._here(client):
                if time.monotonic() > deadline:
                    raise _late(f"still here: {', '.join(here)}")
                if not drain:
                    _dismiss(client, here.values())
                time.sleep(POLL_S)

    # --- helpers

    def _run(self) -> None:
        """Until they have ended. In a thread of its own, to which the job in Spark belongs."""
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

    def _here(self, client: BlockingClient) -> dict[str, str]:
        """Those that the group knows: their ids by name."""
        known = {one.name: one.worker_id for one in client.workers()}
        return {name: known[name] for name in self.names if name in known}

    def _must_run(self) -> None:
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
        if error.code is not ErrorCode.OUTCOME_UNKNOWN:  # which is found out by looking who is here
            raise


def _bad(message: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, message, hint)


def _late(what: str) -> DeadlineError:
    return DeadlineError(
        ErrorCode.TIMED_OUT,
        f"workers in Spark were told to stop: {what}",
        "look at their executors",
    )
