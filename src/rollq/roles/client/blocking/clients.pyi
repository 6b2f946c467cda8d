"""Made by docs/make_blocking.py: change the asyncio classes instead."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, Unpack

from rollq.base.access_rules import Rule
from rollq.base.hints import ExecHint
from rollq.base.ids import JobId, MemberId, WorkerId
from rollq.base.job_events import JobEvent, JobProgress
from rollq.base.jobs import BlobRef
from rollq.base.limits import MAP_WINDOW
from rollq.base.schedules import LAST, SKIP
from rollq.base.staged import StagedPart
from rollq.base.topic_limits import TOPIC_AGE_MS, TOPIC_BYTES, TOPIC_COUNT
from rollq.grid import views
from rollq.grid.access import AccountView, RoleView
from rollq.grid.batches import BatchView
from rollq.grid.rule_views import LimitView, PolicyView, WeightView
from rollq.grid.topic_views import TopicView
from rollq.roles.client.calls.access import AccessDecision
from rollq.roles.client.calls.batches import CommitOutcome
from rollq.roles.client.calls.caches import PUT_TIMEOUT_S, CacheReport, Spread
from rollq.roles.client.calls.followers import Notify, Then
from rollq.roles.client.calls.schedules import ScheduleView
from rollq.roles.client.functions.chains import Step
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.parts import Message, Redrive
from rollq.roles.client.jobs.specs import Input, JobFile, JobSpec, Payload
from rollq.roles.client.jobs.supply import BytesMoved, InputBlob
from rollq.roles.client.many.keyed import Ended, OnMade
from rollq.roles.client.results.handles import Counts, Progress
from rollq.roles.client.results.result import Result
from rollq.roles.client.results.streams import StreamPart
from rollq.roles.client.results.views import (
    ArrayView,
    CacheView,
    ClientView,
    DrainView,
    Explanation,
    FederationView,
    HolderView,
    JobView,
    QueueView,
    Settings,
    WorkerView,
)
from rollq.roles.client.several_groups.discovery import Federation
from rollq.roles.client.several_groups.routes import Policy
from rollq.roles.client.topics.subscriptions import Publication
from rollq.security.credentials import NONE, Credentials
from rollq.tasks import Task

class BlockingJob:
    """A submitted job. `get`, `result` and `cancel` block; `aget` and `aresult` are for the event
    loop of an application, such as a notebook; `await job` is `aget`."""
    def aget(self, timeout: float | None = None) -> Any:
        """The same as `get`, without blocking the event loop."""
    def aresult(self, timeout: float | None = None) -> Result:
        """The same as `result`, without blocking the event loop."""
    def __await__(self) -> Generator[Any, None, Any]: ...
    @property
    def job_id(self) -> JobId: ...
    @property
    def followers(self) -> tuple[str, ...]: ...
    @property
    def id(self) -> str:
        """The id as text."""
    @property
    def is_done(self) -> bool:
        """Whether the result has arrived."""
    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result, at most `timeout` seconds. It may be called again.

        Raises:
            DeadlineError: TIMED_OUT. The job goes on.
            RollqError: DISCONNECTED, if the client was stopped. The job goes on.
        """
    def get(self, timeout: float | None = None) -> Any:
        """Wait for the job and return its value. Raises the exception of the function, or of a job
        among its arguments; JobError if it failed otherwise; and what `result` raises."""
    def file(self, name: str) -> JobFile:
        """Refer to an output file of this job as an input of another job. That job waits for this
        one to end ok, and its worker downloads the file. `-` is stdout."""
    def output(
        self, *, follow: bool = True, stream: str = "", tail: int | None = None
    ) -> Iterator[StreamPart]:
        """Iterate over its output, while it runs and after its end; see `Client.output`. With
        `follow` and without `tail` the output is complete."""
    def events(self) -> Iterator[JobEvent]:
        """Iterate over its events from now until its end; see `Client.events`."""
    def cancel(self) -> bool:
        """Cancel it; false if it had ended."""

class BlockingJobGroup:
    """The jobs of a group, in order."""

    def __len__(self) -> int: ...
    @property
    def is_done(self) -> bool:
        """Whether all results have arrived."""
    def get(self, timeout: float | None = None) -> list[Any]:
        """Wait for all jobs and return their values in order. Raises the exception of the first
        job, in this order, that failed.

        Raises:
            DeadlineError: TIMED_OUT. The jobs go on.
        """
    def cancel(self) -> int:
        """Cancel the jobs that have not ended; returns how many."""

class BlockingBatch:
    """Many submitted jobs."""

    @property
    def first_id(self) -> JobId: ...
    @property
    def array_id(self) -> JobId: ...
    @property
    def counts(self) -> Counts: ...
    def __len__(self) -> int: ...
    @property
    def id(self) -> str:
        """The id of the array, or of the first job."""
    @property
    def is_done(self) -> bool:
        """Whether every job has ended."""
    def job_ids(self) -> Iterator[JobId]:
        """Iterate over the ids, in the order of submission."""
    def wait(self, timeout: float | None = None, progress: Progress | None = None) -> Counts:
        """Wait until all have ended, and return the counts.

        Raises:
            DeadlineError: TIMED_OUT. The jobs go on.
        """
    def take(self) -> list[Result]:
        """Return the results that arrived since the last call; waits for one, empty at the end."""
    def results(self) -> Iterator[Result]:
        """Iterate over the results as they arrive. Each is returned once and then dropped. There
        are none if the batch does not keep results."""
    def cancel(self) -> int:
        """Cancel the jobs that have not ended; returns how many."""

