"""Resources of messages, verbs and views, as rules name them: `KIND:NAME`.

Registry rows name the fields of resources; here the values are normalised. A subject is its queue,
the patterns of a worker are the queues that they cover, an empty client id is that of the session,
and a missing name means all of its kind (`*`). Jobs and blobs are not among these: their owners are
looked up (`targets`), and they have refusals of their own.
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
# Actions that every accepted session may do.
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


class AccessRequest(NamedTuple):
    """An action of a message, with the resources that it needs."""

    action: Action
    names: Iterable[str]


def requests_of_message(
    targets: Targets, principal: Principal, message: Any
) -> list[AccessRequest]:
    """The access requests of a message, except for jobs and blobs.

    Raises:
        RemoteError: an invalid name, with the error of the service.
    """
    row = ROW_OF[type(message)]
    special = SPECIAL.get(row.struct)
    if special is not None:
        return special(targets, principal, message)
    return [
        AccessRequest(
            resource.action or row.action, _names_in(targets, principal, resource, message)
        )
        for resource in row.resources
        if resource.kind not in LOOKED_UP
    ]


def requests_of_verb(
    targets: Targets, action: Action, resources: Iterable[Resource], arguments: Any
) -> list[AccessRequest]:
    """The access requests of a verb with its arguments, except for jobs and blobs. A resource with
    an action of its own may be absent."""
    requests = []
    for resource in resources:
        if resource.kind not in LOOKED_UP:
            names = [_named(targets, resource.kind, one) for one in resource.names_in(arguments)]
            if not names and resource.action is None:
                names = [f"{resource.kind}:{ANY}"]
            requests.append(AccessRequest(resource.action or action, names))
    return requests


def requests_of_view(
    targets: Targets, action: Action, resources: Iterable[Resource], key: Any
) -> list[AccessRequest]:
    """The access requests of a query with its decoded key; an empty filter means all. All jobs are
    those of all clients in all queues; one job is looked up."""
    requests = []
    for resource in resources:
        if resource.kind is K.JOB:
            requests.append(AccessRequest(action, () if resource.field else ALL_JOBS))
            continue
        is_key = resource.field == "key"
        values = (key,) if is_key else resource.names_in(key)
        names = [_named(targets, resource.kind, one) for one in values]
        requests.append(AccessRequest(action, names or [f"{resource.kind}:{ANY}"]))
    return requests


def own_name(principal: Principal) -> str:
    """The resource of a session: its client or worker; of other links, the account as a client."""
    if principal.role is LinkRole.WORKER:
        return f"{K.WORKER}:{principal.name}"
    if principal.role is LinkRole.CLIENT:
        return f"{K.CLIENT}:{principal.name}"
    return f"{K.CLIENT}:{principal.account}"


def queues_of_pattern(text: str) -> str:
    """The queues of a worker pattern, as a pattern of rules: it covers all queues of the worker, so
    that a deny on any of them counts."""
    tokens = worker_pattern(text).split(SEPARATOR)
    if len(tokens) < 3 or tokens[:2] != ["job", "assign"]:
        return f"{K.QUEUE}:{ANY}"
    return f"{K.QUEUE}:{SEPARATOR.join(ANY if one == '>' else one for one in tokens[2:])}"


def subjects_of_pattern(text: str) -> list[str]:
    """The subjects of a subscription, as patterns of rules: `a.>` is `a` and `a.*`. An allow must
    cover all of each; a deny on any part counts.

    Raises:
        RemoteError: BAD_SUBJECT if the pattern is not valid.
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
        # Whatever client the message names, the jobs become those of the session's client.
        return dict.fromkeys((own_name(principal), *others))
    if kind is K.QUEUE:
        return [f"{kind}:{targets.queue_named(one)}" for one in values]
    return [_named(targets, kind, one) for one in values]


def _named(targets: Targets, kind: ResourceKind, value: Any) -> str:
    """One resource, normalised."""
    if not value:
        return f"{kind}:{ANY}"
    if kind is K.WORKER:
        return targets.of_worker(value)
    if kind is K.QUEUE:
        return f"{kind}:{fold(queue_of(value))}"
    return f"{kind}:{guid_to_text(value) if isinstance(value, bytes) else value}"


def _of_worker(targets: Targets, principal: Principal, hello: HelloWorker) -> list[AccessRequest]:
    """A worker by the name in its hello, and by the known name of its id: no worker can take over
    the attempts of another by its id."""
    names = {own_name(principal): None}
    if targets.knows_worker(hello.worker_id):
        names[targets.of_worker(hello.worker_id)] = None
    queues = map(queues_of_pattern, hello.patterns or ("",))
    return [AccessRequest(Action.WORKER_CONNECT, (*names, *queues))]


def _of_staged(targets: Targets, principal: Principal, message: StageJobs) -> list[AccessRequest]:
    """Jobs to rerun are looked up; their groups name nothing else."""
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
        AccessRequest(Action.JOBS_SUBMIT, dict.fromkeys(names)),
        AccessRequest(Action.CACHES_READ, dict.fromkeys(caches)),
        AccessRequest(Action.SECRETS_USE, dict.fromkeys(secrets)),
    ]


def _of_part(targets: Targets, principal: Principal, ask: PartAsk) -> list[AccessRequest]:
    """The table of the part; all tables if it is unknown."""
    table = targets.table_of(ask.export_id, ask.number) or ANY
    return [AccessRequest(Action.TABLES_READ, (f"{K.TABLE}:{table}",))]


def _of_cache(targets: Targets, principal: Principal, message: CachePut) -> list[AccessRequest]:
    """The cache in the payload."""
    cache_id = decode_model(message.payload, CachePutHead).cache_id
    return [AccessRequest(Action.CACHES_WRITE, (f"{K.CACHE}:{cache_id or ANY}",))]


def _of_publish(targets: Targets, principal: Principal, message: Publish) -> list[AccessRequest]:
    """The normalised subject."""
    name = f"{K.SUBJECT}:{SEPARATOR.join(parse_subject(message.subject))}"
    return [AccessRequest(Action.SUBJECTS_PUBLISH, (name,))]


def _of_subscribe(
    targets: Targets, principal: Principal, message: Subscribe
) -> list[AccessRequest]:
    """All subjects of the pattern. An inbox belongs to the session that drew its name, which the
    leader checks. Job events need the right to read jobs: one job is looked up; a pattern that
    covers several reads all jobs."""
    tokens = parse_pattern(message.pattern)
    if is_inbox(tokens):
        return []
    requests = [AccessRequest(Action.SUBJECTS_SUBSCRIBE, subjects_of_pattern(message.pattern))]
    if message.topic:
        requests.append(AccessRequest(Action.TOPICS_READ, (f"{K.TOPIC}:{message.topic}",)))
    if job_of_event(tokens) is None and overlaps(message.pattern, JOB_EVENTS):
        requests.append(AccessRequest(Action.JOBS_READ, ALL_JOBS))
    return requests


SPECIAL: Final[Mapping[type, Callable[[Targets, Principal, Any], list[AccessRequest]]]] = {
    HelloWorker: _of_worker,
    StageJobs: _of_staged,
    PartAsk: _of_part,
    CachePut: _of_cache,
    Publish: _of_publish,
    Subscribe: _of_subscribe,
}
