"""The table of log events of all processes.

An event has a stable name, a level, a sentence, and fields; fields that are not in the sentence are
appended. docs/operations.md lists the table, which a test checks. Pure code returns events as
values; `tell` is for code with a logger.

Levels: error, somebody must act; warning, somebody may have to; info, something has changed; debug,
what happens with every job.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from rollq.base.repeats import Repeats

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
LEVEL_NUMBERS: Final[dict[Level, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Logger(Protocol):
    """The used part of a logger of the standard library."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        """Whether lines of this level are written."""

    def log(
        self,
        level: int,
        msg: object,
        *args: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Write a line."""


class LogEvent(NamedTuple):
    """One row of the table."""

    word: str
    level: Level
    text: str  # with its fields in braces
    more: tuple[str, ...] = ()  # fields appended to the text

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields, in order."""
        named = (name for _, name, _, _ in Formatter().parse(self.text) if name)
        return (*dict.fromkeys(named), *self.more)


def tell(
    log: Logger, event: LogEvent, /, *, error: BaseException | None = None, **fields: Any
) -> None:
    """Write an event to a log."""
    number = LEVEL_NUMBERS[event.level]
    if log.isEnabledFor(number):
        extra = {"event": event.word, "fields": fields, "shown": event.more}
        log.log(number, "%s", event.text.format_map(fields), extra=extra, exc_info=error)


def seldom(
    repeats: Repeats, kind: str, now_ms: int, fields: dict[str, Any]
) -> dict[str, Any] | None:
    """The fields of a frequent event: None if it is only counted now, else with the number of its
    kind that were suppressed since the last."""
    suppressed = repeats.admit(kind, now_ms)
    if suppressed is None:
        return None
    return {**fields, SUPPRESSED: suppressed} if suppressed else fields


SUPPRESSED: Final = "suppressed"

# --- processes
STARTING: Final = LogEvent(
    "starting", "info", "rollq {version} {command} starts", ("python", "pid", "options")
)
STARTED: Final = LogEvent(
    "started",
    "info",
    "member {member} of group {group} serves on {listen}, state in {state}",
    ("peers", "tls", "auth", "took_ms"),
)
RECOVERED: Final = LogEvent(
    "recovered",
    "info",
    "read the snapshot at index {snapshot} and the log up to {last_index}",
    ("entries", "term", "took_ms"),
)
DAMAGED: Final = LogEvent(
    "damaged",
    "warning",
    "parts of the log on disk were unreadable: check the disk. The readable parts were "
    "rewritten, the old files are kept in STATE/broken; other members send missing entries",
)
SNAPSHOT_DAMAGED: Final = LogEvent(
    "snapshot_damaged",
    "warning",
    "{name} on disk was unreadable: check the disk. It is kept in STATE/broken; an older one and "
    "the log, or other members, have what it held",
)
UNPROTECTED: Final = LogEvent(
    "unprotected", "warning", "no logins on {address} (--unsafe-no-auth): every peer has all rights"
)
GROUP_NAME: Final = LogEvent(
    "group_name", "warning", "{cause}: it goes on, as the group may be an older one; {todo}"
)
STOPPING: Final = LogEvent("stopping", "info", "stops: {cause}")
STOPPED: Final = LogEvent("stopped", "info", "stopped", ("took_ms",))
FAILED: Final = LogEvent("failed", "error", "stops: {cause}")
DISK_SLOW: Final = LogEvent(
    "disk_slow", "warning", "a write to the log took {took_ms} ms: the disk is slow or busy"
)
LOOP_STALLED: Final = LogEvent(
    "loop_stalled", "warning", "the event loop stood still for {stalled_ms} ms: no CPU, or stopped"
)
HANDLER_FAILED: Final = LogEvent("handler_failed", "error", "{where}: a handler failed")
WEB_ENDED: Final = LogEvent(
    "web_ended",
    "warning",
    "the web process ended ({cause}) and is started again in {again_s} s",
)
WEB_KILLED: Final = LogEvent("web_killed", "warning", "the web process does not end, and is killed")

# --- the group
WAITING_FOR_PEERS: Final = LogEvent(
    "waiting_for_peers", "info", "waiting for peers {peers} ({met} of {count} connected)"
)
GROUP_CHANGED: Final = LogEvent("group_changed", "info", "the group is {voters}", ("learners",))
REMOVED: Final = LogEvent("removed", "warning", "this member was removed from the group: stop it")
NOT_A_MEMBER: Final = LogEvent(
    "not_a_member",
    "warning",
    "this member is not in the group {voters}: it was removed, or another took its place; stop it, "
    "or start it on an empty state directory to join anew",
)
ELECTED: Final = LogEvent(
    "elected", "info", "this member is the leader in term {term}", ("voters", "unled_ms")
)
FOLLOWS: Final = LogEvent("follows", "info", "{leader} is the leader in term {term}", ("unled_ms",))
NO_LEADER: Final = LogEvent("no_leader", "warning", "no leader in term {term}", ("lost",))
LOST_LEADERSHIP: Final = LogEvent(
    "lost_leadership", "warning", "this member is no longer the leader: {cause}", ("term",)
)
HANDS_OVER: Final = LogEvent("hands_over", "info", "transferring leadership to {to}", ("term",))
MEMBER_GONE: Final = LogEvent("member_gone", "warning", "member at {address} is gone: {cause}")
MEMBER_BACK: Final = LogEvent("member_back", "info", "member at {address} is back")
MEMBER_REFUSED: Final = LogEvent(
    "member_refused", "warning", "member at {address} is refused: {cause}"
)
MEMBER_REFUSES: Final = LogEvent(
    "member_refuses", "warning", "{address} refuses this member: {cause}"
)
KEY_REFUSED: Final = LogEvent("key_refused", "warning", "{cause}")
LINK_CLOSED: Final = LogEvent("link_closed", "debug", "link to {address} closed: {cause}")
CLOCK_SKEW: Final = LogEvent("clock_skew", "warning", "clock_skew ({code}): {cause}; {todo}")
STATE_DIVERGED: Final = LogEvent(
    "state_diverged", "error", "state_diverged ({code}): {cause}; {todo}"
)
CERTIFICATE_EXPIRES: Final = LogEvent(
    "certificate_expires", "warning", "certificate_expires ({code}): {cause}; {todo}"
)
DISK_LOW: Final = LogEvent("disk_low", "warning", "disk_low ({code}): {cause}; {todo}")
MEMBER_UNPROTECTED: Final = LogEvent(
    "member_unprotected", "warning", "unprotected ({code}): {cause}; {todo}"
)

# --- the federation
NODE_UP: Final = LogEvent("node_up", "info", "{kind} {address} of group {group!a} is up")
NODE_LEFT: Final = LogEvent("node_left", "info", "{kind} {address} of group {group!a} has left")
NODE_DOWN: Final = LogEvent(
    "node_down", "warning", "{kind} {address} of group {group!a} is down: it does not answer"
)
GROUP_CONFLICT: Final = LogEvent(
    "group_conflict",
    "warning",
    "two clusters use the group name {group!a}: rename one; see `rollq groups`",
)
DATAGRAM_REFUSED: Final = LogEvent(
    "datagram_refused", "warning", "{address}: a datagram is ignored: {cause}"
)

# --- routers
ROUTER_STARTED: Final = LogEvent(
    "router_started", "info", "a router of groups {groups} serves on {listen}"
)
ROUTER_SPREAD: Final = LogEvent("router_spread", "info", "results by group: {spread}")
GROUP_REACHED: Final = LogEvent(
    "group_reached", "info", "group {group} can be reached", ("members",)
)
GROUP_GONE: Final = LogEvent(
    "group_gone", "warning", "group {group} cannot be reached", ("members",)
)
GROUP_TOO_OLD: Final = LogEvent(
    "group_too_old",
    "warning",
    "group {group} is not used: its leader lacks {features}; upgrade it before the router",
)

# --- snapshots
SNAPSHOT_TAKEN: Final = LogEvent(
    "snapshot_taken",
    "info",
    "snapshot at index {index}: {bytes} bytes, history sealed, log compacted to {compacted_to}",
    ("took_ms", "fork_ms"),
)
SNAPSHOT_FAILED: Final = LogEvent(
    "snapshot_failed", "error", "snapshot at {index} failed, retried later: {cause}"
)
SNAPSHOT_INSTALLED: Final = LogEvent(
    "snapshot_installed", "info", "installed the snapshot of the leader at index {index}"
)

# --- sessions
WORKER_JOINED: Final = LogEvent(
    "worker_joined", "info", "worker {name} joined, serves {patterns}", ("worker",)
)
WORKER_LEFT: Final = LogEvent("worker_left", "info", "worker {name} left: {cause}", ("worker",))
WORKER_SILENT: Final = LogEvent(
    "worker_silent",
    "warning",
    "worker {name} does not answer: it gets no more jobs until it reconnects",
    ("worker",),
)
WORKER_LOST: Final = LogEvent(
    "worker_lost",
    "warning",
    "worker {name} did not reconnect; attempts lost: {lost}",
    ("worker",),
)
LEASES_EXPIRED: Final = LogEvent(
    "leases_expired", "warning", "attempts lost to expired leases: {lost}"
)
CLIENT_JOINED: Final = LogEvent("client_joined", "debug", "client {client!a} joined")
CLIENT_LEFT: Final = LogEvent("client_left", "debug", "client {client!a} left")
JOB_REFUSED: Final = LogEvent(
    "job_refused", "warning", "job {job} of {client!a} is refused: {cause}"
)
RESULT_NOT_KEPT: Final = LogEvent(
    "result_not_kept", "warning", "job {job} fails: its result cannot be kept: {cause}"
)
ACCESS_REFUSED: Final = LogEvent(
    "access_refused", "warning", "{address}: {account!a} may not do {action} on {resource!a}"
)
LOGIN_FAILED: Final = LogEvent("login_failed", "warning", "{address}: a login failed: {cause}")
ADMINISTERED: Final = LogEvent("administered", "info", "{act} {what}", ("by",))

# --- jobs, on the leader
JOB_ASSIGNED: Final = LogEvent(
    "job_assigned",
    "debug",
    "job {job} is assigned to a worker",
    ("attempt", "worker", "queue", "exec"),
)
JOB_ENDED: Final = LogEvent(
    "job_ended", "debug", "job {job} ended", ("attempt", "worker", "status", "exit_code", "run_ms")
)
JOB_RETRIED: Final = LogEvent(
    "job_retried",
    "info",
    "job {job} runs again: {cause}",
    ("attempt", "worker", "exec", "exit_code", "signal", "delay_ms"),
)
JOB_DEAD: Final = LogEvent(
    "job_dead",
    "warning",
    "job {job} is dead: {cause}",
    ("attempt", "worker", "exec", "exit_code", "signal"),
)

# --- workers
WORKER_STARTED: Final = LogEvent(
    "worker_started",
    "info",
    "worker {name} starts: {slots} slots, {undelivered} results not delivered yet",
    ("worker", "servers", "exec_dir"),
)
PROGRAMS: Final = LogEvent(
    "programs", "info", "programs: {programs}; modules of functions: {modules}"
)
NOT_EXECUTABLE: Final = LogEvent(
    "not_executable", "warning", "files in {exec_dir} are not executable: {files}; chmod +x them"
)
CONNECTED: Final = LogEvent("connected", "info", "connected to leader {address}")
DISCONNECTED: Final = LogEvent("disconnected", "warning", "connection to {address} lost: {cause}")
UNREACHABLE: Final = LogEvent("unreachable", "warning", "{cause}; {todo}")
NOT_LET_IN: Final = LogEvent(
    "not_let_in", "warning", "{address} refuses the connection: {cause}; {todo}"
)
LEADER_ERROR: Final = LogEvent("leader_error", "error", "member {address}: {cause}")
LEGACY: Final = LogEvent(
    "legacy", "info", "{address} does not answer hello: using the legacy protocol"
)
JOB_STARTED: Final = LogEvent("job_started", "debug", "job {job} starts", ("attempt", "exec"))
JOB_SUCCEEDED: Final = LogEvent(
    "job_succeeded", "debug", "job {job} is done", ("attempt", "run_ms")
)
JOB_FAILED: Final = LogEvent(
    "job_failed", "info", "job {job} failed: {cause}", ("attempt", "exit_code", "signal", "run_ms")
)
JOB_GIVEN_BACK: Final = LogEvent("job_given_back", "warning", "job {job} is given back: {cause}")
DRAINING: Final = LogEvent(
    "draining",
    "info",
    "draining: waiting up to {wait_s} s for {running} attempts; a second signal kills them",
)
DRAINED: Final = LogEvent("drained", "info", "drained")
DRAIN_OVERDUE: Final = LogEvent(
    "drain_overdue", "warning", "drain timed out: {running} attempts are still running"
)
DISMISSED: Final = LogEvent("dismissed", "info", "dismissed: {cause}")

EVENTS: Final = tuple(value for value in list(globals().values()) if isinstance(value, LogEvent))