class BlockingKeyedRun:
    """Jobs with ids of their own, some of which may have been submitted before."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def put(self, specs: Sequence[JobSpec]) -> None:
        """Submit jobs. Each has an id of its own that is not in flight already.

        Raises:
            RollqError: an option is invalid, or the client is not started.
        """
    def take(self, wait_s: float | None = None) -> list[Ended]:
        """Return the jobs that ended, waiting for one; empty if none is in flight, or at `wait_s`.

        Raises:
            RollqError: nothing was accepted for too long, or the client was stopped.
        """
    def close(self) -> None:
        """Cancel the jobs in flight, except those that the grid knew before: another process may
        wait for them."""

class BlockingPublication:
    """A message of a subscription."""

    @property
    def subject(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def reply_to(self) -> str: ...
    @property
    def queue_group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def stamp_ms(self) -> int: ...
    @property
    def text(self) -> str:
        """The payload as text; invalid UTF-8 is replaced."""
    def respond(self, payload: bytes | str = b"") -> None:
        """Send a response to a request.

        Raises:
            LocalError: BAD_OPTIONS, if the message is not a request.
        """

class BlockingSubscription:
    """Messages of a subscription, as an iterator. Leaving the `with` block, or `close`, ends it."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def __iter__(self) -> Iterator[BlockingPublication]: ...
    def take(self) -> list[BlockingPublication]:
        """Return all messages received so far, waiting for at least one; empty if it is closed."""
    @property
    def pattern(self) -> str: ...
    @property
    def queue_group(self) -> str: ...
    @property
    def missed(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def durable(self) -> str: ...
    def next(self, timeout: float | None = None) -> BlockingPublication:
        """Return the next message.

        Raises:
            DeadlineError: there was none in time.
            StateError: it is closed.
        """
    def consumed(self, message: Publication) -> None:
        """Acknowledge a message of a topic and all before it, which reading the next one does too.
        For a durable subscription the group stores the position some tenths of a second later.

        Raises:
            LocalError: BAD_OPTIONS, if this reads no topic, or the message is of another.
        """
    def close(self) -> None:
        """End the subscription. Messages received before can still be read."""

class BlockingJobs:
    """`client.jobs`: submit, wait for, inspect and cancel jobs."""

    def view(self, job_id: JobId | str, *, timeout: float | None = None) -> views.RawJobView | None:
        """Return the undecoded state of a job or task; None if it is unknown or has expired."""
    def attach(self, job_id: JobId | str, *, timeout: float | None = None) -> BlockingJob:
        """Return a handle for a job that another process submitted with this client id.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE if it belongs to another client, which receives its
                result.
        """
    def result_of(self, job_id: JobId | str, *, timeout: float | None = None) -> Result:
        """Return the result of a job of any client, without confirming it for that client.

        Raises:
            StateError: UNKNOWN_JOB, also if the result is not kept any more; WRONG_STATE if the job
                has not ended.
        """
    def unclaimed(self) -> list[Result]:
        """Return and confirm results that arrived for jobs that this process did not submit, but an
        earlier one with this client id."""
    def keyed_run(self, *, on_made: OnMade | None = None) -> BlockingKeyedRun:
        """Create a run for jobs with ids of their own, some of which may have been submitted
        before. `on_made` is called, in the client's thread, with the ids of those that were new."""
    def status(self, job_id: JobId | str, *, timeout: float | None = None) -> JobView | None:
        """Return the state of a job or task; None if it is unknown or has expired."""
    def array(self, array_id: JobId | str) -> ArrayView | None:
        """Return an array with its task counts; None if it is unknown or has expired."""
    def explain(self, job_id: JobId | str) -> Explanation | None:
        """Explain why a job or array waits, or how it ended, and what would help; None if it is
        unknown or has expired."""
    def dead(self) -> Iterator[JobView]:
        """Iterate over all dead jobs, oldest first."""
    def redrive(
        self,
        *job_ids: JobId | str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        queue: str = "",
    ) -> int:
        """Run dead jobs again, with a new set of attempts; attempt numbers go on. They keep id,
        key, owner, options and files. A job that failed is not dead: its client has the result, and
        `submit_like` runs it again. Returns how many were redriven.

        Args:
            job_ids: Dead jobs; all or none are redriven.
            args: New arguments for each of them.
            env: Environment variables to set; None removes one. Others are kept.
            queue: A new queue for each of them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, also if a request is too large to be changed.
            RollqError: the change is invalid, or not permitted.
        """
    def submit_like(
        self,
        job_id: JobId | str,
        args: Sequence[str] | None = None,
        *,
        env: Mapping[str, str | None] | None = None,
        queue: str = "",
        timeout: float | None = None,
    ) -> BlockingJob:
        """Submit a new job with the program, options, files and variables of another one, whatever
        its state; `args`, `env` and `queue` replace its own. After a job's end the grid keeps
        requests up to 1 KiB, without variables, and files only while something else refers to them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, if its request is not kept any more.
            RollqError: it was refused, or not accepted in time.
        """
    def purge(self, *job_ids: JobId | str) -> int:
        """Delete dead jobs; returns how many."""
    def submit(
        self,
        job: str | JobSpec | Task[..., Any],
        *args: Any,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        job_id: JobId | str | None = None,
        key: str = "",
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Any,
    ) -> BlockingJob:
        """Submit a job; returns its handle when a majority of the group has stored it.

        `submit("program", ["1", "2"])` runs a program or function by name, with text arguments.
        `submit(function, 1, b=2)` calls a function that is decorated with `@task` with Python
        values; job options (`rollq.Options`) are not passed to it. `submit_call` separates them.

        Args:
            job, args: A function and its arguments, a name and one list of strings, or a spec.
            files: Input files by name: bytes, a path of a file or folder, or a reference. Small
                ones are part of the job, others are uploaded unless the group has them.
            outputs: Patterns of the output files to keep; default: all new files.
            payload: Bytes or text instead of arguments.
            job_id, key: An id or text of your own, which makes the submit idempotent: the same one
                under the same client id runs once, and the latest submitter gets the result. While
                this client waits for it, a second submit is refused: use the first handle.
            then, notify: Jobs to run, and URLs to call (`Webhook`), after any end of this one. They
                are accepted together with it, or nothing is.
            timeout: How many seconds to wait for acceptance, from the end of the upload.
            progress: Called with the bytes uploaded and the total, unless there are followers.
            options: Job options, and keyword arguments of a function.

        Raises:
            DeadlineError: there was no response in time; the job may have been accepted.
            RollqError: it was refused; code and hint have the reason.
        """
    def submit_call(
        self,
        function: Task[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        job_id: JobId | str | None = None,
        key: str = "",
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingJob:
        """Submit a call of a function with Python values; returns when it is accepted. A job among
        the arguments is replaced by its value: the call waits for it in the grid, and the value
        goes directly from worker to worker. Otherwise like `submit`.

        Raises:
            TypeError: the arguments do not match, or one cannot be serialized.
            RollqError: it was refused, or not accepted in time.
        """
    def submit_many(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        keep_results: bool = True,
        timeout: float | None = None,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit many jobs and return a handle for all, when all are accepted.

        Give specs, or a name and an iterable of arguments (each a string, a sequence of strings, or
        bytes for a payload). Each job is accepted on its own: if one is refused, those before it
        stay accepted, and a note of the error has their number. `timeout` limits the time without
        any progress; `progress` is called with the number of accepted jobs.

        Raises:
            RollqError: a job was refused, or not accepted in time.
        """
    def submit_array(
        self,
        exec_name: str,
        count: int,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        running_max: int = 0,
        keep_results: bool = True,
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit an array of `count` tasks. They share arguments and files, and get their number in
        the environment. An array of any size is one record in the grid until its tasks run. `files`
        and the other arguments are those of `submit`.

        `then` and `notify` run after the whole array. They are submitted after it was accepted; if
        that fails, a note of the error has the id of the array.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
    def cancel(self, *job_ids: JobId | str) -> int:
        """Cancel jobs and arrays: waiting ones at once, running ones when their worker has stopped
        them. Returns how many had not ended."""
    def output(
        self,
        job_id: JobId | str,
        *,
        follow: bool = True,
        stream: str = "",
        tail: int | None = None,
        whole: bool = False,
    ) -> Iterator[StreamPart]:
        """Iterate over the output of a job: live while it runs, from the result after its end.

        Args:
            job_id: Any job, also of another client.
            follow: Whether to go on until the job ends; else only the output so far.
            stream: `stdout` or `stderr`; empty: both, each in order.
            tail: Begin with the last lines of each stream, instead of all output so far.
            whole: Whether to return the complete output, also if it was written before this call or
                faster than it can be streamed: missing parts are read from the result.

        Raises:
            RollqError: UNKNOWN_JOB; TIMED_OUT, if there was no response.
        """
    def map(
        self,
        jobs: str | Iterable[JobSpec] | Callable[..., Any],
        arguments: Iterable[Any] | None = None,
        *more: Iterable[Any],
        ordered: bool | None = None,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        chunksize: int | None = None,
        return_exceptions: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """Run a program or function over many arguments; an iterator over results or values.
        Leaving the loop early cancels the rest.

        A program or function by name: yields each `Result` as it arrives, or in order. An element
            of
        `arguments` is a string, a sequence of strings, or bytes (a payload).

        A function that is decorated with `@task`: yields its return values, in order; with several
        iterables it is called with one element of each, like Python's `map`. Keywords that are job
        options (`rollq.Options`) apply to its jobs, the others are passed to every call. Short
        calls are combined into one job, a bundle: cancels, attempts and limits apply to the bundle.

        Args:
            jobs: A name, a function, or job specs (without `arguments`).
            arguments: An iterable, read lazily; it may be infinite.
            more: Further iterables, for a function.
            ordered: Whether to keep the order of the arguments; default: for a function only.
            window: The maximum number of jobs in flight.
            progress: Called with the number of jobs that ended.
            chunksize: For a function, the number of calls per job; default: chosen from their run
                times, for about 10 ms per job.
            return_exceptions: For a function, whether to yield the exception of a call in its
                place. Otherwise it is raised, and ends the loop.
            options: Job options; for a function, also arguments of every call.

        Raises:
            TypeError: the arguments do not match the function, or one cannot be serialized.
            RollqError: a job was refused, or nothing was accepted for too long.
        """

class BlockingBatches:
    """`client.batches`: stage jobs in parts and accept all of them by one commit."""

    def settle(self, jobs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """Read the input files of jobs, unless their contents are given."""
    def stage_messages(
        self, messages: Iterable[Message], *, waits: bool = True, timeout: float | None = None
    ) -> None:
        """Send messages of a `PartBuilder`.

        Args:
            messages: Messages of any parts.
            waits: Whether to retry while the staging area is full.
            timeout: How many seconds may pass without any progress.

        Raises:
            RollqError: GRID_FULL if there is no room, BAD_OPTIONS if the batch is full.
        """
    def expect(self, first_id: JobId, count: int) -> BlockingBatch:
        """Return a handle for jobs with consecutive ids that are about to be committed. It receives
        the results of jobs that end from now on."""
    def forget(self, first_id: JobId) -> None:
        """Detach such a handle: it receives no more results."""
    def stage(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[JobSpec],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Stage jobs of a batch; returns when a majority has stored them. They stay invisible.

        Args:
            batch_key: The batch. Up to 256 bytes, unique for the client.
            part: A name that is unique in the batch, such as task and attempt.
            jobs: Any number, read lazily. The id of a job with a `key` is derived from client id
                and key, so that a job that was accepted before is not accepted again.
            client_id: The client that will own the jobs; default: this one.
            timeout: How many seconds may pass without any progress.

        Raises:
            LocalError: BAD_OPTIONS for an invalid job; nothing is submitted.
            RollqError: a message was refused, or not accepted in time.
        """
    def stage_redrives(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[Redrive],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Stage dead jobs of any client to run again; otherwise like `stage`.

        Raises:
            RollqError: a message was refused, or not accepted in time. Whether all of them are
                dead is checked by the commit.
        """
    def commit(
        self,
        batch_key: str,
        parts: Sequence[StagedPart],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> CommitOutcome:
        """Accept every job of these parts, all or none; other parts of the batch are dropped.

        The jobs appear in their queues shortly after. A batch that was committed before is not
        changed, whichever parts are named, and the outcome has `known=True`.

        Raises:
            StateError: BATCH_INCOMPLETE if a part is missing or differs from what was staged,
                JOB_CONFLICT if an id belongs to another job; nothing is accepted.
            RollqError: it was refused for another reason, or not answered in time.
        """
    def drop_batch(
        self, batch_key: str, *, client_id: str = "", timeout: float | None = None
    ) -> bool:
        """Drop the staged parts of a batch; false if there are none, or it is committed. A batch
        that is neither committed nor dropped expires after an hour."""
    def batch(self, batch_key: str, *, client_id: str = "") -> BatchView | None:
        """Return the state of a batch; None if it is unknown or has expired. The group does not
        record which jobs belong to it."""
    def list_batches(self, *, client_id: str = "") -> Iterator[BatchView]:
        """Iterate over the batches of a client, or of all clients, ordered by client and key."""

class BlockingCaches:
    """`client.caches`: named sets of files that workers keep, and blobs."""

    def __call__(self) -> Iterator[CacheView]:
        """Iterate over all caches, without their files, ordered by name."""
    def supply(self, pieces: Sequence[InputBlob]) -> None:
        """Like `upload`, for files that have been read already."""
    def cache_put(
        self,
        cache_id: str,
        files: Mapping[str, Any],
        *,
        target: str = "",
        need: int | str = "all",
        timeout: float = PUT_TIMEOUT_S,
        on_upload: BytesMoved | None = None,
        on_spread: Spread | None = None,
    ) -> CacheReport:
        """Store files in the group under a name, and wait until workers hold them.

        Storing the same files again is a no-op. Workers that connect later fetch them by
        themselves.

        Args:
            cache_id: The name that jobs refer to.
            files: Names, and bytes, paths (a folder includes its files) or references to blobs.
            target: The workers to distribute to: those with a pattern that overlaps this one;
                empty: all.
            need: How many must hold them: `all` connected ones, a number, or a share like `50%`.
            timeout: How many seconds to wait for the workers. An upload that makes progress does
                not count; finding a leader may take this long or the client's timeout, the shorter
                one.
            on_upload: Called with the bytes uploaded and the total.
            on_spread: Called repeatedly with the state of every worker.

        Raises:
            StateError: CACHE_CONFLICT if the name has other files.
            LocalError: a file cannot be read, or a name is invalid.
        """
    def upload(self, content: bytes) -> BlobRef:
        """Store bytes in the group as a blob. It is kept for at least an hour, and longer if a job
        or a cache refers to it by then."""
    def download(self, ref: BlobRef) -> bytes:
        """Return the bytes of a blob, after verifying its digest."""
    def cache_remove(self, cache_id: str) -> None:
        """Remove a cache. Workers delete its files when no job needs them any more.

        Raises:
            StateError: UNKNOWN_CACHE.
        """
    def cache(self, cache_id: str) -> CacheView | None:
        """Return a cache with its files; None if it does not exist."""
    def cache_holders(self, cache_id: str) -> list[HolderView]:
        """Return the state of a cache on every connected worker that matches its target."""

class BlockingAdmin:
    """`client.admin`: queues, workers, settings and members of the group."""

    def counts(self) -> QueueView:
        """Return the counts of all queues, added up."""
    def queue(self, name: str) -> QueueView | None:
        """Return the counts of a queue, or None if it does not exist."""
    def queues(self) -> Iterator[QueueView]:
        """Iterate over all queues, ordered by name."""
    def client(self, client_id: str = "") -> ClientView | None:
        """Return the view of a client, by default of this one; None if it is unknown."""
    def workers(self) -> Iterator[WorkerView]:
        """Iterate over all connected workers, ordered by id."""
    def settings(self) -> Settings:
        """Return the cluster's settings."""
    def hints(self) -> list[ExecHint]:
        """Return the expected run times of programs, as set by `set_hints`, ordered by name."""
    def cluster(self) -> dict[str, Any]:
        """Return the members of the group: the leader, addresses, replication lag and disk."""
    def groups(self) -> FederationView:
        """Return the federation's groups, as this group's leader knows them."""
    def query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """Return a view by its wire name, encoded as msgpack."""
    def pause(self, queue: str) -> None:
        """Stop assigning jobs of a queue until `resume`. Running jobs go on."""
    def resume(self, queue: str) -> None:
        """Assign jobs of a queue again."""
    def set_settings(self, settings: Settings) -> None:
        """Replace the cluster's settings. To change some, replace fields of `settings`."""
    def set_hints(self, hints: Iterable[ExecHint]) -> int:
        """Replace the expected run times of programs; with none they are cleared. Returns how many
        there are now. They are used while the setting `use_hints` is on."""
    def dismiss(self, *worker_ids: WorkerId | str) -> int:
        """Stop workers at once: their running jobs are killed and run again elsewhere. Returns how
        many were stopped; a worker that is not connected at the moment is not."""
    def drain(
        self, *workers: WorkerId | str, wait: bool = False, timeout: float | None = None
    ) -> int:
        """Assign no new jobs to workers until `undrain`, also after a restart. Running jobs go on;
        jobs that were assigned but not started run elsewhere. Returns how many were not drained
        before.

        Args:
            workers: Names, ids, or the first digits of an id (8 at least); a name means all
                workers that have it.
            wait: Whether to wait until none of them runs a job.
            timeout: How many seconds to wait for that; None: without limit.

        Raises:
            StateError: UNKNOWN_WORKER.
            DeadlineError: TIMED_OUT: they still run jobs. They stay drained.
        """
    def undrain(self, *workers: WorkerId | str) -> int:
        """Assign jobs to drained workers again. Returns how many were drained."""
    def drained(self) -> Iterator[DrainView]:
        """Iterate over all drained workers, also those not connected, ordered by id."""
    def add_member(self, member_id: MemberId, address: str) -> None:
        """Add a member to the group. It votes as soon as it has caught up.

        Raises:
            LocalError: BAD_ADDRESS, if the address is not host:port.
        """
    def remove_member(self, member_id: MemberId) -> None:
        """Remove a member from the group."""
    def transfer(self, member_id: MemberId) -> None:
        """Transfer leadership to a member."""
    def put_topic(
        self,
        name: str,
        *patterns: str,
        age_ms: int = TOPIC_AGE_MS,
        bytes_max: int = TOPIC_BYTES,
        count_max: int = TOPIC_COUNT,
    ) -> None:
        """Create or change a topic. It stores messages that are published to its subjects from then
        on. Beyond a bound the oldest are dropped.

        Args:
            name: Lower case letters, digits and dashes, with dots in between.
            patterns: Of its subjects, such as `prices.>`; they must not overlap with another topic.
            age_ms: How long a message is kept; 0: without limit.
            bytes_max: Maximum size; a message counts 256 bytes more than its payload.
            count_max: Maximum number of messages.

        Raises:
            StateError: TOPIC_CONFLICT; GRID_FULL, if the sum over all topics exceeds the limit.
            RemoteError: BAD_OPTIONS, BAD_SUBJECT.
        """
    def remove_topic(self, name: str) -> None:
        """Delete a topic with its messages and durable subscriptions.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
    def forget_cursor(self, topic: str, durable: str) -> None:
        """Delete the position of a durable subscription; it begins anew if it is used again.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
    def topic(self, name: str) -> TopicView | None:
        """Return a topic with its durable subscriptions; None if it does not exist."""
    def topics(self) -> Iterator[TopicView]:
        """Iterate over all topics, ordered by name."""
    def policies(self) -> list[PolicyView]:
        """Return the placement policies, by pattern; other queues use `least-load`."""
    def set_policy(
        self, pattern: str, placement: str, weights: Mapping[str, int] | None = None
    ) -> None:
        """Set how the queues that match a pattern choose workers. The most specific pattern
        applies.

        Args:
            pattern: Of queue names: `render`, `render.*`, `>`.
            placement: `least-load`, `round-robin`, `sticky`, `locality` or `score`.
            weights: For `score`: `credit`, `running`, `cpu`, `memory`, `held`, each 0 to 1000.
        """
    def remove_policy(self, pattern: str) -> bool:
        """Remove the policy of a pattern; false if there was none."""
    def limits(self) -> list[LimitView]:
        """Return all limits with their current usage, by name."""
    def set_limit(
        self, name: str, *, running: int = 0, rate: str | float = 0, burst: int = 0
    ) -> None:
        """Limit how many jobs run at once, or start per time. Running jobs go on.

        Args:
            name: `exec:PROGRAM`, `queue:QUEUE`, `client:CLIENT`, or `key:KEY` for jobs that have
                the key in their option `limits`.
            running: Jobs at once, or tokens of a key; 0: no limit.
            rate: Starts: `3/s`, `90/min`, or a number per second; 0: no limit.
            burst: How many may start at once; default: those of one second.
        """
    def remove_limit(self, name: str) -> bool:
        """Remove a limit; false if there was none."""
    def weights(self) -> list[WeightView]:
        """Return the weights of clients, by id; the default is 1."""
    def set_weight(self, client_id: str, weight: int) -> None:
        """Set the weight of a client in fair queueing: its share relative to others, 1 to 100."""

class BlockingAccess:
    """`client.access`: accounts and roles, and what they may do."""

    def accounts(self) -> Iterator[AccountView]:
        """Iterate over all accounts, ordered by name."""
    def account(self, name: str) -> AccountView | None:
        """Return an account, or None if it does not exist."""
    def roles(self) -> Iterator[RoleView]:
        """Iterate over all roles, including the built-in ones, ordered by name."""
    def role(self, name: str) -> RoleView | None:
        """Return a role, or None if it does not exist."""
    def add(self, name: str, *, roles: Iterable[str] = (), rules: Iterable[Rule] = ()) -> None:
        """Create an account. Nobody can log in to it until it has a token, a key or a certificate.

        Raises:
            StateError: BAD_ACCESS if it exists already.
        """
    def remove(self, name: str) -> None:
        """Delete an account. Its tokens and keys stop working."""
    def set_disabled(self, name: str, is_disabled: bool) -> None:
        """Disable or enable an account. A disabled account cannot log in."""
    def add_roles(self, name: str, *roles: str) -> None:
        """Add roles to an account; the roles that it has stay."""
    def remove_roles(self, name: str, *roles: str) -> None:
        """Remove roles from an account."""
    def add_rules(self, name: str, *rules: Rule) -> None:
        """Add rules to an account; the rules that it has stay."""
    def remove_rules(self, name: str, *rules: Rule) -> None:
        """Remove rules from an account."""
    def new_token(self, name: str, *, expires_ms: int = 0) -> str:
        """Create a token for an account and return it. It cannot be read again: the group stores a
        hash.

        Args:
            name: The account.
            expires_ms: When it expires, in milliseconds since 1970; 0: never.
        """
    def remove_token(self, name: str, token_id: str) -> None:
        """Revoke a token."""
    def add_key(self, name: str, public_key: bytes) -> None:
        """Add an Ed25519 public key (32 bytes) that the account can log in with."""
    def remove_key(self, name: str, public_key: bytes) -> None:
        """Revoke a key."""
    def add_role(self, name: str, *rules: Rule) -> None:
        """Create a role.

        Raises:
            StateError: BAD_ACCESS if it exists already.
        """
    def add_role_rules(self, name: str, *rules: Rule) -> None:
        """Add rules to a role. They apply to every account that has the role."""
    def remove_role_rules(self, name: str, *rules: Rule) -> None:
        """Remove rules from a role."""
    def remove_role(self, name: str) -> None:
        """Delete a role. Refused while an account has it."""
    def check(self, name: str, action: str, *resources: str) -> AccessDecision:
        """Check whether an account may do an action on all of these resources, and by which rules.

        Args:
            name: The account.
            action: The action as rules spell it, such as `jobs.cancel`.
            resources: `KIND:NAME` each, such as `client:alice/7`; `KIND:*` is all of a kind.
        """

class BlockingSchedules:
    """`client.schedules`: jobs that the grid submits by itself, by cron or interval."""

    def put(
        self,
        name: str,
        exec_name: str,
        args: Sequence[str] = (),
        *,
        cron: str = "",
        zone: str = "UTC",
        every: float | timedelta = 0,
        jitter: float | timedelta = 0,
        overlap: str = SKIP,
        catch_up: str = LAST,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        **options: Unpack[Options],
    ) -> ScheduleView:
        """Create or change a schedule; its counters are kept.

        Args:
            name: Of a-z, A-Z and 0-9, with `_ . / -` in between.
            exec_name: The program or function; `args`, `files`, `outputs`, `payload` and options
                are those of `submit`. Put large files into a cache.
            cron: `minute hour day month weekday`, or `@daily` and the like.
            zone: The time zone of `cron`: `Asia/Tokyo`.
            every: Instead of `cron`: the interval in whole seconds.
            jitter: The maximum delay of a firing; derived from its due time.
            overlap: If the previous job has not ended: `skip`, `queue` both, `cancel` the older.
            catch_up: Which due times to make up for after an outage: `none`, `last` or `all`.

        Raises:
            RemoteError: BAD_OPTIONS: an invalid expression or zone, or a value out of bounds.
            LocalError: BAD_OPTIONS: the files do not fit into a request.
        """
    def get(self, name: str) -> ScheduleView | None:
        """Return a schedule, or None if it does not exist."""
    def list(self) -> Iterator[ScheduleView]:
        """Iterate over all schedules, ordered by name."""
    def remove(self, name: str) -> None:
        """Delete a schedule. Its jobs go on.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
    def pause(self, name: str) -> None:
        """Stop firing until `resume`.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
    def resume(self, name: str) -> ScheduleView:
        """Fire again from the next due time; those during the pause are skipped.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
    def run(self, name: str) -> str:
        """Submit a job of a schedule now, also if it is paused or overlaps; returns the job's id.

        Raises:
            StateError: UNKNOWN_SCHEDULE, or the submit was refused.
        """

class BlockingClient:
    """The blocking form of `Client`, with the same arguments.

    Callbacks are called in the client's thread. Iterables are read there too, except those of
    `stage` and `stage_redrives`, which are read in the calling thread.
    """
    def __init__(
        self,
        addresses: str,
        *,
        client_id: str = "",
        desired_parallelism: int = 0,
        timeout: float = 30.0,
        shares_id: bool = False,
        credentials: Credentials | str | Path = NONE,
        allow_pickle: bool = False,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def start(self) -> None:
        """Start the thread and connect, in the background, to the leader."""
    def stop(self) -> None:
        """Close the connection and end the thread. Jobs go on."""
    @property
    def jobs(self) -> BlockingJobs: ...
    @property
    def batches(self) -> BlockingBatches: ...
    @property
    def caches(self) -> BlockingCaches: ...
    @property
    def admin(self) -> BlockingAdmin: ...
    @property
    def access(self) -> BlockingAccess: ...
    @property
    def schedules(self) -> BlockingSchedules: ...
    @property
    def is_connected(self) -> bool:
        """Whether the session with a leader is open."""
    @property
    def has_submitted(self) -> bool:
        """Whether jobs were ever sent: without an answer they may have been accepted. Files of a
        job are sent before it."""
    @property
    def leader(self) -> str:
        """The address of the leader of the open session; empty if there is none."""
    @property
    def client_id(self) -> str:
        """The client id. Results are sent to the clients that connect with it."""
    def attach(self, job_id: JobId | str, *, timeout: float | None = None) -> BlockingJob:
        """Return a handle for a job that another process submitted with this client id.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE if it belongs to another client, which receives its
                result.
        """
    def result_of(self, job_id: JobId | str, *, timeout: float | None = None) -> Result:
        """Return the result of a job of any client, without confirming it for that client.

        Raises:
            StateError: UNKNOWN_JOB, also if the result is not kept any more; WRONG_STATE if the job
                has not ended.
        """
    def unclaimed(self) -> list[Result]:
        """Return and confirm results that arrived for jobs that this process did not submit, but an
        earlier one with this client id."""
    def keyed_run(self, *, on_made: OnMade | None = None) -> BlockingKeyedRun:
        """Create a run for jobs with ids of their own, some of which may have been submitted
        before. `on_made` is called, in the client's thread, with the ids of those that were new."""
    def status(self, job_id: JobId | str, *, timeout: float | None = None) -> JobView | None:
        """Return the state of a job or task; None if it is unknown or has expired."""
    def array(self, array_id: JobId | str) -> ArrayView | None:
        """Return an array with its task counts; None if it is unknown or has expired."""
    def explain(self, job_id: JobId | str) -> Explanation | None:
        """Explain why a job or array waits, or how it ended, and what would help; None if it is
        unknown or has expired."""
    def dead(self) -> Iterator[JobView]:
        """Iterate over all dead jobs, oldest first."""
    def redrive(
        self,
        *job_ids: JobId | str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        queue: str = "",
    ) -> int:
        """Run dead jobs again, with a new set of attempts; attempt numbers go on. They keep id,
        key, owner, options and files. A job that failed is not dead: its client has the result, and
        `submit_like` runs it again. Returns how many were redriven.

        Args:
            job_ids: Dead jobs; all or none are redriven.
            args: New arguments for each of them.
            env: Environment variables to set; None removes one. Others are kept.
            queue: A new queue for each of them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, also if a request is too large to be changed.
            RollqError: the change is invalid, or not permitted.
        """
    def submit_like(
        self,
        job_id: JobId | str,
        args: Sequence[str] | None = None,
        *,
        env: Mapping[str, str | None] | None = None,
        queue: str = "",
        timeout: float | None = None,
    ) -> BlockingJob:
        """Submit a new job with the program, options, files and variables of another one, whatever
        its state; `args`, `env` and `queue` replace its own. After a job's end the grid keeps
        requests up to 1 KiB, without variables, and files only while something else refers to them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, if its request is not kept any more.
            RollqError: it was refused, or not accepted in time.
        """
    def purge(self, *job_ids: JobId | str) -> int:
        """Delete dead jobs; returns how many."""
    def submit_steps(
        self, step: Step, args: Sequence[Any] = (), *, timeout: float | None = None
    ) -> BlockingJob | BlockingJobGroup:
        """Submit a chain, a group or a chord; returns when all of its jobs are accepted. The handle
        is that of the last call, or of the last group. `args` come before those of the first call.

        Raises:
            TypeError: the arguments do not match a function, or cannot be serialized.
            RollqError: it was refused, and nothing is accepted; or TIMED_OUT: it may be accepted
                yet, as a whole.
        """
    def stage(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[JobSpec],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Stage jobs of a batch; returns when a majority has stored them. They stay invisible.

        Args:
            batch_key: The batch. Up to 256 bytes, unique for the client.
            part: A name that is unique in the batch, such as task and attempt.
            jobs: Any number, read lazily. The id of a job with a `key` is derived from client id
                and key, so that a job that was accepted before is not accepted again.
            client_id: The client that will own the jobs; default: this one.
            timeout: How many seconds may pass without any progress.

        Raises:
            LocalError: BAD_OPTIONS for an invalid job; nothing is submitted.
            RollqError: a message was refused, or not accepted in time.
        """
    def stage_redrives(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[Redrive],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Stage dead jobs of any client to run again; otherwise like `stage`.

        Raises:
            RollqError: a message was refused, or not accepted in time. Whether all of them are
                dead is checked by the commit.
        """
    def commit(
        self,
        batch_key: str,
        parts: Sequence[StagedPart],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> CommitOutcome:
        """Accept every job of these parts, all or none; other parts of the batch are dropped.

        The jobs appear in their queues shortly after. A batch that was committed before is not
        changed, whichever parts are named, and the outcome has `known=True`.

        Raises:
            StateError: BATCH_INCOMPLETE if a part is missing or differs from what was staged,
                JOB_CONFLICT if an id belongs to another job; nothing is accepted.
            RollqError: it was refused for another reason, or not answered in time.
        """
    def drop_batch(
        self, batch_key: str, *, client_id: str = "", timeout: float | None = None
    ) -> bool:
        """Drop the staged parts of a batch; false if there are none, or it is committed. A batch
        that is neither committed nor dropped expires after an hour."""
    def batch(self, batch_key: str, *, client_id: str = "") -> BatchView | None:
        """Return the state of a batch; None if it is unknown or has expired. The group does not
        record which jobs belong to it."""
    def list_batches(self, *, client_id: str = "") -> Iterator[BatchView]:
        """Iterate over the batches of a client, or of all clients, ordered by client and key."""
    def cache_put(
        self,
        cache_id: str,
        files: Mapping[str, Any],
        *,
        target: str = "",
        need: int | str = "all",
        timeout: float = PUT_TIMEOUT_S,
        on_upload: BytesMoved | None = None,
        on_spread: Spread | None = None,
    ) -> CacheReport:
        """Store files in the group under a name, and wait until workers hold them.

        Storing the same files again is a no-op. Workers that connect later fetch them by
        themselves.

        Args:
            cache_id: The name that jobs refer to.
            files: Names, and bytes, paths (a folder includes its files) or references to blobs.
            target: The workers to distribute to: those with a pattern that overlaps this one;
                empty: all.
            need: How many must hold them: `all` connected ones, a number, or a share like `50%`.
            timeout: How many seconds to wait for the workers. An upload that makes progress does
                not count; finding a leader may take this long or the client's timeout, the shorter
                one.
            on_upload: Called with the bytes uploaded and the total.
            on_spread: Called repeatedly with the state of every worker.

        Raises:
            StateError: CACHE_CONFLICT if the name has other files.
            LocalError: a file cannot be read, or a name is invalid.
        """
    def upload(self, content: bytes) -> BlobRef:
        """Store bytes in the group as a blob. It is kept for at least an hour, and longer if a job
        or a cache refers to it by then."""
    def download(self, ref: BlobRef) -> bytes:
        """Return the bytes of a blob, after verifying its digest."""
    def cache_remove(self, cache_id: str) -> None:
        """Remove a cache. Workers delete its files when no job needs them any more.

        Raises:
            StateError: UNKNOWN_CACHE.
        """
    def cache(self, cache_id: str) -> CacheView | None:
        """Return a cache with its files; None if it does not exist."""
    def cache_holders(self, cache_id: str) -> list[HolderView]:
        """Return the state of a cache on every connected worker that matches its target."""
    def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        *,
        confirm: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Publish a message to the subscribers of a subject.

        Args:
            subject: The subject, such as `prices.eur`.
            payload: Bytes, or text, which is encoded as UTF-8.
            confirm: Whether to wait for the leader's response. Otherwise errors are not reported,
                and a message is lost if the leader fails.
            timeout: How many seconds to wait for a leader, and for its response.

        Returns:
            With `confirm`, the number of subscriptions it was sent to, or its index if a topic
            stores it; else 0.

        Raises:
            LocalError: BAD_SUBJECT, or BAD_PAYLOAD if it is too large.
            StateError: OUTCOME_UNKNOWN, if the leader was lost before its response. It is not sent
                again.
        """
    def subscribe(
        self,
        pattern: str,
        *,
        queue_group: str = "",
        topic: str = "",
        durable: str = "",
        from_index: int = 0,
        timeout: float | None = None,
    ) -> BlockingSubscription:
        """Subscribe to the subjects of a pattern, from now on.

            async with await client.subscribe("prices.*") as prices:
                async for message in prices:
                    print(message.subject, message.payload)

        After a fail-over it continues at the next leader; messages in between are missed. A
        subscription to a topic misses nothing that the topic keeps:

            async for message in await client.subscribe(">", topic="prices", durable="desk-1"):
                ...  # acknowledged when the next one is read; `message.index` identifies repeats

        Args:
            pattern: A subject; `*` matches one part, `>` at the end all that follow.
            queue_group: Each message goes to one of the subscriptions with the same group.
            topic: Read the messages that this topic stores, in order, and then new ones.
            durable: A name under which the group stores the read position; a subscription with
                the same name continues there. One session at a time may use it; a new session
                of the same client id takes it over.
            from_index: Where to begin in the topic without a stored position: 0: new messages;
                -1: all stored ones; else this index.
            timeout: How many seconds to wait for the response.

        Raises:
            LocalError: BAD_SUBJECT.
            StateError: ACCESS_DENIED; OVERLOADED, if there are too many subscriptions;
                UNKNOWN_TOPIC; DURABLE_TAKEN, if another client uses the durable name.
        """
    def events(self, job_id: JobId | str) -> Iterator[JobEvent]:
        """Iterate over the events of a job from now until its end: state changes, and progress
        (`JobEvent.progress`) if the program reports it, first the last one that is known. Events
        during a leader change are lost, except the end.

        Raises:
            StateError: UNKNOWN_JOB.
        """
    def progress(self, job_id: JobId | str) -> JobProgress | None:
        """Return the last progress that a running job reported to this leader; None if there is
        none."""
    def request(
        self, subject: str, payload: bytes | str = b"", *, timeout: float | None = None
    ) -> BlockingPublication:
        """Publish a request and return the first response (`Publication.respond`).

        Raises:
            StateError: NO_RESPONDERS, at once, if no subscription matches; OUTCOME_UNKNOWN, if the
                leader was lost before the response.
            DeadlineError: there was no response in time.
        """
    def counts(self) -> QueueView:
        """Return the counts of all queues, added up."""
    def queue(self, name: str) -> QueueView | None:
        """Return the counts of a queue, or None if it does not exist."""
    def queues(self) -> Iterator[QueueView]:
        """Iterate over all queues, ordered by name."""
    def client(self, client_id: str = "") -> ClientView | None:
        """Return the view of a client, by default of this one; None if it is unknown."""
    def workers(self) -> Iterator[WorkerView]:
        """Iterate over all connected workers, ordered by id."""
    def settings(self) -> Settings:
        """Return the cluster's settings."""
    def hints(self) -> list[ExecHint]:
        """Return the expected run times of programs, as set by `set_hints`, ordered by name."""
    def cluster(self) -> dict[str, Any]:
        """Return the members of the group: the leader, addresses, replication lag and disk."""
    def groups(self) -> FederationView:
        """Return the federation's groups, as this group's leader knows them."""
    def query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """Return a view by its wire name, encoded as msgpack."""
    def pause(self, queue: str) -> None:
        """Stop assigning jobs of a queue until `resume`. Running jobs go on."""
    def resume(self, queue: str) -> None:
        """Assign jobs of a queue again."""
    def set_settings(self, settings: Settings) -> None:
        """Replace the cluster's settings. To change some, replace fields of `settings`."""
    def set_hints(self, hints: Iterable[ExecHint]) -> int:
        """Replace the expected run times of programs; with none they are cleared. Returns how many
        there are now. They are used while the setting `use_hints` is on."""
    def dismiss(self, *worker_ids: WorkerId | str) -> int:
        """Stop workers at once: their running jobs are killed and run again elsewhere. Returns how
        many were stopped; a worker that is not connected at the moment is not."""
    def drain(
        self, *workers: WorkerId | str, wait: bool = False, timeout: float | None = None
    ) -> int:
        """Assign no new jobs to workers until `undrain`, also after a restart. Running jobs go on;
        jobs that were assigned but not started run elsewhere. Returns how many were not drained
        before.

        Args:
            workers: Names, ids, or the first digits of an id (8 at least); a name means all
                workers that have it.
            wait: Whether to wait until none of them runs a job.
            timeout: How many seconds to wait for that; None: without limit.

        Raises:
            StateError: UNKNOWN_WORKER.
            DeadlineError: TIMED_OUT: they still run jobs. They stay drained.
        """
    def undrain(self, *workers: WorkerId | str) -> int:
        """Assign jobs to drained workers again. Returns how many were drained."""
    def drained(self) -> Iterator[DrainView]:
        """Iterate over all drained workers, also those not connected, ordered by id."""
    def add_member(self, member_id: MemberId, address: str) -> None:
        """Add a member to the group. It votes as soon as it has caught up.

        Raises:
            LocalError: BAD_ADDRESS, if the address is not host:port.
        """
    def remove_member(self, member_id: MemberId) -> None:
        """Remove a member from the group."""
    def transfer(self, member_id: MemberId) -> None:
        """Transfer leadership to a member."""
    def put_topic(
        self,
        name: str,
        *patterns: str,
        age_ms: int = TOPIC_AGE_MS,
        bytes_max: int = TOPIC_BYTES,
        count_max: int = TOPIC_COUNT,
    ) -> None:
        """Create or change a topic. It stores messages that are published to its subjects from then
        on. Beyond a bound the oldest are dropped.

        Args:
            name: Lower case letters, digits and dashes, with dots in between.
            patterns: Of its subjects, such as `prices.>`; they must not overlap with another topic.
            age_ms: How long a message is kept; 0: without limit.
            bytes_max: Maximum size; a message counts 256 bytes more than its payload.
            count_max: Maximum number of messages.

        Raises:
            StateError: TOPIC_CONFLICT; GRID_FULL, if the sum over all topics exceeds the limit.
            RemoteError: BAD_OPTIONS, BAD_SUBJECT.
        """
    def remove_topic(self, name: str) -> None:
        """Delete a topic with its messages and durable subscriptions.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
    def forget_cursor(self, topic: str, durable: str) -> None:
        """Delete the position of a durable subscription; it begins anew if it is used again.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
    def topic(self, name: str) -> TopicView | None:
        """Return a topic with its durable subscriptions; None if it does not exist."""
    def topics(self) -> Iterator[TopicView]:
        """Iterate over all topics, ordered by name."""
    def policies(self) -> list[PolicyView]:
        """Return the placement policies, by pattern; other queues use `least-load`."""
    def set_policy(
        self, pattern: str, placement: str, weights: Mapping[str, int] | None = None
    ) -> None:
        """Set how the queues that match a pattern choose workers. The most specific pattern
        applies.

        Args:
            pattern: Of queue names: `render`, `render.*`, `>`.
            placement: `least-load`, `round-robin`, `sticky`, `locality` or `score`.
            weights: For `score`: `credit`, `running`, `cpu`, `memory`, `held`, each 0 to 1000.
        """
    def remove_policy(self, pattern: str) -> bool:
        """Remove the policy of a pattern; false if there was none."""
    def limits(self) -> list[LimitView]:
        """Return all limits with their current usage, by name."""
    def set_limit(
        self, name: str, *, running: int = 0, rate: str | float = 0, burst: int = 0
    ) -> None:
        """Limit how many jobs run at once, or start per time. Running jobs go on.

        Args:
            name: `exec:PROGRAM`, `queue:QUEUE`, `client:CLIENT`, or `key:KEY` for jobs that have
                the key in their option `limits`.
            running: Jobs at once, or tokens of a key; 0: no limit.
            rate: Starts: `3/s`, `90/min`, or a number per second; 0: no limit.
            burst: How many may start at once; default: those of one second.
        """
    def remove_limit(self, name: str) -> bool:
        """Remove a limit; false if there was none."""
    def weights(self) -> list[WeightView]:
        """Return the weights of clients, by id; the default is 1."""
    def set_weight(self, client_id: str, weight: int) -> None:
        """Set the weight of a client in fair queueing: its share relative to others, 1 to 100."""
    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> BlockingJob:
        """Submit a call of any function, such as a lambda or one of a notebook, with Python values.
        It is pickled by cloudpickle, and runs on workers with `--app rollq.pickled`.

        Raises:
            LocalError: BAD_SETUP, if the client was not created with `allow_pickle`, or cloudpickle
                is not installed.
            TypeError: the function cannot be pickled, or an argument cannot be serialized.
        """
    def submit(
        self,
        job: str | JobSpec | Task[..., Any],
        *args: Any,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        job_id: JobId | str | None = None,
        key: str = "",
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Any,
    ) -> BlockingJob:
        """Submit a job; returns its handle when a majority of the group has stored it.

        `submit("program", ["1", "2"])` runs a program or function by name, with text arguments.
        `submit(function, 1, b=2)` calls a function that is decorated with `@task` with Python
        values; job options (`rollq.Options`) are not passed to it. `submit_call` separates them.

        Args:
            job, args: A function and its arguments, a name and one list of strings, or a spec.
            files: Input files by name: bytes, a path of a file or folder, or a reference. Small
                ones are part of the job, others are uploaded unless the group has them.
            outputs: Patterns of the output files to keep; default: all new files.
            payload: Bytes or text instead of arguments.
            job_id, key: An id or text of your own, which makes the submit idempotent: the same one
                under the same client id runs once, and the latest submitter gets the result. While
                this client waits for it, a second submit is refused: use the first handle.
            then, notify: Jobs to run, and URLs to call (`Webhook`), after any end of this one. They
                are accepted together with it, or nothing is.
            timeout: How many seconds to wait for acceptance, from the end of the upload.
            progress: Called with the bytes uploaded and the total, unless there are followers.
            options: Job options, and keyword arguments of a function.

        Raises:
            DeadlineError: there was no response in time; the job may have been accepted.
            RollqError: it was refused; code and hint have the reason.
        """
    def submit_call(
        self,
        function: Task[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        job_id: JobId | str | None = None,
        key: str = "",
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingJob:
        """Submit a call of a function with Python values; returns when it is accepted. A job among
        the arguments is replaced by its value: the call waits for it in the grid, and the value
        goes directly from worker to worker. Otherwise like `submit`.

        Raises:
            TypeError: the arguments do not match, or one cannot be serialized.
            RollqError: it was refused, or not accepted in time.
        """
    def submit_many(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        keep_results: bool = True,
        timeout: float | None = None,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit many jobs and return a handle for all, when all are accepted.

        Give specs, or a name and an iterable of arguments (each a string, a sequence of strings, or
        bytes for a payload). Each job is accepted on its own: if one is refused, those before it
        stay accepted, and a note of the error has their number. `timeout` limits the time without
        any progress; `progress` is called with the number of accepted jobs.

        Raises:
            RollqError: a job was refused, or not accepted in time.
        """
    def submit_array(
        self,
        exec_name: str,
        count: int,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        running_max: int = 0,
        keep_results: bool = True,
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit an array of `count` tasks. They share arguments and files, and get their number in
        the environment. An array of any size is one record in the grid until its tasks run. `files`
        and the other arguments are those of `submit`.

        `then` and `notify` run after the whole array. They are submitted after it was accepted; if
        that fails, a note of the error has the id of the array.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
    def cancel(self, *job_ids: JobId | str) -> int:
        """Cancel jobs and arrays: waiting ones at once, running ones when their worker has stopped
        them. Returns how many had not ended."""
    def output(
        self,
        job_id: JobId | str,
        *,
        follow: bool = True,
        stream: str = "",
        tail: int | None = None,
        whole: bool = False,
    ) -> Iterator[StreamPart]:
        """Iterate over the output of a job: live while it runs, from the result after its end.

        Args:
            job_id: Any job, also of another client.
            follow: Whether to go on until the job ends; else only the output so far.
            stream: `stdout` or `stderr`; empty: both, each in order.
            tail: Begin with the last lines of each stream, instead of all output so far.
            whole: Whether to return the complete output, also if it was written before this call or
                faster than it can be streamed: missing parts are read from the result.

        Raises:
            RollqError: UNKNOWN_JOB; TIMED_OUT, if there was no response.
        """
    def map(
        self,
        jobs: str | Iterable[JobSpec] | Callable[..., Any],
        arguments: Iterable[Any] | None = None,
        *more: Iterable[Any],
        ordered: bool | None = None,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        chunksize: int | None = None,
        return_exceptions: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """Run a program or function over many arguments; an iterator over results or values.
        Leaving the loop early cancels the rest.

        A program or function by name: yields each `Result` as it arrives, or in order. An element
            of
        `arguments` is a string, a sequence of strings, or bytes (a payload).

        A function that is decorated with `@task`: yields its return values, in order; with several
        iterables it is called with one element of each, like Python's `map`. Keywords that are job
        options (`rollq.Options`) apply to its jobs, the others are passed to every call. Short
        calls are combined into one job, a bundle: cancels, attempts and limits apply to the bundle.

        Args:
            jobs: A name, a function, or job specs (without `arguments`).
            arguments: An iterable, read lazily; it may be infinite.
            more: Further iterables, for a function.
            ordered: Whether to keep the order of the arguments; default: for a function only.
            window: The maximum number of jobs in flight.
            progress: Called with the number of jobs that ended.
            chunksize: For a function, the number of calls per job; default: chosen from their run
                times, for about 10 ms per job.
            return_exceptions: For a function, whether to yield the exception of a call in its
                place. Otherwise it is raised, and ends the loop.
            options: Job options; for a function, also arguments of every call.

        Raises:
            TypeError: the arguments do not match the function, or one cannot be serialized.
            RollqError: a job was refused, or nothing was accepted for too long.
        """

class BlockingMultiClient:
    """The blocking form of `MultiClient`, with the same arguments."""

    def __init__(
        self,
        groups: Sequence[str] | Mapping[str, str] | Federation,
        *,
        client_id: str = "",
        desired_parallelism: int = 0,
        policy: str = Policy.ROUND_ROBIN,
        weights: Mapping[str, int] | None = None,
        routes: Sequence[str] = (),
        timeout: float = 30.0,
        credentials: Credentials | str | Path = NONE,
    ) -> None: ...
    @classmethod
    def discover(cls, addresses: str, **options: Any) -> Self:
        """The same as `MultiClient.discover`."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def start(self) -> None:
        """Start the thread and connect, in the background, to the leader."""
    def stop(self) -> None:
        """Close the connection and end the thread. Jobs go on."""
    @property
    def inflight(self) -> tuple[int, ...]:
        """The number of jobs in flight in each group."""
    @property
    def spread(self) -> dict[str, int]:
        """The number of results per group, by name. The name of an unnamed group is its addresses.
        Duplicate results are not counted."""
    @property
    def pending(self) -> int:
        """The number of jobs that are not assigned to a group yet."""
    def add_group(self, addresses: str, *, name: str = "", weight: int = 1) -> None:
        """Add a group. It gets a share of the pending jobs.

        Raises:
            LocalError: BAD_OPTIONS, if the name is in use, or there are too many groups.
        """
    def remove_group(self, name: str) -> None:
        """Remove a group. Its unfinished jobs are submitted to other groups under the same ids, and
        cancelled in it: some may run twice.

        Raises:
            LocalError: BAD_OPTIONS, if there is no group of this name.
        """
    @property
    def client_id(self) -> str:
        """The client id. Results are sent to the clients that connect with it."""
    def submit(
        self,
        job: str | JobSpec | Task[..., Any],
        *args: Any,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        job_id: JobId | str | None = None,
        key: str = "",
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Any,
    ) -> BlockingJob:
        """Submit a job; returns its handle when a majority of the group has stored it.

        `submit("program", ["1", "2"])` runs a program or function by name, with text arguments.
        `submit(function, 1, b=2)` calls a function that is decorated with `@task` with Python
        values; job options (`rollq.Options`) are not passed to it. `submit_call` separates them.

        Args:
            job, args: A function and its arguments, a name and one list of strings, or a spec.
            files: Input files by name: bytes, a path of a file or folder, or a reference. Small
                ones are part of the job, others are uploaded unless the group has them.
            outputs: Patterns of the output files to keep; default: all new files.
            payload: Bytes or text instead of arguments.
            job_id, key: An id or text of your own, which makes the submit idempotent: the same one
                under the same client id runs once, and the latest submitter gets the result. While
                this client waits for it, a second submit is refused: use the first handle.
            then, notify: Jobs to run, and URLs to call (`Webhook`), after any end of this one. They
                are accepted together with it, or nothing is.
            timeout: How many seconds to wait for acceptance, from the end of the upload.
            progress: Called with the bytes uploaded and the total, unless there are followers.
            options: Job options, and keyword arguments of a function.

        Raises:
            DeadlineError: there was no response in time; the job may have been accepted.
            RollqError: it was refused; code and hint have the reason.
        """
    def submit_call(
        self,
        function: Task[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        job_id: JobId | str | None = None,
        key: str = "",
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingJob:
        """Submit a call of a function with Python values; returns when it is accepted. A job among
        the arguments is replaced by its value: the call waits for it in the grid, and the value
        goes directly from worker to worker. Otherwise like `submit`.

        Raises:
            TypeError: the arguments do not match, or one cannot be serialized.
            RollqError: it was refused, or not accepted in time.
        """
    def submit_many(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        keep_results: bool = True,
        timeout: float | None = None,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit many jobs and return a handle for all, when all are accepted.

        Give specs, or a name and an iterable of arguments (each a string, a sequence of strings, or
        bytes for a payload). Each job is accepted on its own: if one is refused, those before it
        stay accepted, and a note of the error has their number. `timeout` limits the time without
        any progress; `progress` is called with the number of accepted jobs.

        Raises:
            RollqError: a job was refused, or not accepted in time.
        """
    def submit_array(
        self,
        exec_name: str,
        count: int,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        running_max: int = 0,
        keep_results: bool = True,
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit an array of `count` tasks. They share arguments and files, and get their number in
        the environment. An array of any size is one record in the grid until its tasks run. `files`
        and the other arguments are those of `submit`.

        `then` and `notify` run after the whole array. They are submitted after it was accepted; if
        that fails, a note of the error has the id of the array.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
    def cancel(self, *job_ids: JobId | str) -> int:
        """Cancel jobs and arrays: waiting ones at once, running ones when their worker has stopped
        them. Returns how many had not ended."""
    def output(
        self,
        job_id: JobId | str,
        *,
        follow: bool = True,
        stream: str = "",
        tail: int | None = None,
        whole: bool = False,
    ) -> Iterator[StreamPart]:
        """Iterate over the output of a job: live while it runs, from the result after its end.

        Args:
            job_id: Any job, also of another client.
            follow: Whether to go on until the job ends; else only the output so far.
            stream: `stdout` or `stderr`; empty: both, each in order.
            tail: Begin with the last lines of each stream, instead of all output so far.
            whole: Whether to return the complete output, also if it was written before this call or
                faster than it can be streamed: missing parts are read from the result.

        Raises:
            RollqError: UNKNOWN_JOB; TIMED_OUT, if there was no response.
        """
    def map(
        self,
        jobs: str | Iterable[JobSpec] | Callable[..., Any],
        arguments: Iterable[Any] | None = None,
        *more: Iterable[Any],
        ordered: bool | None = None,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        chunksize: int | None = None,
        return_exceptions: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """Run a program or function over many arguments; an iterator over results or values.
        Leaving the loop early cancels the rest.

        A program or function by name: yields each `Result` as it arrives, or in order. An element
            of
        `arguments` is a string, a sequence of strings, or bytes (a payload).

        A function that is decorated with `@task`: yields its return values, in order; with several
        iterables it is called with one element of each, like Python's `map`. Keywords that are job
        options (`rollq.Options`) apply to its jobs, the others are passed to every call. Short
        calls are combined into one job, a bundle: cancels, attempts and limits apply to the bundle.

        Args:
            jobs: A name, a function, or job specs (without `arguments`).
            arguments: An iterable, read lazily; it may be infinite.
            more: Further iterables, for a function.
            ordered: Whether to keep the order of the arguments; default: for a function only.
            window: The maximum number of jobs in flight.
            progress: Called with the number of jobs that ended.
            chunksize: For a function, the number of calls per job; default: chosen from their run
                times, for about 10 ms per job.
            return_exceptions: For a function, whether to yield the exception of a call in its
                place. Otherwise it is raised, and ends the loop.
            options: Job options; for a function, also arguments of every call.

        Raises:
            TypeError: the arguments do not match the function, or one cannot be serialized.
            RollqError: a job was refused, or nothing was accepted for too long.
        """
