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
from rollq.roles.client.access import AccessDecision
from rollq.roles.client.batches import CommitOutcome
from rollq.roles.client.caches import PUT_TIMEOUT_S, CacheReport, Spread
from rollq.roles.client.chains import Step
from rollq.roles.client.discovery import Federation
from rollq.roles.client.followers import Notify, Then
from rollq.roles.client.handles import Counts, Progress
from rollq.roles.client.job_files import JobFile
from rollq.roles.client.keyed import Ended, OnMade
from rollq.roles.client.parts import Message, Redrive
from rollq.roles.client.results import Result
from rollq.roles.client.routes import Policy
from rollq.roles.client.schedules import ScheduleView
from rollq.roles.client.specs import Input, JobSpec, Options, Payload
from rollq.roles.client.streams import StreamPart
from rollq.roles.client.subscriptions import Publication
from rollq.roles.client.supply import BytesMoved, InputBlob
from rollq.roles.client.views import (
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
from rollq.security.credentials import NONE, Credentials
from rollq.tasks import Task

class BlockingJob:
    """One accepted job. `get`, `result` and `cancel` block; `aget` and `aresult` are for an event
    loop that is not the client's, in a notebook for instance, and `await job` is `aget`."""
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
        """Whether the result is here."""
    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result, at most `timeout` seconds; it may be asked for again.

        Raises:
            DeadlineError: TIMED_OUT. The job goes on.
            RollqError: DISCONNECTED, if the client was stopped. The job goes on.
        """
    def get(self, timeout: float | None = None) -> Any:
        """Wait for the end; what it returned. Raises what it raised, or what a job raised whose
        result it uses; else as `result`, and JobError if it did not end well."""
    def file(self, name: str) -> JobFile:
        """A file that it leaves, or will leave, as an input of another job: that waits for this one
        to end ok, and its worker fetches the file. `-` is what it writes to stdout."""
    def output(
        self, *, follow: bool = True, stream: str = "", tail: int | None = None
    ) -> Iterator[StreamPart]:
        """What it writes, while it runs and after its end; see `Client.output`. Followed from
        its beginning (no `tail`), nothing is left out."""
    def events(self) -> Iterator[JobEvent]:
        """What happens to it, as it happens, until its end; see `Client.events`."""
    def cancel(self) -> bool:
        """Ask the grid to end it; false if it had ended."""

class BlockingJobGroup:
    """The jobs of a group, in its order."""

    def __len__(self) -> int: ...
    @property
    def is_done(self) -> bool:
        """Whether all results are here."""
    def get(self, timeout: float | None = None) -> list[Any]:
        """Wait for all; what they returned, in their order. Raises what the first raised that did
        not end well.

        Raises:
            DeadlineError: TIMED_OUT. The jobs go on.
        """
    def cancel(self) -> int:
        """Ask the grid to end all that have not ended; how many there were to end."""

class BlockingBatch:
    """Many accepted jobs."""

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
        """The ids, in the order of submission."""
    def wait(self, timeout: float | None = None, progress: Progress | None = None) -> Counts:
        """Wait until all have ended.

        Raises:
            DeadlineError: TIMED_OUT. The jobs go on.
        """
    def take(self) -> list[Result]:
        """Results that came since the last call; waits for one, empty if none is to come."""
    def results(self) -> Iterator[Result]:
        """Every result once, as they come: what was given is not kept, and a second loop gives
        only what the first has not taken. Nothing if the batch was told not to keep them."""
    def cancel(self) -> int:
        """Ask the grid to end all that has not ended; how many that were."""

class BlockingKeyedRun:
    """Jobs with ids of their own, some of which may have been submitted before."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def put(self, specs: Sequence[JobSpec]) -> None:
        """Submit jobs, each with an id of its own that is not on the way already.

        Raises:
            RollqError: an option that cannot be meant so, or the client does not run.
        """
    def take(self, wait_s: float | None = None) -> list[Ended]:
        """Those that ended, at least one; empty if none is on the way, or none ends so soon.

        Raises:
            RollqError: nothing was accepted for too long, or the client was stopped.
        """
    def close(self) -> None:
        """End what was made here and has not ended. What the grid had before goes on: somebody
        else may wait for it."""

class BlockingPublication:
    """A message that was published."""

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
        """The payload as UTF-8; what is none is replaced."""
    def respond(self, payload: bytes | str = b"") -> None:
        """Answer whoever asked.

        Raises:
            LocalError: BAD_OPTIONS, if the message is not a request.
        """

class BlockingSubscription:
    """What is published to a pattern, as it comes. Iterate over it; leaving the block of `with`, or
    `close`, ends it."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def __iter__(self) -> Iterator[BlockingPublication]: ...
    def take(self) -> list[BlockingPublication]:
        """All messages that are here, at least one; empty: it is closed."""
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
        """The next message.

        Raises:
            DeadlineError: none came in time.
            StateError: it is closed.
        """
    def consumed(self, message: Publication) -> None:
        """Be done with a message of a topic and with all before it, before the next is asked for,
        which says the same. The group remembers it for a durable subscription, some tenths of a
        second later.

        Raises:
            LocalError: BAD_OPTIONS, if this reads no topic, or the message is of another.
        """
    def close(self) -> None:
        """Get no more. What came before can still be read."""

class BlockingJobs:
    """`client.jobs`: submit jobs, wait for their results, ask how they stand, end them."""

    def view(self, job_id: JobId | str, *, timeout: float | None = None) -> views.RawJobView | None:
        """One job or task as a member tells it; None if it is not known (any more)."""
    def attach(self, job_id: JobId | str, *, timeout: float | None = None) -> BlockingJob:
        """A handle on a job that another process submitted under this client id.

        Raises:
            StateError: UNKNOWN_JOB; or WRONG_STATE if it runs for another client, whom its result
                will go to.
        """
    def result_of(self, job_id: JobId | str, *, timeout: float | None = None) -> Result:
        """How a job ended, whoever submitted it; its result stays owed to that client.

        Raises:
            StateError: UNKNOWN_JOB, also if its result is not kept any more; WRONG_STATE if it has
                not ended.
        """
    def unclaimed(self) -> list[Result]:
        """Results that have come so far of jobs that this process has not submitted: those of an
        earlier one under this client id. They are confirmed by this call."""
    def keyed_run(self, *, on_made: OnMade | None = None) -> BlockingKeyedRun:
        """For jobs with ids of their own, some of which may have been submitted before. `on_made`
        is told of those that the grid had not had before, in the client's thread."""
    def status(self, job_id: JobId | str, *, timeout: float | None = None) -> JobView | None:
        """One job or task; None if it is not known (any more)."""
    def array(self, array_id: JobId | str) -> ArrayView | None:
        """One array, by what its tasks do."""
    def explain(self, job_id: JobId | str) -> Explanation | None:
        """Why a job or array waits, or how it ended, and what would help; None if it is not known
        (any more)."""
    def dead(self) -> Iterator[JobView]:
        """Every dead job, oldest first."""
    def redrive(
        self,
        *job_ids: JobId | str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        queue: str = "",
    ) -> int:
        """Give dead jobs as many starts as a new job has; their attempt numbers go on. They keep
        id, key, owner, options and files. A job that failed has ended, and its client has the
        result: `submit_like` runs it again. Returns how many were dead.

        Args:
            job_ids: Dead jobs; all or none are redriven.
            args: Other arguments for each of them.
            env: Variables to set; None removes one. The others stay.
            queue: Another queue for each of them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, also if a request is too large to be changed.
            RollqError: a request cannot be changed so, or you may not submit it so.
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
        became of that, and with other arguments if they are given. Of a job that has ended the grid
        keeps a request of up to 1 KiB without variables, and files only as long as something else
        refers to them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, if its request is not kept any more.
            RollqError: it was refused, or not accepted in time.
        """
    def purge(self, *job_ids: JobId | str) -> int:
        """Forget dead jobs for good; returns how many there were."""
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
        """Submit one job; returns when it is accepted: on the disks of a majority.

        `submit("program", ["1", "2"])` is one of a program or function by its name, with arguments
        that are text. `submit(function, 1, b=2)` calls a function that is decorated with `@task`
        with Python values; keywords that are options of jobs (`rollq.Options`) are not the
        function's (`submit_call` has them apart).

        `files` are its inputs by name: bytes, the path of a file, the path of a folder (with all
        that is in it), or what the grid has already. Small ones ride in the job; others go up
        first, as far as the grid lacks them, and `progress` is told how much of them it has.
        `outputs` are patterns of the files to bring back; all that are new if there are none.
        `timeout` counts from when the files are there.

        A job with an id or a `key` of your own may be submitted again, also by another process
        under the same client id: it runs once, and its result comes to whoever asked last. While
        this client waits for its result, the handle of the first submit is the way to it, and
        another submit is refused. The key is told with its result and in the history.

        `then` are jobs that run when this one has ended, in whichever way, and `notify` URLs that
        are told then (`Webhook`). They are accepted with it, or nothing is; `progress` is not told.

        Raises:
            DeadlineError: nobody accepted it in time. It may have been accepted all the same.
            RollqError: it was refused; the code and the hint say why.
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
        """Submit a call of a function with Python values; returns when it is accepted. For a job
        among the arguments, which need not have ended, the function gets what that returns, from
        worker to worker: the call waits for it in the grid. The rest as for `submit`.

        Raises:
            TypeError: it cannot be called so, or an argument cannot be serialized.
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
        """Submit many jobs; returns when all are accepted.

        Give specs, or a name and an iterable of arguments (each a string, a sequence of strings,
        or bytes for a payload). Each job is accepted for itself: if one is refused, those that were
        accepted before stay so, and the error says how many. `timeout` is how long nothing may be
        accepted; `progress` is told how many were.

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
        """Submit `count` tasks that share arguments and files and are told apart by their number.
        However many they are, they cost the grid one record until they run. Files as for `submit`.

        `then` and `notify` follow the array as a whole. They are submitted when it is accepted: if
        this raises then, it says so.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
    def cancel(self, *job_ids: JobId | str) -> int:
        """End jobs and arrays: what waits at once, what runs as soon as its worker obeys. Returns
        how many there were to end."""
    def output(
        self,
        job_id: JobId | str,
        *,
        follow: bool = True,
        stream: str = "",
        tail: int | None = None,
        whole: bool = False,
    ) -> Iterator[StreamPart]:
        """What a job writes: while it runs as it comes, after its end from the result.

        Args:
            job_id: Any job, also one of another client.
            follow: Whether to go on until it is over; else only what it has written by now.
            stream: `stdout` or `stderr`; empty: both, each in its order.
            tail: Of what it has written by now, only the last lines of each stream.
            whole: Nothing may be left out, also if it was written before this call or faster than
                it can be shown. What does not come while it runs comes at its end.

        Raises:
            RollqError: UNKNOWN_JOB; TIMED_OUT, if nobody answered.
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
        """One program or function over many arguments. Leaving the loop early cancels the rest.

        Of a program, given by its name: results (`Result`) as they come, or in order. An element of
        `arguments` is a string, a sequence of strings, or bytes (a payload).

        Of a function that is decorated with `@task`: what it returns for each element, in order;
        with several iterables it is called with an element of each, as by Python's own `map`.
        Keywords that are options of jobs (`rollq.Options`) are those of its jobs, others go to
        every call. Calls that are short are put together into one job, a bundle: cancels, attempts
        and limits are the bundle's.

        Args:
            jobs: A name, a function, or jobs as specs without further arguments.
            arguments: May be endless.
            more: Further iterables, for a function.
            ordered: Whether results come in the order of the arguments; left out, those of a
                function do.
            window: How many jobs are on the way at most.
            progress: Told how many ended.
            chunksize: For a function, how many calls are one job; left out, that follows from the
                time that they take: about 10 ms a job.
            return_exceptions: For a function, whether to give what a call raised in its place.
                Otherwise it is raised, and ends the loop.
            options: Of the jobs; for a function, also arguments of every call.

        Raises:
            TypeError: the function cannot be called so, or an argument cannot be serialized.
            RollqError: a job was refused, or nothing was accepted for too long.
        """

class BlockingBatches:
    """`client.batches`: stage jobs in parts, and accept all of them by one commit."""

    def settle(self, jobs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """Read the files of jobs, as far as they are not in them."""
    def stage_messages(
        self, messages: Iterable[Message], *, waits: bool = True, timeout: float | None = None
    ) -> None:
        """Send what a `PartBuilder` made.

        Args:
            messages: Of any parts.
            waits: Where there is no room for what is staged, whether to wait for it.
            timeout: How many seconds nothing may be accepted.

        Raises:
            RollqError: GRID_FULL if there is no room, BAD_OPTIONS if the batch is full.
        """
    def expect(self, first_id: JobId, count: int) -> BlockingBatch:
        """A handle on jobs that are about to be committed, whose ids follow one another. Their
        results come to it, unless they ended before."""
    def forget(self, first_id: JobId) -> None:
        """No more results come to the handle on these."""
    def stage(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[JobSpec],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Send jobs of a batch ahead; returns when all are on the disks of a majority, unseen.

        Args:
            batch_key: The batch. Up to 256 bytes, unique for the client.
            part: A name that nobody else uses in this batch: say, task and attempt.
            jobs: Any number; taken as they can be sent. Jobs with a `key` have the id that follows
                from client and key, so that a job that was accepted before is not accepted again.
            client_id: Whose jobs they will be; this client's if it is left out.
            timeout: How many seconds nothing may be accepted.

        Raises:
            LocalError: BAD_OPTIONS, for a job that cannot be meant so; nothing is submitted.
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
        """Send dead jobs ahead that are to run again, of whoever they are; otherwise as `stage`.

        Raises:
            RollqError: a message was refused, or not accepted in time. Whether all of them are
                dead is asked by the commit.
        """
    def commit(
        self,
        batch_key: str,
        parts: Sequence[StagedPart],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> CommitOutcome:
        """Accept every job of these parts, all or none; other parts of the batch are forgotten.

        The jobs come into their queues within moments. A batch that was committed before stays as
        it is, whatever parts are named now, and the outcome says that it is known.

        Raises:
            StateError: BATCH_INCOMPLETE if a part is not there as it was staged, JOB_CONFLICT if an
                id is taken by another job; nothing is accepted.
            RollqError: it was refused for another reason, or not answered in time.
        """
    def drop_batch(
        self, batch_key: str, *, client_id: str = "", timeout: float | None = None
    ) -> bool:
        """Forget what was staged for a batch; false if there was nothing, or it is committed. What
        nobody commits or drops is dropped by the grid after an hour."""
    def batch(self, batch_key: str, *, client_id: str = "") -> BatchView | None:
        """One batch: how far it has come into the queues; None if it is not known (any more). The
        group does not keep which jobs came by it."""
    def list_batches(self, *, client_id: str = "") -> Iterator[BatchView]:
        """Every batch of a client, or of all of them, by client and key."""

class BlockingCaches:
    """`client.caches`: files that workers keep for many jobs, and blobs."""

    def __call__(self) -> Iterator[CacheView]:
        """Every cache, by name, without its files."""
    def supply(self, pieces: Sequence[InputBlob]) -> None:
        """As `upload`, of files that were read before."""
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
        """Keep files in the group under a name, and wait until workers hold them.

        The same files again are no error; workers that come later get them by themselves.

        Args:
            cache_id: The name that jobs refer to them by.
            files: Names, and bytes, paths (a folder is its files) or references to blobs.
            target: Which workers are meant: those one of whose patterns overlaps this one; all.
            need: How many must hold them: `all` that are there, a number, or `50%` of those.
            timeout: How many seconds workers have for it. The upload takes as long as it takes,
                but no longer than this, or than calls of this client, to find a leader.
            on_upload: Told how many bytes of how many the group has.
            on_spread: Told what every worker has, again and again.

        Raises:
            StateError: CACHE_CONFLICT if the name holds other files.
            LocalError: a file cannot be read, or a name is refused.
        """
    def upload(self, content: bytes) -> BlobRef:
        """Keep bytes in the group, by their digest. Nothing refers to them yet: they are kept for
        an hour at least, and longer if a job or a cache names them by then."""
    def download(self, ref: BlobRef) -> bytes:
        """Bytes that the group keeps, verified."""
    def cache_remove(self, cache_id: str) -> None:
        """Let workers forget a cache, as soon as no job needs it.

        Raises:
            StateError: UNKNOWN_CACHE.
        """
    def cache(self, cache_id: str) -> CacheView | None:
        """One cache, with its files; None if there is none."""
    def cache_holders(self, cache_id: str) -> list[HolderView]:
        """What every worker that is there, and meant to hold a cache, has of it."""

class BlockingAdmin:
    """`client.admin`: queues, workers, settings and members of the group."""

    def counts(self) -> QueueView:
        """All queues added up."""
    def queue(self, name: str) -> QueueView | None:
        """One queue."""
    def queues(self) -> Iterator[QueueView]:
        """Every queue, by name."""
    def client(self, client_id: str = "") -> ClientView | None:
        """One client; this one if none is named."""
    def workers(self) -> Iterator[WorkerView]:
        """Every worker that the group knows, by id."""
    def settings(self) -> Settings:
        """The cluster's settings."""
    def hints(self) -> list[ExecHint]:
        """What the grid was told of the run times of programs, by name."""
    def cluster(self) -> dict[str, Any]:
        """The members of the group: who leads, who lags."""
    def groups(self) -> FederationView:
        """The groups of the federation that this one belongs to, as its leader knows them."""
    def query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """A view by its name, as msgpack."""
    def pause(self, queue: str) -> None:
        """Assign nothing of this queue for now."""
    def resume(self, queue: str) -> None:
        """Assign again."""
    def set_settings(self, settings: Settings) -> None:
        """Replace the cluster's settings. To change some, replace fields of `settings`."""
    def set_hints(self, hints: Iterable[ExecHint]) -> int:
        """Replace what the grid knows of the run times of programs; none: it knows nothing. Returns
        how many it knows now. They count while the setting `use_hints` is on."""
    def dismiss(self, *worker_ids: WorkerId | str) -> int:
        """Tell workers to end now: what they run is cut off, and runs again elsewhere. Returns how
        many were told; one that is looking for a leader just now is not."""
    def drain(
        self, *workers: WorkerId | str, wait: bool = False, timeout: float | None = None
    ) -> int:
        """Give workers no new jobs, also if they are started anew, until `undrain`. What they run
        goes on; what they have not begun runs elsewhere. Returns how many were not drained before.

        Args:
            workers: Their ids or names; a name means all workers that have it.
            wait: Return when none of them runs anything.
            timeout: How many seconds to wait for that; None: for ever.

        Raises:
            StateError: UNKNOWN_WORKER.
            DeadlineError: TIMED_OUT: they still run jobs. They stay drained.
        """
    def undrain(self, *workers: WorkerId | str) -> int:
        """Give drained workers jobs again. Returns how many were drained."""
    def drained(self) -> Iterator[DrainView]:
        """Every worker that gets no new jobs, by id; also those that are not connected."""
    def add_member(self, member_id: MemberId, address: str) -> None:
        """Let a member in; it votes as soon as it has caught up."""
    def remove_member(self, member_id: MemberId) -> None:
        """Take a member out."""
    def transfer(self, member_id: MemberId) -> None:
        """Hand leadership to a member."""
    def put_topic(
        self,
        name: str,
        *patterns: str,
        age_ms: int = TOPIC_AGE_MS,
        bytes_max: int = TOPIC_BYTES,
        count_max: int = TOPIC_COUNT,
    ) -> None:
        """Make a topic, or change one. What is published to its subjects from then on is kept, and
        dropped oldest first when it is beyond a bound.

        Args:
            name: Small letters, digits and dashes, with dots in between.
            patterns: Of the subjects, `prices.>`; none may overlap those of another topic.
            age_ms: How long a message is kept; 0: for ever.
            bytes_max: How much is kept; a message counts 256 bytes more than it carries.
            count_max: How many messages are kept.

        Raises:
            StateError: TOPIC_CONFLICT; GRID_FULL, if all topics together may not keep so much.
            RemoteError: BAD_OPTIONS, BAD_SUBJECT.
        """
    def remove_topic(self, name: str) -> None:
        """Forget a topic, all that it keeps, and all durable subscriptions of it.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
    def forget_cursor(self, topic: str, durable: str) -> None:
        """Forget a durable subscription: if it comes back, it begins anew.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
    def topic(self, name: str) -> TopicView | None:
        """One topic, with its durable subscriptions."""
    def topics(self) -> Iterator[TopicView]:
        """Every topic, by name."""
    def policies(self) -> list[PolicyView]:
        """How queues choose workers, by pattern; those that match none: the least loaded one."""
    def set_policy(
        self, pattern: str, placement: str, weights: Mapping[str, int] | None = None
    ) -> None:
        """Let the queues of a pattern choose workers in this way. The most specific pattern counts.

        Args:
            pattern: Of names of queues: `render`, `render.*`, `>`.
            placement: `least-load`, `round-robin`, `sticky`, `locality` or `score`.
            weights: Of a score: `credit`, `running`, `cpu`, `memory`, `held`, each 0 to 1000.
        """
    def remove_policy(self, pattern: str) -> bool:
        """Take the policy of a pattern away; whether it had one."""
    def limits(self) -> list[LimitView]:
        """All limits, with what is taken of each, by name."""
    def set_limit(
        self, name: str, *, running: int = 0, rate: str | float = 0, burst: int = 0
    ) -> None:
        """Let no more of these jobs run at once, or start in a time. What runs goes on.

        Args:
            name: `exec:PROGRAM`, `queue:QUEUE`, `client:CLIENT`, or `key:KEY` for jobs that name
                the key in `limits`.
            running: Jobs at once, or tokens of a key; 0: any number.
            rate: Starts: `3/s`, `90/min`, or a number for a second; 0: any number.
            burst: How many may start at once; without it, those of a second.
        """
    def remove_limit(self, name: str) -> bool:
        """Take a limit away; whether there was one."""
    def weights(self) -> list[WeightView]:
        """Shares of clients, by id; those that are not listed have 1."""
    def set_weight(self, client_id: str, weight: int) -> None:
        """Give a client so many turns for one of others in the same queue: 1 to 100."""

class BlockingAccess:
    """`client.access`: accounts and roles, and what they may do."""

    def accounts(self) -> Iterator[AccountView]:
        """Every account, by name."""
    def account(self, name: str) -> AccountView | None:
        """One account."""
    def roles(self) -> Iterator[RoleView]:
        """Every role, by name; also those that are built in."""
    def role(self, name: str) -> RoleView | None:
        """One role."""
    def add(self, name: str, *, roles: Iterable[str] = (), rules: Iterable[Rule] = ()) -> None:
        """Make an account; without a token, a key or a certificate nobody can log in to it.

        Raises:
            StateError: BAD_ACCESS, if it is there already.
        """
    def remove(self, name: str) -> None:
        """Forget an account: its tokens and keys count no more."""
    def set_disabled(self, name: str, is_disabled: bool) -> None:
        """Let an account log in no more, or again."""
    def add_roles(self, name: str, *roles: str) -> None:
        """Give an account roles; what it has it keeps."""
    def remove_roles(self, name: str, *roles: str) -> None:
        """Take roles from an account."""
    def add_rules(self, name: str, *rules: Rule) -> None:
        """Give an account rules of its own; what it has it keeps."""
    def remove_rules(self, name: str, *rules: Rule) -> None:
        """Take rules from an account."""
    def new_token(self, name: str, *, expires_ms: int = 0) -> str:
        """A new token of an account, which nobody can be told again: the group has its hash.

        Args:
            name: The account.
            expires_ms: From when on it counts no more, in milliseconds since 1970; 0: never.
        """
    def remove_token(self, name: str, token_id: str) -> None:
        """Let a token count no more."""
    def add_key(self, name: str, public_key: bytes) -> None:
        """Let an account log in by an Ed25519 key, whose 32 public bytes these are."""
    def remove_key(self, name: str, public_key: bytes) -> None:
        """Let a key count no more."""
    def add_role(self, name: str, *rules: Rule) -> None:
        """Make a role.

        Raises:
            StateError: BAD_ACCESS, if it is there already.
        """
    def add_role_rules(self, name: str, *rules: Rule) -> None:
        """Give a role rules, which count for every account that has it."""
    def remove_role_rules(self, name: str, *rules: Rule) -> None:
        """Take rules from a role."""
    def remove_role(self, name: str) -> None:
        """Forget a role that no account has."""
    def check(self, name: str, action: str, *resources: str) -> AccessDecision:
        """Whether an account may do an action on all of these resources, and by which rules.

        Args:
            name: The account.
            action: As rules name it: `jobs.cancel`.
            resources: `KIND:NAME` each, as in `client:alice/7`; `KIND:*` is all of a kind.
        """

class BlockingSchedules:
    """`client.schedules`: jobs that the grid makes by itself, at given times."""

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
        """Make a schedule, or change one: what it fired before is kept.

        Args:
            name: Letters, digits and `_ . / -` in between.
            exec_name: The program or function of its jobs; `args`, `files`, `outputs`, `payload`
                and options are as for `submit`. Large files belong into a cache.
            cron: `minute hour day month weekday`, or `@daily` and the like.
            zone: Whose clocks the line means: `Asia/Tokyo`.
            every: In place of a line: whole seconds between two firings.
            jitter: Each firing is so much later at most; how much follows from its instant.
            overlap: If the job before has not ended: `skip`, `queue` as well, `cancel` the older.
            catch_up: After an outage, of the instants that were missed: `none`, `last` or `all`.

        Raises:
            RemoteError: BAD_OPTIONS: the line or the zone is none, or something is out of bounds.
            LocalError: BAD_OPTIONS: files that do not fit into a request.
        """
    def get(self, name: str) -> ScheduleView | None:
        """One schedule."""
    def list(self) -> Iterator[ScheduleView]:
        """Every schedule, by name."""
    def remove(self, name: str) -> None:
        """Forget a schedule. Its jobs stay, and those that run go on.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
    def pause(self, name: str) -> None:
        """Fire nothing for now.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
    def resume(self, name: str) -> ScheduleView:
        """Go on with the next instant; those since the pause are not made up for.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
    def run(self, name: str) -> str:
        """Make a job of a schedule now, whatever runs, also if it is paused; the id of the job.

        Raises:
            StateError: UNKNOWN_SCHEDULE, or as a submit is refused.
        """

class BlockingClient:
    """The same as `Client`, for code without an event loop. Arguments as there.

    Callbacks are called in the client's thread. Iterables are read there too, but for those of
    `stage` and `stage_redrives`, which are read in the thread of the call.
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
        """Start the thread and look for the leader."""
    def stop(self) -> None:
        """Hang up and end the thread. Jobs go on."""
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
        """Whether a leader has welcomed us."""
    @property
    def leader(self) -> str:
        """The address of the member that welcomed us; empty if none has."""
    @property
    def client_id(self) -> str:
        """The name that results are owed to."""
    def attach(self, job_id: JobId | str, *, timeout: float | None = None) -> BlockingJob:
        """A handle on a job that another process submitted under this client id.

        Raises:
            StateError: UNKNOWN_JOB; or WRONG_STATE if it runs for another client, whom its result
                will go to.
        """
    def result_of(self, job_id: JobId | str, *, timeout: float | None = None) -> Result:
        """How a job ended, whoever submitted it; its result stays owed to that client.

        Raises:
            StateError: UNKNOWN_JOB, also if its result is not kept any more; WRONG_STATE if it has
                not ended.
        """
    def unclaimed(self) -> list[Result]:
        """Results that have come so far of jobs that this process has not submitted: those of an
        earlier one under this client id. They are confirmed by this call."""
    def keyed_run(self, *, on_made: OnMade | None = None) -> BlockingKeyedRun:
        """For jobs with ids of their own, some of which may have been submitted before. `on_made`
        is told of those that the grid had not had before, in the client's thread."""
    def status(self, job_id: JobId | str, *, timeout: float | None = None) -> JobView | None:
        """One job or task; None if it is not known (any more)."""
    def array(self, array_id: JobId | str) -> ArrayView | None:
        """One array, by what its tasks do."""
    def explain(self, job_id: JobId | str) -> Explanation | None:
        """Why a job or array waits, or how it ended, and what would help; None if it is not known
        (any more)."""
    def dead(self) -> Iterator[JobView]:
        """Every dead job, oldest first."""
    def redrive(
        self,
        *job_ids: JobId | str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        queue: str = "",
    ) -> int:
        """Give dead jobs as many starts as a new job has; their attempt numbers go on. They keep
        id, key, owner, options and files. A job that failed has ended, and its client has the
        result: `submit_like` runs it again. Returns how many were dead.

        Args:
            job_ids: Dead jobs; all or none are redriven.
            args: Other arguments for each of them.
            env: Variables to set; None removes one. The others stay.
            queue: Another queue for each of them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, also if a request is too large to be changed.
            RollqError: a request cannot be changed so, or you may not submit it so.
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
        became of that, and with other arguments if they are given. Of a job that has ended the grid
        keeps a request of up to 1 KiB without variables, and files only as long as something else
        refers to them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, if its request is not kept any more.
            RollqError: it was refused, or not accepted in time.
        """
    def purge(self, *job_ids: JobId | str) -> int:
        """Forget dead jobs for good; returns how many there were."""
    def submit_steps(
        self, step: Step, args: Sequence[Any] = (), *, timeout: float | None = None
    ) -> BlockingJob | BlockingJobGroup:
        """Submit a chain, a group or a chord; returns when all of its jobs are accepted. What it
        returns stands for its last call, or for all of its last group. `args` come before those of
        the first call.

        Raises:
            TypeError: a function cannot be called so, or an argument cannot be serialized.
            RollqError: it was refused, or not accepted in time. Nothing is accepted then.
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
        """Send jobs of a batch ahead; returns when all are on the disks of a majority, unseen.

        Args:
            batch_key: The batch. Up to 256 bytes, unique for the client.
            part: A name that nobody else uses in this batch: say, task and attempt.
            jobs: Any number; taken as they can be sent. Jobs with a `key` have the id that follows
                from client and key, so that a job that was accepted before is not accepted again.
            client_id: Whose jobs they will be; this client's if it is left out.
            timeout: How many seconds nothing may be accepted.

        Raises:
            LocalError: BAD_OPTIONS, for a job that cannot be meant so; nothing is submitted.
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
        """Send dead jobs ahead that are to run again, of whoever they are; otherwise as `stage`.

        Raises:
            RollqError: a message was refused, or not accepted in time. Whether all of them are
                dead is asked by the commit.
        """
    def commit(
        self,
        batch_key: str,
        parts: Sequence[StagedPart],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> CommitOutcome:
        """Accept every job of these parts, all or none; other parts of the batch are forgotten.

        The jobs come into their queues within moments. A batch that was committed before stays as
        it is, whatever parts are named now, and the outcome says that it is known.

        Raises:
            StateError: BATCH_INCOMPLETE if a part is not there as it was staged, JOB_CONFLICT if an
                id is taken by another job; nothing is accepted.
            RollqError: it was refused for another reason, or not answered in time.
        """
    def drop_batch(
        self, batch_key: str, *, client_id: str = "", timeout: float | None = None
    ) -> bool:
        """Forget what was staged for a batch; false if there was nothing, or it is committed. What
        nobody commits or drops is dropped by the grid after an hour."""
    def batch(self, batch_key: str, *, client_id: str = "") -> BatchView | None:
        """One batch: how far it has come into the queues; None if it is not known (any more). The
        group does not keep which jobs came by it."""
    def list_batches(self, *, client_id: str = "") -> Iterator[BatchView]:
        """Every batch of a client, or of all of them, by client and key."""
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
        """Keep files in the group under a name, and wait until workers hold them.

        The same files again are no error; workers that come later get them by themselves.

        Args:
            cache_id: The name that jobs refer to them by.
            files: Names, and bytes, paths (a folder is its files) or references to blobs.
            target: Which workers are meant: those one of whose patterns overlaps this one; all.
            need: How many must hold them: `all` that are there, a number, or `50%` of those.
            timeout: How many seconds workers have for it. The upload takes as long as it takes,
                but no longer than this, or than calls of this client, to find a leader.
            on_upload: Told how many bytes of how many the group has.
            on_spread: Told what every worker has, again and again.

        Raises:
            StateError: CACHE_CONFLICT if the name holds other files.
            LocalError: a file cannot be read, or a name is refused.
        """
    def upload(self, content: bytes) -> BlobRef:
        """Keep bytes in the group, by their digest. Nothing refers to them yet: they are kept for
        an hour at least, and longer if a job or a cache names them by then."""
    def download(self, ref: BlobRef) -> bytes:
        """Bytes that the group keeps, verified."""
    def cache_remove(self, cache_id: str) -> None:
        """Let workers forget a cache, as soon as no job needs it.

        Raises:
            StateError: UNKNOWN_CACHE.
        """
    def cache(self, cache_id: str) -> CacheView | None:
        """One cache, with its files; None if there is none."""
    def cache_holders(self, cache_id: str) -> list[HolderView]:
        """What every worker that is there, and meant to hold a cache, has of it."""
    def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        *,
        confirm: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Hand a message to everybody who listens to a subject.

        Args:
            subject: Where, as in `prices.eur`.
            payload: Bytes, or a text, which is sent as UTF-8.
            confirm: Wait until the leader has handed it on. Otherwise it is sent and not looked
                after: what is refused, or lost with its leader, is lost without a word.
            timeout: How many seconds to wait for a leader, and for its answer.

        Returns:
            With `confirm`, how many subscriptions it went to, or its index if a topic keeps it;
            else 0.

        Raises:
            LocalError: BAD_SUBJECT, or BAD_PAYLOAD if it is too large.
            StateError: OUTCOME_UNKNOWN, if the leader was lost before its answer. It is not sent
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
        """Get what is published to the subjects of a pattern, from now on.

            async with await client.subscribe("prices.*") as prices:
                async for message in prices:
                    print(message.subject, message.payload)

        It goes on at the next leader by itself; what is published in between is missed. One that
        reads a topic misses nothing that the topic keeps:

            async for message in await client.subscribe(">", topic="prices", durable="desk-1"):
                ...  # done with when the next is asked for: `message.index` tells repeats

        Args:
            pattern: A subject; `*` is any one part of it, a closing `>` all that follow.
            queue_group: Of all subscriptions that name the same group, one gets each message.
            topic: Read what this topic keeps of the pattern, in order, and what follows.
            durable: The group remembers under this name which messages are done with: whoever
                subscribes with it goes on behind them. One session has it at a time; the same
                client id takes over from itself.
            from_index: Where to begin in the topic, if the group knows no such durable name: 0:
                with what is new; -1: with all that is kept; else with this index.
            timeout: How many seconds to wait for the answer.

        Raises:
            LocalError: BAD_SUBJECT.
            StateError: ACCESS_DENIED; OVERLOADED, if there are too many subscriptions;
                UNKNOWN_TOPIC; DURABLE_TAKEN, if another client has the durable name.
        """
    def events(self, job_id: JobId | str) -> Iterator[JobEvent]:
        """What happens to a job from now on, until its end: the turns of its life, and how far it
        is (`JobEvent.progress`), if its program says so. Live: what happens while a leader changes
        is left out, but for the end.

        Raises:
            StateError: UNKNOWN_JOB.
        """
    def progress(self, job_id: JobId | str) -> JobProgress | None:
        """How far a running job said that it is; None: it said nothing, or not to this leader."""
    def request(
        self, subject: str, payload: bytes | str = b"", *, timeout: float | None = None
    ) -> BlockingPublication:
        """Ask whoever listens to a subject, and wait for the first answer (`Publication.respond`).

        Raises:
            StateError: NO_RESPONDERS, at once, if no subscription matches; OUTCOME_UNKNOWN, if the
                leader was lost before the answer came.
            DeadlineError: no answer came in time.
        """
    def counts(self) -> QueueView:
        """All queues added up."""
    def queue(self, name: str) -> QueueView | None:
        """One queue."""
    def queues(self) -> Iterator[QueueView]:
        """Every queue, by name."""
    def client(self, client_id: str = "") -> ClientView | None:
        """One client; this one if none is named."""
    def workers(self) -> Iterator[WorkerView]:
        """Every worker that the group knows, by id."""
    def settings(self) -> Settings:
        """The cluster's settings."""
    def hints(self) -> list[ExecHint]:
        """What the grid was told of the run times of programs, by name."""
    def cluster(self) -> dict[str, Any]:
        """The members of the group: who leads, who lags."""
    def groups(self) -> FederationView:
        """The groups of the federation that this one belongs to, as its leader knows them."""
    def query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """A view by its name, as msgpack."""
    def pause(self, queue: str) -> None:
        """Assign nothing of this queue for now."""
    def resume(self, queue: str) -> None:
        """Assign again."""
    def set_settings(self, settings: Settings) -> None:
        """Replace the cluster's settings. To change some, replace fields of `settings`."""
    def set_hints(self, hints: Iterable[ExecHint]) -> int:
        """Replace what the grid knows of the run times of programs; none: it knows nothing. Returns
        how many it knows now. They count while the setting `use_hints` is on."""
    def dismiss(self, *worker_ids: WorkerId | str) -> int:
        """Tell workers to end now: what they run is cut off, and runs again elsewhere. Returns how
        many were told; one that is looking for a leader just now is not."""
    def drain(
        self, *workers: WorkerId | str, wait: bool = False, timeout: float | None = None
    ) -> int:
        """Give workers no new jobs, also if they are started anew, until `undrain`. What they run
        goes on; what they have not begun runs elsewhere. Returns how many were not drained before.

        Args:
            workers: Their ids or names; a name means all workers that have it.
            wait: Return when none of them runs anything.
            timeout: How many seconds to wait for that; None: for ever.

        Raises:
            StateError: UNKNOWN_WORKER.
            DeadlineError: TIMED_OUT: they still run jobs. They stay drained.
        """
    def undrain(self, *workers: WorkerId | str) -> int:
        """Give drained workers jobs again. Returns how many were drained."""
    def drained(self) -> Iterator[DrainView]:
        """Every worker that gets no new jobs, by id; also those that are not connected."""
    def add_member(self, member_id: MemberId, address: str) -> None:
        """Let a member in; it votes as soon as it has caught up."""
    def remove_member(self, member_id: MemberId) -> None:
        """Take a member out."""
    def transfer(self, member_id: MemberId) -> None:
        """Hand leadership to a member."""
    def put_topic(
        self,
        name: str,
        *patterns: str,
        age_ms: int = TOPIC_AGE_MS,
        bytes_max: int = TOPIC_BYTES,
        count_max: int = TOPIC_COUNT,
    ) -> None:
        """Make a topic, or change one. What is published to its subjects from then on is kept, and
        dropped oldest first when it is beyond a bound.

        Args:
            name: Small letters, digits and dashes, with dots in between.
            patterns: Of the subjects, `prices.>`; none may overlap those of another topic.
            age_ms: How long a message is kept; 0: for ever.
            bytes_max: How much is kept; a message counts 256 bytes more than it carries.
            count_max: How many messages are kept.

        Raises:
            StateError: TOPIC_CONFLICT; GRID_FULL, if all topics together may not keep so much.
            RemoteError: BAD_OPTIONS, BAD_SUBJECT.
        """
    def remove_topic(self, name: str) -> None:
        """Forget a topic, all that it keeps, and all durable subscriptions of it.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
    def forget_cursor(self, topic: str, durable: str) -> None:
        """Forget a durable subscription: if it comes back, it begins anew.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
    def topic(self, name: str) -> TopicView | None:
        """One topic, with its durable subscriptions."""
    def topics(self) -> Iterator[TopicView]:
        """Every topic, by name."""
    def policies(self) -> list[PolicyView]:
        """How queues choose workers, by pattern; those that match none: the least loaded one."""
    def set_policy(
        self, pattern: str, placement: str, weights: Mapping[str, int] | None = None
    ) -> None:
        """Let the queues of a pattern choose workers in this way. The most specific pattern counts.

        Args:
            pattern: Of names of queues: `render`, `render.*`, `>`.
            placement: `least-load`, `round-robin`, `sticky`, `locality` or `score`.
            weights: Of a score: `credit`, `running`, `cpu`, `memory`, `held`, each 0 to 1000.
        """
    def remove_policy(self, pattern: str) -> bool:
        """Take the policy of a pattern away; whether it had one."""
    def limits(self) -> list[LimitView]:
        """All limits, with what is taken of each, by name."""
    def set_limit(
        self, name: str, *, running: int = 0, rate: str | float = 0, burst: int = 0
    ) -> None:
        """Let no more of these jobs run at once, or start in a time. What runs goes on.

        Args:
            name: `exec:PROGRAM`, `queue:QUEUE`, `client:CLIENT`, or `key:KEY` for jobs that name
                the key in `limits`.
            running: Jobs at once, or tokens of a key; 0: any number.
            rate: Starts: `3/s`, `90/min`, or a number for a second; 0: any number.
            burst: How many may start at once; without it, those of a second.
        """
    def remove_limit(self, name: str) -> bool:
        """Take a limit away; whether there was one."""
    def weights(self) -> list[WeightView]:
        """Shares of clients, by id; those that are not listed have 1."""
    def set_weight(self, client_id: str, weight: int) -> None:
        """Give a client so many turns for one of others in the same queue: 1 to 100."""
    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> BlockingJob:
        """Submit a call of any function, a lambda or one of a notebook, with Python values. It goes
        as it is (cloudpickle), and runs on workers with `--app rollq.pickled`.

        Raises:
            LocalError: BAD_SETUP, if the client was not made with `allow_pickle`, or cloudpickle is
                not installed.
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
        """Submit one job; returns when it is accepted: on the disks of a majority.

        `submit("program", ["1", "2"])` is one of a program or function by its name, with arguments
        that are text. `submit(function, 1, b=2)` calls a function that is decorated with `@task`
        with Python values; keywords that are options of jobs (`rollq.Options`) are not the
        function's (`submit_call` has them apart).

        `files` are its inputs by name: bytes, the path of a file, the path of a folder (with all
        that is in it), or what the grid has already. Small ones ride in the job; others go up
        first, as far as the grid lacks them, and `progress` is told how much of them it has.
        `outputs` are patterns of the files to bring back; all that are new if there are none.
        `timeout` counts from when the files are there.

        A job with an id or a `key` of your own may be submitted again, also by another process
        under the same client id: it runs once, and its result comes to whoever asked last. While
        this client waits for its result, the handle of the first submit is the way to it, and
        another submit is refused. The key is told with its result and in the history.

        `then` are jobs that run when this one has ended, in whichever way, and `notify` URLs that
        are told then (`Webhook`). They are accepted with it, or nothing is; `progress` is not told.

        Raises:
            DeadlineError: nobody accepted it in time. It may have been accepted all the same.
            RollqError: it was refused; the code and the hint say why.
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
        """Submit a call of a function with Python values; returns when it is accepted. For a job
        among the arguments, which need not have ended, the function gets what that returns, from
        worker to worker: the call waits for it in the grid. The rest as for `submit`.

        Raises:
            TypeError: it cannot be called so, or an argument cannot be serialized.
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
        """Submit many jobs; returns when all are accepted.

        Give specs, or a name and an iterable of arguments (each a string, a sequence of strings,
        or bytes for a payload). Each job is accepted for itself: if one is refused, those that were
        accepted before stay so, and the error says how many. `timeout` is how long nothing may be
        accepted; `progress` is told how many were.

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
        """Submit `count` tasks that share arguments and files and are told apart by their number.
        However many they are, they cost the grid one record until they run. Files as for `submit`.

        `then` and `notify` follow the array as a whole. They are submitted when it is accepted: if
        this raises then, it says so.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
    def cancel(self, *job_ids: JobId | str) -> int:
        """End jobs and arrays: what waits at once, what runs as soon as its worker obeys. Returns
        how many there were to end."""
    def output(
        self,
        job_id: JobId | str,
        *,
        follow: bool = True,
        stream: str = "",
        tail: int | None = None,
        whole: bool = False,
    ) -> Iterator[StreamPart]:
        """What a job writes: while it runs as it comes, after its end from the result.

        Args:
            job_id: Any job, also one of another client.
            follow: Whether to go on until it is over; else only what it has written by now.
            stream: `stdout` or `stderr`; empty: both, each in its order.
            tail: Of what it has written by now, only the last lines of each stream.
            whole: Nothing may be left out, also if it was written before this call or faster than
                it can be shown. What does not come while it runs comes at its end.

        Raises:
            RollqError: UNKNOWN_JOB; TIMED_OUT, if nobody answered.
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
        """One program or function over many arguments. Leaving the loop early cancels the rest.

        Of a program, given by its name: results (`Result`) as they come, or in order. An element of
        `arguments` is a string, a sequence of strings, or bytes (a payload).

        Of a function that is decorated with `@task`: what it returns for each element, in order;
        with several iterables it is called with an element of each, as by Python's own `map`.
        Keywords that are options of jobs (`rollq.Options`) are those of its jobs, others go to
        every call. Calls that are short are put together into one job, a bundle: cancels, attempts
        and limits are the bundle's.

        Args:
            jobs: A name, a function, or jobs as specs without further arguments.
            arguments: May be endless.
            more: Further iterables, for a function.
            ordered: Whether results come in the order of the arguments; left out, those of a
                function do.
            window: How many jobs are on the way at most.
            progress: Told how many ended.
            chunksize: For a function, how many calls are one job; left out, that follows from the
                time that they take: about 10 ms a job.
            return_exceptions: For a function, whether to give what a call raised in its place.
                Otherwise it is raised, and ends the loop.
            options: Of the jobs; for a function, also arguments of every call.

        Raises:
            TypeError: the function cannot be called so, or an argument cannot be serialized.
            RollqError: a job was refused, or nothing was accepted for too long.
        """

class BlockingMultiClient:
    """The same as `MultiClient`, for code without an event loop. Arguments as there."""

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
        """Start the thread and look for the leader."""
    def stop(self) -> None:
        """Hang up and end the thread. Jobs go on."""
    @property
    def inflight(self) -> tuple[int, ...]:
        """How many jobs each group has."""
    @property
    def spread(self) -> dict[str, int]:
        """How many results that counted came from each group, by its name; a group without a name
        is named by its addresses."""
    @property
    def pending(self) -> int:
        """How many jobs wait for a group."""
    def add_group(self, addresses: str, *, name: str = "", weight: int = 1) -> None:
        """Use one more group from now on; it gets its share of what waits.

        Raises:
            LocalError: BAD_OPTIONS, if there is one of this name, or too many.
        """
    def remove_group(self, name: str) -> None:
        """Use a group no longer. What it has not ended goes to the others under the same ids, and
        is cancelled there: some of it may run twice.

        Raises:
            LocalError: BAD_OPTIONS, if there is none of this name.
        """
    @property
    def client_id(self) -> str:
        """The name that results are owed to."""
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
        """Submit one job; returns when it is accepted: on the disks of a majority.

        `submit("program", ["1", "2"])` is one of a program or function by its name, with arguments
        that are text. `submit(function, 1, b=2)` calls a function that is decorated with `@task`
        with Python values; keywords that are options of jobs (`rollq.Options`) are not the
        function's (`submit_call` has them apart).

        `files` are its inputs by name: bytes, the path of a file, the path of a folder (with all
        that is in it), or what the grid has already. Small ones ride in the job; others go up
        first, as far as the grid lacks them, and `progress` is told how much of them it has.
        `outputs` are patterns of the files to bring back; all that are new if there are none.
        `timeout` counts from when the files are there.

        A job with an id or a `key` of your own may be submitted again, also by another process
        under the same client id: it runs once, and its result comes to whoever asked last. While
        this client waits for its result, the handle of the first submit is the way to it, and
        another submit is refused. The key is told with its result and in the history.

        `then` are jobs that run when this one has ended, in whichever way, and `notify` URLs that
        are told then (`Webhook`). They are accepted with it, or nothing is; `progress` is not told.

        Raises:
            DeadlineError: nobody accepted it in time. It may have been accepted all the same.
            RollqError: it was refused; the code and the hint say why.
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
        """Submit a call of a function with Python values; returns when it is accepted. For a job
        among the arguments, which need not have ended, the function gets what that returns, from
        worker to worker: the call waits for it in the grid. The rest as for `submit`.

        Raises:
            TypeError: it cannot be called so, or an argument cannot be serialized.
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
        """Submit many jobs; returns when all are accepted.

        Give specs, or a name and an iterable of arguments (each a string, a sequence of strings,
        or bytes for a payload). Each job is accepted for itself: if one is refused, those that were
        accepted before stay so, and the error says how many. `timeout` is how long nothing may be
        accepted; `progress` is told how many were.

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
        """Submit `count` tasks that share arguments and files and are told apart by their number.
        However many they are, they cost the grid one record until they run. Files as for `submit`.

        `then` and `notify` follow the array as a whole. They are submitted when it is accepted: if
        this raises then, it says so.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
    def cancel(self, *job_ids: JobId | str) -> int:
        """End jobs and arrays: what waits at once, what runs as soon as its worker obeys. Returns
        how many there were to end."""
    def output(
        self,
        job_id: JobId | str,
        *,
        follow: bool = True,
        stream: str = "",
        tail: int | None = None,
        whole: bool = False,
    ) -> Iterator[StreamPart]:
        """What a job writes: while it runs as it comes, after its end from the result.

        Args:
            job_id: Any job, also one of another client.
            follow: Whether to go on until it is over; else only what it has written by now.
            stream: `stdout` or `stderr`; empty: both, each in its order.
            tail: Of what it has written by now, only the last lines of each stream.
            whole: Nothing may be left out, also if it was written before this call or faster than
                it can be shown. What does not come while it runs comes at its end.

        Raises:
            RollqError: UNKNOWN_JOB; TIMED_OUT, if nobody answered.
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
        """One program or function over many arguments. Leaving the loop early cancels the rest.

        Of a program, given by its name: results (`Result`) as they come, or in order. An element of
        `arguments` is a string, a sequence of strings, or bytes (a payload).

        Of a function that is decorated with `@task`: what it returns for each element, in order;
        with several iterables it is called with an element of each, as by Python's own `map`.
        Keywords that are options of jobs (`rollq.Options`) are those of its jobs, others go to
        every call. Calls that are short are put together into one job, a bundle: cancels, attempts
        and limits are the bundle's.

        Args:
            jobs: A name, a function, or jobs as specs without further arguments.
            arguments: May be endless.
            more: Further iterables, for a function.
            ordered: Whether results come in the order of the arguments; left out, those of a
                function do.
            window: How many jobs are on the way at most.
            progress: Told how many ended.
            chunksize: For a function, how many calls are one job; left out, that follows from the
                time that they take: about 10 ms a job.
            return_exceptions: For a function, whether to give what a call raised in its place.
                Otherwise it is raised, and ends the loop.
            options: Of the jobs; for a function, also arguments of every call.

        Raises:
            TypeError: the function cannot be called so, or an argument cannot be serialized.
            RollqError: a job was refused, or nothing was accepted for too long.
        """
