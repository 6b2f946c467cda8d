"""Resources of messages, verbs and views, as rules name them: `KIND:NAME`.

A row names where a resource stands; here the name becomes the one that counts. A subject is the
queue that it means, the patterns of a worker are the queues that they cover, an empty client id is
that of the session, and what is not named is all of its kind (`*`). Jobs and blobs are not among
these: whose they are is looked up (`targets`), and they are refused in words of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from rollq.base.access import Action, LinkRole, Principal, Resource, ResourceKind
from rollq.base.access_rules import ANY
from rollq.base.ids import guid_to_text
from rollq.roles.member.guard.targets import Targets
from rollq.subjects.grammar import (
    ANY_REST,
    SEPARATOR,
    fold,
    parse_pattern,
    parse_subject,
)
from rollq.subjects.overlap import overlaps
from rollq.subjects.queues import queue_of, worker_pattern
from rollq.subjects.reserved import JOB_EVENTS, is_inbox, job_of_event
from rollq.wire.messages import CachePut, HelloWorker
from rollq.wire.models import CachePutHead, decode_model
from rollq.wire.reader_messages import PartAsk
from rollq.wire.registry import ROW_OF
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs
from rollq.wire.subject_messages import Publish, Subscribe

K: TypeAlias = ResourceKind
# What comes with a session that was let in: nothing more is asked for it.
FREE: Final = frozenset(
    {
        Action.SESSION_LOGIN,
        Action.SESSION_PING,
        Action.ANSWER,
        Action.BLOBS_TRANSFER,
        Action.SUBJECTS_HOLD,
    }
)
LOOKED_UP: Final = frozenset({K.JOB, K.BLOB})
ALL_JOBS: Final = (f"{K.CLIENT}:{ANY}", f"{K.QUEUE}:{ANY}")
BATCHES: Final = frozenset({CommitBatch, DropBatch, StageJobs})


class Ask(NamedTuple):
    """Something that a message wants to do."""

    action: Action
    names: Iterable[str]


def asks_of_message(targets: Targets, principal: Principal, message: Any) -> list[Ask]:
    """What a message asks for, but for jobs and blobs.

    Raises:
        RemoteError: a name is none, as the service would say.
    """
    row = ROW_OF[type(message)]
    special = SPECIAL.get(row.struct)
    if special is not None:
        return special(targets, principal, message)
    return [
        Ask(resource.action or row.action, _names_in(targets, principal, resource, message))
        for resource in row.resources
        if resource.kind not in LOOKED_UP
    ]


def asks_of_verb(
    targets: Targets, action: Action, resources: Iterable[Resource], arguments: Any
) -> list[Ask]:
    """What a verb asks for, by its arguments; but for jobs and blobs. What it is on with an action
    of its own may be nothing."""
    asks = []
    for resource in resources:
        if resource.kind not in LOOKED_UP:
            names = [_named(targets, resource.kind, one) for one in resource.names_in(arguments)]
            if not names and resource.action is None:
                names = [f"{resource.kind}:{ANY}"]
            asks.append(Ask(resource.action or action, names))
    return asks


def asks_of_view(
    targets: Targets, action: Action, resources: Iterable[Resource], key: Any
) -> list[Ask]:
    """What a query asks for, by the key that it is read with; a filter that names nothing means
    all. All jobs are those of all clients in all queues; one job is looked up."""
    asks = []
    for resource in resources:
        if resource.kind is K.JOB:
            asks.append(Ask(action, () if resource.field else ALL_JOBS))
            continue
        is_key = resource.field == "key"
        values = (key,) if is_key else resource.names_in(key)
        names = [_named(targets, resource.kind, one) for one in values]
        asks.append(Ask(action, names or [f"{resource.kind}:{ANY}"]))
    return asks


def own_name(principal: Principal) -> str:
    """The resource that a session is: its client or its worker; of other links, the account as a
    client."""
    if principal.role is LinkRole.WORKER:
        return f"{K.WORKER}:{principal.name}"
    if principal.role is LinkRole.CLIENT:
        return f"{K.CLIENT}:{principal.name}"
    return f"{K.CLIENT}:{principal.account}"


def queues_of_pattern(text: str) -> str:
    """The queues that a worker asks for, as a pattern of rules: it covers all that the worker's
    covers, so that a deny on any of them counts."""
    tokens = worker_pattern(text).split(SEPARATOR)
    if len(tokens) < 3 or tokens[:2] != ["job", "assign"]:
        return f"{K.QUEUE}:{ANY}"
    return f"{K.QUEUE}:{SEPARATOR.join(ANY if one == '>' else one for one in tokens[2:])}"


def subjects_of_pattern(text: str) -> list[str]:
    """The subjects that a subscription asks for, as patterns of rules: `a.>` is `a` and `a.*`. An
    allow must cover all of each, and a deny on any of it counts.

    Raises:
        RemoteError: BAD_SUBJECT, if the pattern is not valid.
    """
    tokens = parse_pattern(text)
    if tokens[-1:] != (ANY_REST,):
        return [f"{K.SUBJECT}:{SEPARATOR.join(tokens)}"]
    above = SEPARATOR.join(tokens[:-1])
    if not above:
        return [f"{K.SUBJECT}:{ANY}"]
    return [f"{K.SUBJECT}:{above}", f"{K.SUBJECT}:{above}{SEPARATOR}{ANY}"]


def _names_in(
    targets: Targets, principal: Principal, resource: Resource, message: Any
) -> Iterable[str]:
    kind = resource.kind
    if kind is K.SESSION:
        return (own_name(principal),)
    if kind is K.GROUP or kind is K.GRID or not resource.field:
        return (f"{kind}:{ANY}",)
    values = resource.names_in(message)
    if kind is K.CLIENT:
        others = [f"{kind}:{one}" for one in values if one]
        if others and type(message) in BATCHES:
            return others
        # Whatever it says, the jobs will be those of the session's client.
        return dict.fromkeys((own_name(principal), *others))
    if kind is K.QUEUE:
        return [f"{kind}:{targets.queue_named(one)}" for one in values]
    return [_named(targets, kind, one) for one in values]


def _named(targets: Targets, kind: ResourceKind, value: Any) -> str:
    """One resource, in the spelling that is compared."""
    if not value:
        return f"{kind}:{ANY}"
    if kind is K.WORKER:
        return targets.of_worker(value)
    if kind is K.QUEUE:
        return f"{kind}:{fold(queue_of(value))}"
    return f"{kind}:{guid_to_text(value) if isinstance(value, bytes) else value}"


def _of_worker(targets: Targets, principal: Principal, hello: HelloWorker) -> list[Ask]:
    """A worker by the name that it says, and by the one under which the group knows its id: nobody
    takes the attempts of another by its id."""
    names = {own_name(principal): None}
    if targets.knows_worker(hello.worker_id):
        names[targets.of_worker(hello.worker_id)] = None
    queues = map(queues_of_pattern, hello.patterns or ("",))
    return [Ask(Action.WORKER_CONNECT, (*names, *queues))]


def _of_staged(targets: Targets, principal: Principal, message: StageJobs) -> list[Ask]:
    """Jobs that are to run again are looked up; their groups name nothing else."""
    names = [f"{K.CLIENT}:{message.client_id}" if message.client_id else own_name(principal)]
    caches: list[str] = []
    secrets: list[str] = []
    for group in message.groups:
        if not group.redrives:
            names += (
                f"{K.QUEUE}:{targets.queue_named(group.queue)}",
                f"{K.EXEC}:{group.exec_name}",
            )
            caches += [f"{K.CACHE}:{one}" for one in group.caches]
            used = () if group.options is None else group.options.secrets
            secrets += [f"{K.SECRET}:{one.name}" for one in used]
    return [
        Ask(Action.JOBS_SUBMIT, dict.fromkeys(names)),
        Ask(Action.CACHES_READ, dict.fromkeys(caches)),
        Ask(Action.SECRETS_USE, dict.fromkeys(secrets)),
    ]


def _of_part(targets: Targets, principal: Principal, ask: PartAsk) -> list[Ask]:
    """The table of the part; all of them, if that is not known."""
    table = targets.table_of(ask.export_id, ask.number) or ANY
    return [Ask(Action.TABLES_READ, (f"{K.TABLE}:{table}",))]


def _of_cache(targets: Targets, principal: Principal, message: CachePut) -> list[Ask]:
    """The cache that the payload names."""
    cache_id = decode_model(message.payload, CachePutHead).cache_id
    return [Ask(Action.CACHES_WRITE, (f"{K.CACHE}:{cache_id or ANY}",))]


def _of_publish(targets: Targets, principal: Principal, message: Publish) -> list[Ask]:
    """The subject in its one spelling."""
    name = f"{K.SUBJECT}:{SEPARATOR.join(parse_subject(message.subject))}"
    return [Ask(Action.SUBJECTS_PUBLISH, (name,))]


def _of_subscribe(targets: Targets, principal: Principal, message: Subscribe) -> list[Ask]:
    """All that the pattern covers. An inbox belongs to the session that drew its name, which the
    leader sees to. What is said of jobs is for those who may read them: of one job that is looked
    up; a pattern over such subjects reads all jobs."""
    tokens = parse_pattern(message.pattern)
    if is_inbox(tokens):
        return []
    asks = [Ask(Action.SUBJECTS_SUBSCRIBE, subjects_of_pattern(message.pattern))]
    if message.topic:
        asks.append(Ask(Action.TOPICS_READ, (f"{K.TOPIC}:{message.topic}",)))
    if job_of_event(tokens) is None and overlaps(message.pattern, JOB_EVENTS):
        asks.append(Ask(Action.JOBS_READ, ALL_JOBS))
    return asks


SPECIAL: Final[Mapping[type, Callable[[Targets, Principal, Any], list[Ask]]]] = {
    HelloWorker: _of_worker,
    StageJobs: _of_staged,
    PartAsk: _of_part,
    CachePut: _of_cache,
    Publish: _of_publish,
    Subscribe: _of_subscribe,
}
