"""Made by docs/make_blocking.py: change the asyncio classes instead."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from rollq.base.access_rules import Rule
from rollq.base.hints import ExecHint
from rollq.base.ids import JobId, MemberId, WorkerId
from rollq.base.jobs import BlobRef
from rollq.base.limits import MAP_WINDOW
from rollq.base.staged import StagedPart
from rollq.grid import views
from rollq.grid.access import AccountView, RoleView
from rollq.roles.client.access import AccessDecision
from rollq.roles.client.batches import CommitOutcome
from rollq.roles.client.caches import PUT_TIMEOUT_S, CacheReport, Spread
from rollq.roles.client.handles import Counts, Progress
from rollq.roles.client.keyed import Ended, OnMade
from rollq.roles.client.multi_machine import Policy
from rollq.roles.client.parts import Message, Redrive
from rollq.roles.client.results import Result
from rollq.roles.client.specs import Input, JobSpec, Options, Payload
from rollq.roles.client.streams import StreamPart
from rollq.roles.client.supply import BytesMoved, InputBlob
from rollq.roles.client.views import (
    ArrayView,
    CacheView,
    ClientView,
    DrainView,
    Explanation,
    HolderView,
    JobView,
    QueueView,
    Settings,
    WorkerView,
)
from rollq.security.credentials import NONE, Credentials

class BlockingJob:
    """One accepted job."""

    @property
    def job_id(self) -> JobId: ...
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
    def output(
        self, *, follow: bool = True, stream: str = "", tail: int | None = None
    ) -> Iterator[StreamPart]:
        """What it writes, while it runs and after its end; see `Client.output`. Followed from
        its beginning (no `tail`), nothing is left out."""
    def cancel(self) -> bool:
        """Ask the grid to end it; false if it had ended."""

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
        job: str | JobSpec,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        job_id: JobId | str | None = None,
        key: str = "",
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingJob:
        """Submit one job; returns when it is accepted: on the disks of a majority.

        `files` are its inputs by name: bytes, the path of a file, the path of a folder (with all
        that is in it), or what the grid has already. Small ones ride in the job; others go up
        first, as far as the grid lacks them, and `progress` is told how much of them it has.
        `outputs` are patterns of the files to bring back; all that are new if there are none.
        `timeout` counts from when the files are there.

        A job with an id or a `key` of your own may be submitted again, also by another process
        under the same client id: it runs once, and its result comes to whoever asked last. While
        this client waits for its result, the handle of the first submit is the way to it, and
        another submit is refused. The key is told with its result and in the history.

        Raises:
            DeadlineError: nobody accepted it in time. It may have been accepted all the same.
            RollqError: it was refused; the code and the hint say why.
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
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit `count` tasks that share arguments and files and are told apart by their number.
        However many they are, they cost the grid one record until they run. Files as for `submit`.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
    def map(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        ordered: bool = False,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Iterator[Result]:
        """One program over many arguments: results as they come, or in order.

        `arguments` may be endless: at most `window` jobs are on the way. An element is a string,
        a sequence of strings, or bytes (a payload). Leaving the loop early cancels the rest.
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
    def submit(
        self,
        job: str | JobSpec,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        job_id: JobId | str | None = None,
        key: str = "",
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingJob:
        """Submit one job; returns when it is accepted: on the disks of a majority.

        `files` are its inputs by name: bytes, the path of a file, the path of a folder (with all
        that is in it), or what the grid has already. Small ones ride in the job; others go up
        first, as far as the grid lacks them, and `progress` is told how much of them it has.
        `outputs` are patterns of the files to bring back; all that are new if there are none.
        `timeout` counts from when the files are there.

        A job with an id or a `key` of your own may be submitted again, also by another process
        under the same client id: it runs once, and its result comes to whoever asked last. While
        this client waits for its result, the handle of the first submit is the way to it, and
        another submit is refused. The key is told with its result and in the history.

        Raises:
            DeadlineError: nobody accepted it in time. It may have been accepted all the same.
            RollqError: it was refused; the code and the hint say why.
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
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit `count` tasks that share arguments and files and are told apart by their number.
        However many they are, they cost the grid one record until they run. Files as for `submit`.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
    def map(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        ordered: bool = False,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Iterator[Result]:
        """One program over many arguments: results as they come, or in order.

        `arguments` may be endless: at most `window` jobs are on the way. An element is a string,
        a sequence of strings, or bytes (a payload). Leaving the loop early cancels the rest.
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

class BlockingMultiClient:
    """The same as `MultiClient`, for code without an event loop. Arguments as there."""

    def __init__(
        self,
        groups: Sequence[str],
        *,
        client_id: str = "",
        desired_parallelism: int = 0,
        policy: str = Policy.ROUND_ROBIN,
        timeout: float = 30.0,
        credentials: Credentials | str | Path = NONE,
    ) -> None: ...
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
    def pending(self) -> int:
        """How many jobs wait for a group."""
    @property
    def client_id(self) -> str:
        """The name that results are owed to."""
    def submit(
        self,
        job: str | JobSpec,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        job_id: JobId | str | None = None,
        key: str = "",
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingJob:
        """Submit one job; returns when it is accepted: on the disks of a majority.

        `files` are its inputs by name: bytes, the path of a file, the path of a folder (with all
        that is in it), or what the grid has already. Small ones ride in the job; others go up
        first, as far as the grid lacks them, and `progress` is told how much of them it has.
        `outputs` are patterns of the files to bring back; all that are new if there are none.
        `timeout` counts from when the files are there.

        A job with an id or a `key` of your own may be submitted again, also by another process
        under the same client id: it runs once, and its result comes to whoever asked last. While
        this client waits for its result, the handle of the first submit is the way to it, and
        another submit is refused. The key is told with its result and in the history.

        Raises:
            DeadlineError: nobody accepted it in time. It may have been accepted all the same.
            RollqError: it was refused; the code and the hint say why.
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
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit `count` tasks that share arguments and files and are told apart by their number.
        However many they are, they cost the grid one record until they run. Files as for `submit`.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
    def map(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        ordered: bool = False,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Iterator[Result]:
        """One program over many arguments: results as they come, or in order.

        `arguments` may be endless: at most `window` jobs are on the way. An element is a string,
        a sequence of strings, or bytes (a payload). Leaving the loop early cancels the rest.
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
