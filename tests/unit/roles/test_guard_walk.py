"""Every row of the table of messages that a member hears, every verb and every view, said by
everybody who should not be heard: without a login, by a wrong or expired token, with a certificate
of another role, without the right; and by one who has exactly the rights that it takes.

The handshakes of TLS (an expired certificate, one of a stranger) are tried on real links in
`tests/integration/test_access_links.py`: what they refuse never reaches a door.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

import rollq
from rollq.base.access import Action, LinkRole
from rollq.base.access_rules import Account, TokenHash
from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.base.staged import StagedGroup
from rollq.grid.batches import BatchFilter
from rollq.grid.commands import BatchName, Settings
from rollq.grid.matching import JobFilter
from rollq.grid.pages import IdFilter
from rollq.roles.access import PERMITTED, ROLE_OF_HELLO
from rollq.roles.blobs.server_machine import ProvingPut
from rollq.roles.member.guard.names import FREE
from rollq.roles.member.leader.admin import VERBS
from rollq.roles.member.peers import UNPROVEN
from rollq.roles.member.queries import VIEWS
from rollq.security.identity import CertificateIdentity, CertificateRole
from rollq.wire import blob_messages as b
from rollq.wire import messages as m
from rollq.wire import reader_messages as r
from rollq.wire.output_messages import WatchOutput
from rollq.wire.registry import ROW_OF, ROWS
from rollq.wire.run_messages import SubmitRun
from rollq.wire.staging_messages import StageJobs
from tests.unit.roles.guard_kit import TOKENS, Line, Room, World, allow, deny, login, token_hash
from tests.unit.roles.members import three_members
from tests.unit.wire.samples import BLOB, BLOBS, GROUP, JOB, OPTIONS, SAMPLES

NO_BLOB = bytes(32)
HELLOS: Final[dict[LinkRole, Any]] = {
    LinkRole.CLIENT: m.HelloClient("who/1", 0, ("compact", "accepted")),
    LinkRole.WORKER: m.HelloWorker(JOB, ("q",), "who", features=("compact",)),
    LinkRole.MEMBER: m.LeaderHello(1, "a:1", b"cluster", 2, 3),
    LinkRole.BLOBS: b.HelloBlobs("client"),
    LinkRole.READER: r.HelloReader(),
}
# Which certificates open which links. Whether a verb or a message is allowed on them is another
# matter; a member's cannot submit, and a worker's cannot read.
OPENS: Final[dict[CertificateRole, set[LinkRole]]] = {
    CertificateRole.CLIENT: {LinkRole.CLIENT, LinkRole.BLOBS, LinkRole.READER},
    CertificateRole.WORKER: {LinkRole.WORKER, LinkRole.BLOBS},
    CertificateRole.MEMBER: {LinkRole.MEMBER, LinkRole.BLOBS},
    CertificateRole.ADMIN: set(LinkRole) - {LinkRole.MEMBER},
}
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "pause": {"queue": "q"},
    "resume": {"queue": "q"},
    "redrive": {"items": [[JOB, None]]},
    "redrive_changed": {"job_ids": [JOB], "keeps_args": False},
    "again": {"job_id": JOB},
    "purge": {"job_ids": [JOB]},
    "settings": {"settings": Settings()},
    "set_hints": {"hints": [["exe", 1, 2, 3, 4]]},
    "put_policy": {"pattern": "q.>", "placement": "sticky"},
    "remove_policy": {"pattern": "q.>"},
    "put_limit": {"scope": "exec", "name": "exe", "running_max": 2},
    "remove_limit": {"scope": "exec", "name": "exe"},
    "put_weight": {"client_id": "ann", "weight": 2},
    "put_cache": {"cache_id": "c", "entries": [["f", [BLOB, 5]]], "target_pattern": ">"},
    "remove_cache": {"cache_id": "c"},
    "put_topic": {"name": "t", "patterns": ["t.>"], "age_ms": 0, "bytes_max": 1, "count_max": 1},
    "remove_topic": {"name": "t"},
    "forget_cursor": {"topic": "t", "durable": "d"},
    "put_schedule": {
        **{"name": "ann/s", "queue": "q", "exec_name": "exe", "body": b"", "every_ms": 5_000},
        **{"caches": ["c"], "options": OPTIONS},
    },
    "remove_schedule": {"name": "ann/s"},
    "pause_schedule": {"name": "ann/s"},
    "resume_schedule": {"name": "ann/s"},
    "run_schedule": {"name": "ann/s"},
    "hold_history": {"name": "spark", "index": 1},
    "free_history": {"name": "spark"},
    "dismiss": {"worker_ids": [JOB]},
    "drain": {"worker_ids": [JOB]},
    "undrain": {"worker_ids": [JOB]},
    "add_member": {"member_id": 4, "address": "a:1"},
    "remove_member": {"member_id": 4},
    "transfer": {"member_id": 4},
    "access_put_account": {"account": Account("new")},
    "access_remove_account": {"name": "new"},
    "access_put_role": {"role": ["new", []]},
    "access_remove_role": {"name": "new"},
}
KEYS: Final = {
    "some_id": JOB,
    "name_key": b"name",
    "place_key": b"\1",
    "no_key": b"",
    "job_place": JOB,
}
FILTERS: Final = {
    "jobs": JobFilter(client_id="who/1"),
    "ids": IdFilter("00", "", 0),
    "batch": BatchName("who/1", "load-7"),
    "batches": BatchFilter("who/1"),
}


class Case(NamedTuple):
    """A message on a link of a role, and the actions that it takes; none: they come with the hello,
    or (of members) are a matter of the cluster key."""

    name: str
    role: LinkRole
    message: Any
    actions: frozenset[Action]

    @property
    def is_hello(self) -> bool:
        return type(self.message) in ROLE_OF_HELLO

    @property
    def hello(self) -> Any:
        return self.message if self.is_hello else HELLOS[self.role]

    @property
    def said(self) -> list[Any]:
        return [self.message] if self.is_hello else [self.hello, self.message]


def cases() -> Iterator[Case]:
    """All that anybody may say to a member."""
    new = msgspec.structs.replace(GROUP, redrives=False)
    both = (new, StagedGroup("", "", JOB, (-1,), b"", redrives=True))
    samples: dict[type, Any] = {type(sample): sample for sample in SAMPLES}
    samples[StageJobs] = StageJobs(JOB, "k", "p", 0, both, "who/2")
    samples[m.SubmitJob] = m.SubmitJob(JOB, "who/2", "q", "exe", b"", OPTIONS, BLOBS, ("c1",))
    samples[WatchOutput] = WatchOutput(JOB, JOB)  # to end one needs no right
    samples[b.HelloBlobs] = HELLOS[LinkRole.BLOBS]
    for role in LinkRole:
        for struct in sorted(PERMITTED[role], key=lambda one: ROW_OF[one].number):
            row = ROW_OF[struct]
            if row.action in (Action.ADMIN, Action.QUERY):
                continue
            wanted = {row.action} | {one.action for one in row.resources if one.action}
            judged = frozenset() if role is LinkRole.MEMBER else frozenset(wanted - FREE)
            yield Case(row.name, role, samples[struct], judged)
    for name, verb in VERBS.items():
        arguments = msgspec.msgpack.encode(ARGUMENTS[name])
        actions = {verb.action} | {one.action for one in verb.also if one.action}
        message = m.Admin(JOB, name, arguments)
        yield Case(f"verb {name}", LinkRole.CLIENT, message, frozenset(actions))
    for name, view in VIEWS.items():
        wanted_by = FILTERS.get(name)
        key = msgspec.msgpack.encode(wanted_by) if wanted_by else KEYS[view.key.__name__]
        query = m.Query(JOB, name, key)
        yield Case(f"view {name}", LinkRole.CLIENT, query, frozenset({view.action}))
        yield Case(f"view {name}, read", LinkRole.READER, query, frozenset({view.action}))


CASES: Final = list(cases())
LOGIN_REQUIRED, LOGIN_FAILED = ErrorCode.LOGIN_REQUIRED, ErrorCode.LOGIN_FAILED


def who(*rules: Any, **fields: Any) -> World:
    """A world in which `who` has these rules and a token."""
    TOKENS["who"] = "rollq_who_" + "9" * 40
    return World(Account("who", rules=rules, tokens=(token_hash("who"),), **fields))


def say(world: World, *messages: Any, line: Line | None = None) -> tuple[list[Any], Line]:
    """What is heard behind the door, and the link."""
    room, link = Room(), line or Line()
    link.says(world.door(room), *messages)
    return room.heard, link


def nothing_of(message: Any) -> bool:
    """Whether a message that was narrowed names nothing any more."""
    if isinstance(message, m.Cancel):
        return message.job_ids == ()
    if isinstance(message, WatchOutput):
        return message.job_id == NIL_ID
    if isinstance(message, m.Query):
        return message.key == NIL_ID
    if isinstance(message, r.ResultsAsk):
        return set(message.job_ids) == {NIL_ID}
    if isinstance(message, b.BlobAsk):
        return set(message.digests) == {NO_BLOB}
    if isinstance(message, SubmitRun):  # each job that names such a blob is refused
        return all(blob.digest == NO_BLOB for blobs in message.blobs for blob in blobs)
    if isinstance(message, m.Admin):
        return bool(msgspec.msgpack.decode(message.arguments) == {"job_ids": []})
    return isinstance(message, ProvingPut)


def check_case(case: Case) -> int:
    """Everybody says it; how many that were."""
    count = 0
    message, is_member = case.message, case.role is LinkRole.MEMBER
    everything = who(allow("*", "*"))
    # Nobody: no login. Members prove the cluster key, which is asked for behind the door (below).
    if not is_member:
        heard, line = say(everything, *case.said)
        assert (heard, line.sent[0].code) == ([], LOGIN_REQUIRED), case
        count += 1
    # A login that is wrong, of whomever.
    expired = Account("who", ("admin",), tokens=(TokenHash("t", token_hash("who").sha256, 1),))
    disabled = Account("who", ("admin",), tokens=(token_hash("who"),), is_disabled=True)
    worlds = [World(expired), World(disabled)]
    worlds[0].now_ms = 1
    wrong = [
        (everything, login("who", TOKENS["ann"])),
        (everything, login("who", "rollq_who_" + "8" * 40)),
        (everything, login("who", "nonsense")),
        (everything, login("nobody", "rollq_nobody_" + "8" * 40)),
        *((world, login("who")) for world in worlds),
    ]
    for world, attempt in wrong:
        heard, line = say(world, attempt, *case.said)
        assert (heard, line.sent[0].code) == ([], LOGIN_FAILED), (case, attempt)
        assert line.closed
    # Certificates: only of those roles that such a link is for.
    for role, links in OPENS.items():
        certificate = CertificateIdentity("c", role, "who")
        heard, line = say(World(), *case.said, line=Line(certificate))
        if case.role not in links:
            assert (heard, line.sent[0].code) == ([], ErrorCode.ACCESS_DENIED), (case, role)
            assert line.closed
        if role is CertificateRole.ADMIN and not is_member:
            assert message in heard, case
    count += len(wrong) + len(OPENS)
    if is_member:
        return count
    # An account that has no right at all, and one that has all but one that is needed.
    heard, line = say(who(), login("who"), *case.said)
    assert (heard, line.sent[0].code) == ([], ErrorCode.ACCESS_DENIED), case
    for action in sorted(case.actions):
        world = who(allow("*", "*"), deny(action, "*"))
        heard, line = say(world, login("who"), *case.said)
        left = [one for one in heard if not isinstance(one, type(case.hello))]
        assert message not in heard, (case, action)
        assert all(map(nothing_of, left)), (case, action, left)
        assert left or line.sent, (case, action)
    # And the one that has these rights and no other.
    needed = {ROW_OF[type(case.hello)].action, *case.actions}
    world = who(*(allow(action, "*") for action in sorted(needed)))
    heard, line = say(world, login("who"), *case.said)
    taken = heard[-1]
    if isinstance(message, b.BlobPut):  # to give needs no right to read: the bytes are its proof
        message = ProvingPut(message.digest, message.size)
    elif isinstance(message, b.BlobDrop):
        message = b.BlobDrop(message.digest)
    assert (taken, line.sent, line.closed) == (message, [], ""), case
    return count + 2 + len(case.actions)


def test_everybody_says_everything(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [check_case(case) for case in CASES]
    with capsys.disabled():
        print(f"\n{len(CASES)} messages, verbs and views; {sum(counts)} attempts; none skipped")
    assert min(counts) >= 10


@pytest.mark.parametrize(
    "case", [one for one in CASES if one.role is LinkRole.MEMBER], ids=lambda case: case.name
)
def test_only_a_member_that_proves_the_key_is_heard(case: Case) -> None:
    """What the door leaves to the cluster key: behind it, a member that has one hears nobody else.
    A roll call may be answered, since a newcomer has no key; it changes nothing."""
    group = three_members()
    driver = group.members[group.follower()]
    before = driver.raft.term, driver.raft.last_index, driver.raft.config, driver.roll.phase
    answer = driver.peer_message("b", case.message, 1)
    assert (answer == UNPROVEN) is not isinstance(case.message, m.LeaderHello | m.RollAnswer)
    assert driver.begin() is None
    after = driver.raft.term, driver.raft.last_index, driver.raft.config, driver.roll.phase
    assert after == before
    assert driver.peer_message("b", case.message, 1, is_proven=True) != UNPROVEN


def test_nothing_that_a_member_hears_is_left_out() -> None:
    walked = {(case.role, type(case.message)) for case in CASES}
    assert walked == {(role, struct) for role in LinkRole for struct in PERMITTED[role]}
    assert {case.message.action for case in CASES if isinstance(case.message, m.Admin)} == set(
        VERBS
    )
    assert {case.message.what for case in CASES if isinstance(case.message, m.Query)} == set(VIEWS)
    heard = {struct for structs in PERMITTED.values() for struct in structs}
    unheard = {row.struct for row in ROWS} - heard
    # What is left is what a member says itself, and the login, which comes before.
    assert all(
        ROW_OF[one].action
        in (Action.ANSWER, Action.JOBS_ASSIGN, Action.OUTPUT_READ, Action.SESSION_LOGIN)
        for one in unheard
    )
    for struct in unheard:
        for role, hello in HELLOS.items():
            sample = next(one for one in SAMPLES if type(one) is struct)
            heard_now, line = say(who(allow("*", "*")), login("who"), hello, sample)
            assert heard_now == [], (struct, role)
            assert line.closed


def test_there_is_no_other_way_in() -> None:
    """Whoever adds a way in lists it here, and walks it as above. A worker has one: its metrics,
    which tells and changes nothing (tests/integration/test_metrics.py)."""
    metrics = root_of_package() / "observe/server.py"
    servers = {"http.server", "wsgiref", "aiohttp", "socketserver", "websockets", "xmlrpc"}
    listening = {"create_server", "start_server", "create_unix_server", "listen"}
    imports: set[str] = set()
    places: set[str] = set()
    root = root_of_package()
    for path in set(root.rglob("*.py")) - {metrics}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imports |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imports.add(node.module)
            elif isinstance(node, ast.Attribute) and node.attr in listening:
                places.add(path.relative_to(root).as_posix())
    assert not {one for one in imports for server in servers if one.startswith(server)}
    assert places == {"net/listener.py"}, places


def root_of_package() -> Path:
    return Path(rollq.__file__).parent
