"""Admin verbs: operator requests about queues, dead jobs, settings, caches, topics, schedules,
workers, members, accounts and roles.

A verb is a row of `VERBS`: its arguments, the permission that it needs, and its handler.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from rollq.base import limits
from rollq.base.access import Action, Resource, ResourceKind
from rollq.base.access_rules import AccessRole, Account, Rule, TokenHash
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.hints import ExecHint
from rollq.base.ids import MemberId, guid_to_text
from rollq.base.names import checked_tree
from rollq.grid import access_commands, commands, rule_commands, schedule_commands, topic_commands
from rollq.raft.node import RaftNode
from rollq.raft.types import ChangeKind, ConfigChange, Member, MemberChange
from rollq.roles.member.leader.admin_arguments import (
    SHARED,
    AccessNameArguments,
    AgainArguments,
    DismissArguments,
    DrainArguments,
    ForgetCursorArguments,
    FreeArguments,
    HintsArguments,
    HoldArguments,
    LimitArguments,
    MemberArguments,
    PatternArguments,
    PurgeArguments,
    PutAccountArguments,
    PutCacheArguments,
    PutLimitArguments,
    PutPolicyArguments,
    PutRoleArguments,
    PutTopicArguments,
    QueueArguments,
    RedriveArguments,
    RedriveChangedArguments,
    RemoveCacheArguments,
    RemoveTopicArguments,
    SettingsArguments,
    WeightArguments,
)
from rollq.roles.member.leader.caches import GroupCaches
from rollq.roles.member.leader.jobs import JobRequests
from rollq.roles.member.leader.origins import SILENT, Origin
from rollq.roles.member.leader.proposals import Proposals
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.reruns import like, redriven
from rollq.roles.member.leader.schedule_arguments import PutScheduleArguments, ScheduleArguments
from rollq.roles.member.leader.schedules import ScheduleRequests
from rollq.roles.member.leader.sessions import ClientSession
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.leader.workers import Workers
from rollq.roles.member.membership import find
from rollq.roles.member.replica import Replica
from rollq.roles.member.reports import Reports
from rollq.subjects.grammar import parse_pattern, parse_subject
from rollq.subjects.overlap import overlaps
from rollq.subjects.queues import queue_of, queue_pattern, worker_pattern
from rollq.subjects.reserved import ALL_INBOXES, JOB_EVENTS
from rollq.wire.messages import Admin
from rollq.wire.rules import bounds_of, compile_table

WORKERS_NAMED_MAX: Final = 12  # dismissed workers named in one history resource


class AdminRequests:
    """Handles operator requests on one leader."""

    def __init__(
        self,
        proposals: Proposals,
        replies: Replies,
        workers: Workers,
        caches: GroupCaches,
        jobs: JobRequests,
        *,
        schedules: ScheduleRequests,
        replica: Replica,
        shell: Shell,
        raft: Callable[[], RaftNode],
        reports: Reports,
    ) -> None:
        self._proposals = proposals
        self._replies = replies
        self._workers = workers
        self._caches = caches
        self._jobs = jobs
        self._schedules = schedules
        self._replica = replica
        self._shell = shell
        self._raft = raft
        self._reports = reports
        # By log index: the answer to the change of members in that entry, which is under way.
        self.changes: dict[int, Callable[[], None]] = {}  # at most one: raft refuses others

    def handle(self, session: ClientSession, message: Admin) -> None:
        """Run the handler of a verb."""
        verb = VERBS.get(message.action)
        if verb is None:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"unknown action {message.action[:64]!r}",
                f"use one of: {' '.join(VERBS)}",
            )
        verb.handle(self, session, message, decode_arguments(message.arguments, verb.arguments))

    def propose(self, session: ClientSession, message: Admin, command: commands.Command) -> None:
        """Propose a command; the client is answered once it is applied."""
        origin = Origin(self._replies.settle_request, session.number, message.request_id)
        self._proposals.add_request(command, origin)

    def redrive_changed(
        self, session: ClientSession, message: Admin, wanted: RedriveChangedArguments
    ) -> None:
        """Redrive dead jobs with changed arguments, variables or queue."""
        state = self._replica.state
        items = tuple(redriven(state, job_id, wanted) for job_id in wanted.job_ids)
        self.propose(session, message, commands.RedriveJobs(items, session.by))

    def again(self, session: ClientSession, message: Admin, wanted: AgainArguments) -> None:
        """Submit a copy of another job; the request id becomes its job id."""
        state = self._replica.state
        self._jobs.submit(session, like(state, wanted, message.request_id, session.client_id))

    def change_schedule(
        self,
        session: ClientSession,
        message: Admin,
        wanted: PutScheduleArguments | ScheduleArguments,
    ) -> None:
        """Create, change, resume or run a schedule."""
        self.propose(session, message, self._schedules.command(session, message, wanted))

    def put_cache(self, session: ClientSession, message: Admin, wanted: PutCacheArguments) -> None:
        """Create or replace a cache; its files must be stored already."""
        command = _put_cache(wanted, session.by)
        self._shell.check_held(
            tuple(entry.blob for entry in command.entries), limits.CACHE_ENTRIES_MAX
        )
        self._change_cache(session, message, command)

    def remove_cache(
        self, session: ClientSession, message: Admin, wanted: RemoveCacheArguments
    ) -> None:
        """Remove a cache."""
        command = commands.RemoveCache(wanted.cache_id, session.by)
        self._change_cache(session, message, command)

    def _change_cache(
        self, session: ClientSession, message: Admin, command: commands.Command
    ) -> None:
        origin = Origin(self._caches.settle_change, session.number, message.request_id)
        self._proposals.add_request(command, origin)

    def put_account(
        self, session: ClientSession, message: Admin, wanted: PutAccountArguments
    ) -> None:
        """Create or replace an account."""
        may_lock_out = self._shell.has_admin_certificates
        what = wanted.account, wanted.version, may_lock_out
        self.propose(session, message, access_commands.PutAccount(*what, session.by))

    def remove_account(
        self, session: ClientSession, message: Admin, wanted: AccessNameArguments
    ) -> None:
        """Remove an account."""
        may_lock_out = self._shell.has_admin_certificates
        command = access_commands.RemoveAccount(wanted.name, may_lock_out, session.by)
        self.propose(session, message, command)

    def put_role(self, session: ClientSession, message: Admin, wanted: PutRoleArguments) -> None:
        """Create a role, or replace its rules."""
        may_lock_out = self._shell.has_admin_certificates
        what = wanted.role, wanted.version, may_lock_out
        self.propose(session, message, access_commands.PutRole(*what, session.by))

    def dismiss(self, session: ClientSession, message: Admin, wanted: DismissArguments) -> None:
        """Ask workers to shut down."""
        count = self._workers.dismiss(wanted.worker_ids, session.by)
        names = ",".join(map(guid_to_text, wanted.worker_ids[:WORKERS_NAMED_MAX]))
        self._note(session, message, f"worker:{names}")
        self._replies.accept(session.number, message.request_id, count)

    def add_member(self, session: ClientSession, message: Admin, wanted: MemberArguments) -> None:
        """Add a member as a learner; it is promoted when it has caught up."""
        member = Member(wanted.member_id, wanted.address)
        self._change_members(session, message, MemberChange(ChangeKind.ADD_LEARNER, member))

    def remove_member(
        self, session: ClientSession, message: Admin, wanted: MemberArguments
    ) -> None:
        """Remove a member; not the only one that has the whole history."""
        member = self._known(wanted.member_id)
        if self._reports.is_sole_keeper(member.id, self._raft()):
            what = f"no other member has told that it has the whole history of {member.address}"
            todo = "new members fetch it in the background: ask again in a while"
            raise StateError(ErrorCode.BAD_CONFIG_CHANGE, what, todo)
        self._change_members(session, message, MemberChange(ChangeKind.REMOVE, member))

    def transfer(self, session: ClientSession, message: Admin, wanted: MemberArguments) -> None:
        """Transfer leadership to a member, after the act is in the history: a leader that transfers
        accepts no more proposals."""
        member_id = self._known(wanted.member_id).id

        def hand_over(origin: Origin, command: Any, outcome: Any, applied: Any) -> None:
            try:
                self._raft().transfer_leadership(member_id)
            except StateError as error:
                self._replies.refuse(origin.session, message, error)
            else:
                self._replies.accept(origin.session, origin.request_id)

        origin = Origin(hand_over, session.number, message.request_id)
        self._note(session, message, f"member:{member_id}", origin)

    def _change_members(self, session: ClientSession, message: Admin, change: MemberChange) -> None:
        index = self._raft().propose_config(ConfigChange((change,)))
        self.changes[index] = partial(self._replies.accept, session.number, message.request_id)
        self._note(session, message, f"member:{change.member.id}")

    def _note(
        self, session: ClientSession, message: Admin, resource: str, origin: Origin = SILENT
    ) -> None:
        """Record an act in the history that is no command of the grid."""
        verb = message.action
        command = access_commands.NoteAct(verb, VERBS[verb].action.value, resource, session.by)
        self._proposals.add(command, origin)

    def _known(self, member_id: MemberId) -> Member:
        member = find(self._raft().config, member_id)
        if member is None:
            raise StateError(ErrorCode.BAD_CONFIG_CHANGE, f"no member {member_id} in this group")
        return member


Handler: TypeAlias = Callable[[AdminRequests, ClientSession, Admin, Any], None]


class Verb(NamedTuple):
    """One value of `Admin.action`.

    Attributes:
        arguments: The struct of its arguments, a msgpack map; its field types have the bounds.
        action: The action for the permission check.
        resource: The resource for the check, named by a field of the arguments.
        handle: The handler; gets the decoded arguments.
        also: Further resources for the check."""

    arguments: type[msgspec.Struct]
    action: Action
    resource: Resource
    handle: Handler
    also: tuple[Resource, ...] = ()


def _command(make: Callable[[Any, str], commands.Command]) -> Handler:
    """The handler of a verb that proposes one command, made of its arguments and the account."""

    def handle(
        requests: AdminRequests, session: ClientSession, message: Admin, arguments: Any
    ) -> None:
        requests.propose(session, message, make(arguments, session.by))

    return handle


def _put_topic(wanted: PutTopicArguments, by: str) -> topic_commands.PutTopic:
    """Normalises name and patterns; refuses patterns that overlap subjects without retention."""
    if ".".join(parse_subject(wanted.name)) != wanted.name or not wanted.name:
        raise RemoteError(
            ErrorCode.BAD_OPTIONS,
            f"{wanted.name[:64]!a} cannot be the name of a topic",
            "use small letters, digits and dashes, with dots in between",
        )
    patterns = tuple(dict.fromkeys(".".join(parse_pattern(one)) for one in wanted.patterns))
    for pattern in patterns:
        for live in (ALL_INBOXES, JOB_EVENTS):
            if overlaps(pattern, live):
                raise StateError(
                    ErrorCode.TOPIC_CONFLICT,
                    f"{pattern!a} covers subjects of {live}, which no topic keeps",
                    "name the first token: `prices.>`",
                )
    bounds = wanted.age_ms, wanted.bytes_max, wanted.count_max
    return topic_commands.PutTopic(wanted.name, patterns, *bounds, by)


def _put_policy(wanted: PutPolicyArguments, by: str) -> rule_commands.PutPolicy:
    pattern = queue_pattern(wanted.pattern)
    return rule_commands.PutPolicy(pattern, wanted.placement, wanted.weights, by)


def _put_limit(wanted: PutLimitArguments, by: str) -> rule_commands.PutLimit:
    values = wanted.running_max, wanted.rate, wanted.burst
    return rule_commands.PutLimit(*_limit_key(wanted), *values, by)


def _limit_key(wanted: PutLimitArguments | LimitArguments) -> tuple[str, str]:
    """The scope and name of a limit; a queue name is normalised as in submits."""
    is_queue = wanted.scope == "queue"
    return wanted.scope, queue_of(wanted.name) if is_queue else wanted.name


K = ResourceKind
QUEUE: Final = Resource(K.QUEUE, "queue")
CACHE: Final = Resource(K.CACHE, "cache_id")
READER: Final = Resource(K.READER, "name")
MEMBER: Final = Resource(K.MEMBER, "member_id")
SCHEDULE: Final = Resource(K.SCHEDULE, "name")

# Running a job with changed inputs equals a submit: the guard checks all rights of one.
AS_SUBMIT: Final = (
    Resource(K.QUEUE, "queue", Action.JOBS_SUBMIT),
    Resource(K.EXEC, "", Action.JOBS_SUBMIT),
)

VERBS: Final[dict[str, Verb]] = {
    # Queue names are normalised as in submits.
    "pause": Verb(
        *(QueueArguments, Action.QUEUES_PAUSE, QUEUE),
        _command(lambda wanted, by: commands.PauseQueue(queue_of(wanted.queue), by)),
    ),
    "resume": Verb(
        *(QueueArguments, Action.QUEUES_PAUSE, QUEUE),
        _command(lambda wanted, by: commands.ResumeQueue(queue_of(wanted.queue), by)),
    ),
    "redrive": Verb(
        *(RedriveArguments, Action.JOBS_REDRIVE, Resource(K.JOB, "items.job_id")),
        _command(lambda wanted, by: commands.RedriveJobs(wanted.items, by)),
    ),
    "redrive_changed": Verb(
        *(RedriveChangedArguments, Action.JOBS_REDRIVE, Resource(K.JOB, "job_ids")),
        AdminRequests.redrive_changed,
        AS_SUBMIT,
    ),
    "again": Verb(
        *(AgainArguments, Action.JOBS_REDRIVE, Resource(K.JOB, "job_id")),
        AdminRequests.again,
        AS_SUBMIT,
    ),
    "purge": Verb(
        *(PurgeArguments, Action.JOBS_PURGE, Resource(K.JOB, "job_ids")),
        _command(lambda wanted, by: commands.PurgeJobs(wanted.job_ids, by)),
    ),
    "settings": Verb(
        *(SettingsArguments, Action.SETTINGS_WRITE, Resource(K.GRID)),
        _command(lambda wanted, by: commands.SetSettings(wanted.settings, by)),
    ),
    "set_hints": Verb(
        *(HintsArguments, Action.SETTINGS_WRITE, Resource(K.EXEC, "hints.exec_name")),
        _command(lambda wanted, by: commands.SetHints(wanted.hints, by)),
    ),
    "put_policy": Verb(
        *(PutPolicyArguments, Action.SETTINGS_WRITE, Resource(K.GRID)),
        _command(_put_policy),
    ),
    "remove_policy": Verb(
        *(PatternArguments, Action.SETTINGS_WRITE, Resource(K.GRID)),
        _command(lambda wanted, by: rule_commands.RemovePolicy(queue_pattern(wanted.pattern), by)),
    ),
    "put_limit": Verb(
        *(PutLimitArguments, Action.SETTINGS_WRITE, Resource(K.GRID)),
        _command(_put_limit),
    ),
    "remove_limit": Verb(
        *(LimitArguments, Action.SETTINGS_WRITE, Resource(K.GRID)),
        _command(lambda wanted, by: rule_commands.RemoveLimit(*_limit_key(wanted), by)),
    ),
    "put_weight": Verb(
        *(WeightArguments, Action.SETTINGS_WRITE, Resource(K.GRID)),
        _command(lambda wanted, by: rule_commands.PutWeight(wanted.client_id, wanted.weight, by)),
    ),
    "put_cache": Verb(
        *(PutCacheArguments, Action.CACHES_WRITE, CACHE),
        AdminRequests.put_cache,
        (Resource(K.BLOB, "entries.blob.digest", Action.BLOBS_READ),),
    ),
    "remove_cache": Verb(
        RemoveCacheArguments, Action.CACHES_WRITE, CACHE, AdminRequests.remove_cache
    ),
    "put_topic": Verb(
        *(PutTopicArguments, Action.TOPICS_WRITE, Resource(K.TOPIC, "name")),
        _command(_put_topic),
    ),
    "remove_topic": Verb(
        *(RemoveTopicArguments, Action.TOPICS_WRITE, Resource(K.TOPIC, "name")),
        _command(lambda wanted, by: topic_commands.RemoveTopic(wanted.name, by)),
    ),
    "forget_cursor": Verb(
        *(ForgetCursorArguments, Action.TOPICS_WRITE, Resource(K.TOPIC, "topic")),
        _command(lambda one, by: topic_commands.ForgetCursor(one.topic, one.durable, by)),
    ),
    "put_schedule": Verb(
        *(PutScheduleArguments, Action.SCHEDULES_WRITE, SCHEDULE),
        AdminRequests.change_schedule,
        (
            Resource(K.QUEUE, "queue", Action.JOBS_SUBMIT),
            Resource(K.EXEC, "exec_name", Action.JOBS_SUBMIT),
            Resource(K.CACHE, "caches", Action.CACHES_READ),
            Resource(K.SECRET, "options.secrets.name", Action.SECRETS_USE),
        ),
    ),
    "remove_schedule": Verb(
        *(ScheduleArguments, Action.SCHEDULES_WRITE, SCHEDULE),
        _command(lambda wanted, by: schedule_commands.RemoveSchedule(wanted.name, by)),
    ),
    "pause_schedule": Verb(
        *(ScheduleArguments, Action.SCHEDULES_WRITE, SCHEDULE),
        _command(lambda wanted, by: schedule_commands.PauseSchedule(wanted.name, by)),
    ),
    "resume_schedule": Verb(
        *(ScheduleArguments, Action.SCHEDULES_WRITE, SCHEDULE), AdminRequests.change_schedule
    ),
    "run_schedule": Verb(
        *(ScheduleArguments, Action.SCHEDULES_WRITE, SCHEDULE), AdminRequests.change_schedule
    ),
    "hold_history": Verb(
        *(HoldArguments, Action.HISTORY_HOLD, READER),
        _command(lambda wanted, by: commands.HoldHistory(wanted.name, wanted.index, by)),
    ),
    "free_history": Verb(
        *(FreeArguments, Action.HISTORY_HOLD, READER),
        _command(lambda wanted, by: commands.FreeHistory(wanted.name, 0, by)),
    ),
    "dismiss": Verb(
        *(DismissArguments, Action.WORKERS_DISMISS, Resource(K.WORKER, "worker_ids")),
        AdminRequests.dismiss,
    ),
    "drain": Verb(
        *(DrainArguments, Action.WORKERS_DRAIN, Resource(K.WORKER, "worker_ids")),
        _command(lambda wanted, by: commands.DrainWorkers(wanted.worker_ids, by=by)),
    ),
    "undrain": Verb(
        *(DrainArguments, Action.WORKERS_DRAIN, Resource(K.WORKER, "worker_ids")),
        _command(lambda wanted, by: commands.DrainWorkers(wanted.worker_ids, True, by)),
    ),
    "add_member": Verb(MemberArguments, Action.CLUSTER_CHANGE, MEMBER, AdminRequests.add_member),
    "remove_member": Verb(
        MemberArguments, Action.CLUSTER_CHANGE, MEMBER, AdminRequests.remove_member
    ),
    "transfer": Verb(MemberArguments, Action.CLUSTER_CHANGE, MEMBER, AdminRequests.transfer),
    "access_put_account": Verb(
        *(PutAccountArguments, Action.ACCESS_WRITE, Resource(K.ACCOUNT, "account.name")),
        AdminRequests.put_account,
    ),
    "access_remove_account": Verb(
        *(AccessNameArguments, Action.ACCESS_WRITE, Resource(K.ACCOUNT, "name")),
        AdminRequests.remove_account,
    ),
    "access_put_role": Verb(
        *(PutRoleArguments, Action.ACCESS_WRITE, Resource(K.ROLE, "role.name")),
        AdminRequests.put_role,
    ),
    "access_remove_role": Verb(
        *(AccessNameArguments, Action.ACCESS_WRITE, Resource(K.ROLE, "name")),
        _command(lambda wanted, by: access_commands.RemoveRole(wanted.name, by)),
    ),
}


def decode_arguments(arguments: bytes, kind: type[msgspec.Struct]) -> msgspec.Struct:
    """Decode the arguments of a verb and check their bounds.

    Raises:
        RemoteError: BAD_PAYLOAD, or the code of a violated bound.
    """
    try:
        decoded = msgspec.msgpack.decode(arguments, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"bad arguments: {error}") from None
    checked: msgspec.Struct = CHECKS[kind](decoded)
    return checked


def _put_cache(wanted: PutCacheArguments, by: str) -> commands.PutCache:
    """Checks that the file names and the pattern are valid on every worker."""
    checked_tree(entry.name for entry in wanted.entries)
    pattern = ".".join(parse_pattern(worker_pattern(wanted.target_pattern)))
    return commands.PutCache(wanted.cache_id, wanted.entries, pattern, by)


CHECKS: Final = compile_table(
    SHARED | {verb.arguments: bounds_of(verb.arguments) for verb in VERBS.values()},
    {
        commands.Settings: ErrorCode.BAD_OPTIONS,
        ExecHint: ErrorCode.BAD_OPTIONS,
        **dict.fromkeys((Account, AccessRole, Rule, TokenHash), ErrorCode.BAD_ACCESS),
    },
)
