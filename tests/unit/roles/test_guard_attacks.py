"""What somebody might try with the jobs, files and names of others. Each is refused as if what it
aims at did not exist, or by the rule that it breaks."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from rollq.base.access import LinkRole
from rollq.base.access_rules import Account
from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.base.jobs import BlobRef, BulkItem, JobOptions, JobSecret, ParentRef
from rollq.base.staged import StagedGroup
from rollq.grid import commands as c
from rollq.grid.access_commands import PutAccount
from rollq.grid.edges import unknown_parent
from rollq.roles.access import RefusedError
from rollq.roles.blobs.server_machine import ProvingPut
from rollq.roles.member.leader.admin import VERBS
from rollq.roles.member.queries import VIEWS
from rollq.wire import blob_messages as b
from rollq.wire import messages as m
from rollq.wire import reader_messages as r
from rollq.wire.models import CachePutResult, decode_model
from rollq.wire.output_messages import WatchOutput
from rollq.wire.registry import ROWS
from rollq.wire.run_messages import SubmitRun
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.roles.guard_kit import (
    CACHED,
    HIS_BLOB,
    HIS_RESULT,
    MY_BLOB,
    NOBODYS,
    World,
    allow,
    client,
    deny,
    other,
)

REQUEST = bytes(15) + b"\1"
ANN = client("ann")
NO_BLOB = bytes(32)
MINE, HIS, UNKNOWN = map(job_id, ("mine", "his", "unknown"))


def admin(verb: str, **arguments: Any) -> m.Admin:
    return m.Admin(REQUEST, verb, msgspec.msgpack.encode(arguments))


def submits(client_id: str = "ann/1", blobs: tuple[BlobRef, ...] = (), **other: Any) -> list[Any]:
    """Every message that submits jobs."""
    caches = other.get("caches", ())
    options = other.get("options")
    queue, body = other.get("queue", "q"), other.get("body", b"")
    new = job_id("new")
    column = (blobs,) if blobs else ()
    group = StagedGroup(queue, "exe", new, (len(body),), body, options, caches, blobs=column)
    items = (BulkItem(new, body, blobs),)
    return [
        m.SubmitJob(new, client_id, queue, "exe", body, options, blobs, caches),
        m.SubmitBulk(REQUEST, client_id, queue, "exe", items, options, "", caches),
        m.SubmitArray(new, client_id, queue, "exe", body, 3, options, 0, blobs, caches),
        SubmitRun(REQUEST, client_id, queue, "exe", new, (body,), options, caches, "", column),
        StageJobs(REQUEST, "k", "p", 0, (group,), client_id),
    ]


KINDS = ["SubmitJob", "SubmitBulk", "SubmitArray", "SubmitRun", "StageJobs"]


# --- dependencies


@pytest.mark.parametrize("number", range(len(KINDS)), ids=KINDS)
def test_nobody_waits_for_the_job_of_another(number: int) -> None:
    """In the words in which the grid refuses one that does not exist."""
    world = World()
    options = JobOptions(after=(ParentRef(HIS),))
    told = world.error(ANN, submits(options=options)[number])
    assert told.code == ErrorCode.UNKNOWN_JOB
    assert told.message == unknown_parent(HIS).message
    own = submits(options=JobOptions(after=(ParentRef(MINE),)))[number]
    assert world.judge(ANN, own) is own


# --- names


def test_nothing_is_ever_renamed() -> None:
    """An old name grants nothing, because nothing changes its name."""
    said = [*VERBS, *VIEWS, *(row.name for row in ROWS)]
    words = {word for name in said for word in re.findall("[A-Z]?[a-z]+", name)}
    assert not words & {"rename", "Rename", "move", "Move", "chown", "give", "Give", "restore"}


def test_a_state_that_is_restored_has_the_owners_and_the_rules_that_it_had() -> None:
    world = World()
    account = Account("al", ("operator",), (deny("jobs.cancel", "client:bob/*"),))
    world.grid.apply(PutAccount(account, may_lock_out=True))
    world.table = world.grid.state.access
    blobs = other(LinkRole.BLOBS, "al")._replace(account="nobody")
    for _ in range(2):
        assert world.judge(client("al"), m.Cancel(REQUEST, (MINE, HIS))).job_ids == (MINE,)
        assert world.judge(blobs, b.BlobAsk(REQUEST, (HIS_BLOB.digest,))).digests == (NO_BLOB,)
        assert world.judge(client("al"), m.Query(REQUEST, "job", HIS)).key == HIS
        world.grid.reload()  # from a snapshot, as a member does that starts or was behind
        assert world.table is not world.grid.state.access
        world.table = world.grid.state.access


@pytest.mark.parametrize("name", ["bob", "bob/1", "anna", "ANN/1", "*", "ann*", "ann//../bob", "x"])
def test_a_hello_with_the_id_of_another_account_is_refused(name: str) -> None:
    world = World()
    if name == "ann//../bob":  # a slash is a slash: ids are compared, and not walked
        assert world.judge(client("ann", name), m.HelloClient(name)).client_id == name
        return
    error = world.error(client("ann", name), m.HelloClient(name))
    assert error.code == ErrorCode.ACCESS_DENIED
    assert all(word in error.message for word in ("'ann'", "client.connect", f"client:{name}"))
    assert error.hint.endswith(f"rollq access grant ann client.connect client:{name}")
    assert world.refused == [("ann", "client.connect", f"client:{name}")]


def test_a_client_without_a_name_gets_one_of_its_account() -> None:
    world = World()
    hello = world.judge(client("ann")._replace(name=""), m.HelloClient(""))
    assert hello.client_id.startswith("ann/nameless-")


@pytest.mark.parametrize("at", range(5), ids=KINDS)
def test_a_submit_with_the_id_of_another_account_is_refused(at: int) -> None:
    world = World()
    assert world.judge(ANN, submits()[at]) == submits()[at]
    error = world.error(ANN, submits("bob/1")[at])
    assert (error.code, "client:bob/1" in error.message) == (ErrorCode.ACCESS_DENIED, True)
    assert error.request_id in (REQUEST, job_id("new"))


@pytest.mark.parametrize("message", [CommitBatch(REQUEST, "k", ()), DropBatch(REQUEST, "k")])
def test_a_batch_is_that_of_its_client(message: Any) -> None:
    world = World()
    assert world.judge(ANN, message) is message
    theirs = msgspec.structs.replace(message, client_id="bob/1")
    assert world.error(ANN, theirs).code == ErrorCode.ACCESS_DENIED
    ally = Account("al", ("client",), (allow("jobs.submit", "client:bob/*"),))
    assert World(ally).judge(client("al"), theirs) is theirs  # a right of its own


def test_the_queue_that_a_worker_is_addressed_in_is_the_one_that_counts() -> None:
    """`secret.box` is the queue `secret`, as soon as a worker is called `box`."""
    world = World(Account("al", ("client",), (deny("*", "queue:secret"),)))
    al = client("al")
    (message, *_) = submits("al/1", queue="secret.box")
    assert world.judge(al, message) is message
    world.addressing.workers.set(worker_id("w"), "box")
    assert world.error(al, message).code == ErrorCode.ACCESS_DENIED
    (message, *_) = submits("al/1", queue="job.submit.SECRET")
    assert world.error(al, message).code == ErrorCode.ACCESS_DENIED


def test_a_deny_wins_over_a_role() -> None:
    world = World(Account("al", ("admin",), (deny("jobs.cancel", "client:bob/*"),)))
    al = client("al")
    assert world.judge(al, m.Cancel(REQUEST, (MINE, HIS))).job_ids == (MINE,)
    assert world.judge(al, admin("purge", job_ids=[HIS])).action == "purge"
    # Nor does asking for all of them help.
    sly = client("sly")
    world = World(Account("sly", ("reader",), (deny("jobs.read", "client:bob/*"),)))
    error = world.error(sly, m.Query(REQUEST, "jobs", b""))
    assert (error.code, "client:*" in error.message) == (ErrorCode.ACCESS_DENIED, True)
    assert world.judge(sly, m.Query(REQUEST, "job", HIS)).key == NIL_ID


def test_a_worker_asks_for_no_queue_that_is_denied() -> None:
    world = World(Account("al", ("worker",), (deny("worker.connect", "queue:secret.*"),)))

    def says(*patterns: str) -> Any:
        hello = m.HelloWorker(worker_id("al"), patterns, "al", features=("compact",))
        return world.judge(other(LinkRole.WORKER, "al"), hello)

    assert says("render", "render.>", "secret")
    for pattern in ("", ">", "job.>", "*.x", "secret.x", "secret.>", "job.assign.*.*"):
        with pytest.raises(RefusedError):
            says("render", pattern)


def test_nobody_takes_the_attempts_of_a_worker_by_its_id() -> None:
    rules = (allow("worker.connect", "worker:al"), allow("worker.connect", "queue:*"))
    world = World(Account("al", (), rules))
    hello = m.HelloWorker(worker_id("new"), (), "al", features=("compact",))
    assert world.judge(other(LinkRole.WORKER, "al"), hello) is hello
    known = msgspec.structs.replace(hello, worker_id=worker_id("w1"))
    error = world.error(other(LinkRole.WORKER, "al"), known)
    assert (error.code, "worker:w1" in error.message) == (ErrorCode.ACCESS_DENIED, True)


# --- jobs


def test_jobs_of_others_are_not_cancelled_nor_ids_that_are_not_known_yet() -> None:
    world = World()
    asked = m.Cancel(REQUEST, (MINE, HIS, job_id("tasks"), UNKNOWN))
    assert world.judge(ANN, asked).job_ids == (MINE,)
    assert world.refused == [("ann", "jobs.cancel", "client:bob/1")]
    # The id comes to be known after the message was judged: it is not in it any more.
    world.pending.append(c.SubmitRun("bob/1", "q", "exe", UNKNOWN, (b"",)))
    assert world.judge(ANN, asked).job_ids == (MINE,)
    # Two have asked for one id, and one of them is bob.
    world.pending.append(c.SubmitRun("ann/1", "q", "exe", UNKNOWN, (b"",)))
    assert world.judge(ANN, asked).job_ids == (MINE,)


def test_a_job_that_is_on_its_way_can_be_cancelled_by_its_client() -> None:
    world = World()
    two = (job_id("a"), job_id("b"), job_id("c"), job_id("d"))
    world.pending += [
        c.SubmitRun("ann/1", "q", "exe", two[0] + two[1], (b"", b"")),
        c.SubmitBulk("ann/1", "q", "exe", (BulkItem(two[2], b""),)),
        c.SubmitArray(two[3], "ann/1", "q", "exe", b"", 5),
    ]
    assert world.judge(ANN, m.Cancel(REQUEST, two)).job_ids == two


@pytest.mark.parametrize("number", [0, 9, 10])
def test_a_task_is_its_arrays(number: int) -> None:
    world = World()
    task = world.grid.array("tasks").id_of(number)
    is_one = number < 10
    ids = world.judge(client("bob"), m.Cancel(REQUEST, (task,))).job_ids
    assert ids == ((task,) if is_one else ())
    assert world.judge(ANN, m.Cancel(REQUEST, (task,))).job_ids == ()


def test_a_dead_job_of_another_is_not_redriven_nor_purged() -> None:
    world = World()
    for target in (HIS, UNKNOWN):
        error = world.error(ANN, admin("redrive", items=[[target, None]]))
        assert (error.code, error.message[-11:]) == (ErrorCode.UNKNOWN_JOB, "no such job")
        purged = world.judge(ANN, admin("purge", job_ids=[MINE, target]))
        assert msgspec.msgpack.decode(purged.arguments) == {"job_ids": [MINE]}
        group = StagedGroup("", "", target, (-1,), b"", redrives=True)
        error = world.error(ANN, StageJobs(REQUEST, "k", "p", 0, (group,)))
        assert error.code == ErrorCode.UNKNOWN_JOB
    own = admin("redrive", items=[[MINE, None]])
    assert world.judge(ANN, own) is own
    ops = client("ops")
    assert world.judge(ops, admin("redrive", items=[[HIS, None]])).action == "redrive"


def test_what_a_batch_is_about_to_bring_is_put_off_for_everybody() -> None:
    world = World()
    world.grid.state.reserved[UNKNOWN] = None
    for message in (m.Cancel(REQUEST, (UNKNOWN,)), admin("purge", job_ids=[UNKNOWN])):
        error = world.error(ANN, message)
        assert error.code not in (ErrorCode.ACCESS_DENIED, ErrorCode.UNKNOWN_JOB)


@pytest.mark.parametrize("view", ["job", "array", "explain", "explanation"])
def test_a_job_of_another_is_shown_as_one_that_does_not_exist(view: str) -> None:
    world = World()
    assert world.judge(ANN, m.Query(REQUEST, view, MINE)).key == MINE
    for target in (HIS, UNKNOWN, job_id("tasks"), b"", b"x" * 99):
        assert world.judge(ANN, m.Query(REQUEST, view, target)).key == NIL_ID


def test_lists_of_jobs_are_those_of_the_clients_that_they_name() -> None:
    world = World()

    def jobs(**wanted: Any) -> Any:
        fields = {"state": "", "queue": "", "client_id": "", "exec_name": "", **wanted}
        return m.Query(REQUEST, "jobs", msgspec.msgpack.encode(list(fields.values())))

    assert world.judge(ANN, jobs(client_id="ann/1")).account == ""
    assert world.error(ANN, jobs(client_id="bob/1")).code == ErrorCode.ACCESS_DENIED
    others = [m.Query(REQUEST, what) for what in ("arrays", "batches", "dead")]
    for query in (jobs(), jobs(queue="q"), *others):
        assert world.judge(ANN, query).account == "ann"
        his = msgspec.structs.replace(query, account="bob")
        assert world.judge(ANN, his).account == "ann"
        assert world.judge(client("ops"), query).account == ""
        assert world.error(client("none"), query).code == ErrorCode.ACCESS_DENIED
    for what in ("clients", "history", "readers"):
        assert world.error(ANN, m.Query(REQUEST, what)).code == ErrorCode.ACCESS_DENIED


def test_a_batch_of_another_account_cannot_be_seen() -> None:
    world = World(Account("ann", ("client",)))

    def batch(client_id: str) -> m.Query:
        return m.Query(REQUEST, "batch", msgspec.msgpack.encode((client_id, "load-7")))

    def batches(client_id: str) -> m.Query:
        return m.Query(REQUEST, "batches", msgspec.msgpack.encode((client_id, "", "")))

    for ask in (batch, batches):
        assert world.judge(ANN, ask("ann/1")) == ask("ann/1")
        assert world.error(ANN, ask("bob/1")).code == ErrorCode.ACCESS_DENIED


def test_a_list_of_own_jobs_with_some_that_are_denied_is_refused() -> None:
    denied = deny("jobs.read", "client:amy/7")
    world = World(Account("amy", ("client",), (denied,)))
    query = m.Query(REQUEST, "jobs", b"")
    assert world.error(client("amy"), query).code == ErrorCode.ACCESS_DENIED


def test_a_proved_account_of_the_name_anonymous_may_not_do_everything() -> None:
    proved = client("anonymous")._replace(method="certificate")
    assert World().error(proved, m.Query(REQUEST, "clients")).code == ErrorCode.ACCESS_DENIED


def test_output_and_results_of_others_are_those_of_no_job() -> None:
    world = World()
    assert world.judge(ANN, WatchOutput(REQUEST, MINE)).job_id == MINE
    assert world.judge(ANN, WatchOutput(REQUEST, HIS)).job_id == NIL_ID
    reader = other(LinkRole.READER, "ann")
    asked = r.ResultsAsk(REQUEST, (MINE, job_id("ended"), UNKNOWN))
    assert world.judge(reader, asked).job_ids == (MINE, NIL_ID, NIL_ID)
    # A member that is behind might learn whose they are before it answers.
    later = msgspec.structs.replace(asked, index_min=10**6)
    error = world.error(reader, later)
    assert (error.code, error.retryable) == (ErrorCode.NOT_READY, True)


@pytest.mark.parametrize(
    "message",
    [
        r.SpanAsk(REQUEST),
        r.PiecesAsk(REQUEST, 1, 2),
        r.TableAsk(REQUEST, ("jobs",)),
        r.PartAsk(REQUEST, "e", 0),
        r.PartAsk(REQUEST, "?", 0),
    ],
)
def test_history_and_tables_are_not_for_clients(message: Any) -> None:
    world = World(Account("al", (), (allow("tables.read", "table:jobs"),)))
    error = world.error(other(LinkRole.READER, "ann"), message)
    assert (error.code, error.request_id) == (ErrorCode.ACCESS_DENIED, REQUEST)
    assert world.judge(other(LinkRole.READER, "eye"), message) is message
    if isinstance(message, r.PartAsk):  # by the table of the part, whoever had it written
        al = other(LinkRole.READER, "al")
        if message.export_id == "e":
            assert world.judge(al, message) is message
        else:
            assert world.error(al, message).code == ErrorCode.ACCESS_DENIED


# --- files


def test_a_digest_does_not_tell_whether_somebody_has_its_blob() -> None:
    world = World()
    ann = other(LinkRole.BLOBS, "ann")
    digests = (MY_BLOB.digest, HIS_BLOB.digest, HIS_RESULT.digest, CACHED.digest, NOBODYS.digest)
    asked = world.judge(ann, b.BlobAsk(REQUEST, digests))
    assert asked.digests == (MY_BLOB.digest, NO_BLOB, NO_BLOB, CACHED.digest, NO_BLOB)
    answers = [world.error(ann, b.BlobGet(one.digest)) for one in (HIS_BLOB, NOBODYS)]
    assert {(one.error, one.size) for one in answers} == {(ErrorCode.BLOB_MISSING, 0)}
    assert world.judge(ann, b.BlobGet(CACHED.digest)).digest == CACHED.digest
    # A put is answered the same, whether it is here or not: send me all of it.
    for blob in (HIS_BLOB, NOBODYS):
        assert world.judge(ann, b.BlobPut(blob.digest, 5)) == ProvingPut(blob.digest, 5)
    assert type(world.judge(ann, b.BlobPut(MY_BLOB.digest, 5))) is b.BlobPut
    # Nor is somebody else's copy looked after because a stranger says that it is rotten.
    assert world.judge(ann, b.BlobDrop(HIS_BLOB.digest, ErrorCode.BLOB_CORRUPT)).error == 0
    assert world.judge(ann, b.BlobDrop(MY_BLOB.digest, ErrorCode.BLOB_CORRUPT)).error


@pytest.mark.parametrize("blob", [HIS_BLOB, HIS_RESULT, NOBODYS], ids=["input", "result", "none"])
@pytest.mark.parametrize("at", range(5), ids=KINDS)
def test_a_blob_of_another_is_no_input(at: int, blob: BlobRef) -> None:
    world = World()
    message = submits(blobs=(MY_BLOB, blob))[at]
    if isinstance(message, SubmitRun):  # its jobs are refused one by one, by whoever looks for it
        taken = world.judge(ANN, message)
        assert taken.blobs == ((MY_BLOB, BlobRef(NO_BLOB, 5)),)
        return
    error = world.error(ANN, message)
    assert (error.code, error.retryable) == (ErrorCode.BLOB_MISSING, True)
    # Once it is proved that ann has the bytes as well, it is hers too; for a while.
    world.given.add(blob.digest, "ann")
    assert world.judge(ANN, message) is message
    world.now_ms += 1_000
    assert world.error(ANN, message).code == ErrorCode.BLOB_MISSING


def test_a_blob_of_another_is_no_file_of_a_cache() -> None:
    world = World()

    def put(blob: BlobRef, cache_id: str = "ann/c") -> m.Admin:
        entry = [blob.digest, blob.size]
        return admin("put_cache", cache_id=cache_id, entries=[["f", entry]], target_pattern=">")

    assert world.judge(ANN, put(MY_BLOB)).action == "put_cache"
    assert world.error(ANN, put(HIS_BLOB)).code == ErrorCode.BLOB_MISSING
    assert world.error(ANN, put(MY_BLOB, "data")).code == ErrorCode.ACCESS_DENIED


@pytest.mark.parametrize("at", range(5), ids=KINDS)
def test_a_cache_that_is_denied_is_reached_by_no_way(at: int) -> None:
    world = World(Account("al", ("client",), (deny("caches.read", "cache:data"),)))
    al = client("al")
    assert world.error(al, submits("al/1", caches=("data",))[at]).code == ErrorCode.ACCESS_DENIED
    named = b'{"JobId":"x","ClientId":"","ExecName":"e","Files":[{"Name":"f","CacheId":"%s"}]}'
    assert world.error(al, submits("al/1", body=named % b"data")[at]).code == 228
    taken = submits("al/1", body=named % b"open")[at]
    assert world.judge(al, taken) is taken
    stand_in = b'{"BodyBlob":{"Digest":"00","Size":1}}'
    assert world.error(al, submits("al/1", body=stand_in)[at]).code == ErrorCode.ACCESS_DENIED
    own = b"{}"
    assert world.judge(al, submits("al/1", body=own)[at]).client_id == "al/1"
    assert world.judge(al, b.BlobAsk(REQUEST, (CACHED.digest,))).digests == (NO_BLOB,)


def test_the_legacy_put_of_a_cache_names_it_in_its_payload() -> None:
    world = World()
    put = m.CachePut(REQUEST, b'{"CacheId":"data","TargetPattern":">"}')
    ack = world.error(ANN, put)
    result = decode_model(ack.payload, CachePutResult)
    assert (ack.request_id, result.status) == (REQUEST, "FAILED")
    assert "cache:data" in (result.message or "")
    own = m.CachePut(REQUEST, b'{"CacheId":"ann/c","TargetPattern":">"}')
    assert world.judge(ANN, own) is own


@pytest.mark.parametrize("at", range(5), ids=KINDS)
def test_a_secret_is_used_by_whom_a_rule_lets(at: int) -> None:
    options = JobOptions(secrets=(JobSecret("TOKEN", "db"),))
    world = World(Account("al", ("client",), (allow("secrets.use", "secret:db"),)))
    error = world.error(ANN, submits(options=options)[at])
    assert (error.code, "secret:db" in error.message) == (ErrorCode.ACCESS_DENIED, True)
    message = submits("al/1", options=options)[at]
    assert world.judge(client("al"), message) is message


def test_a_link_for_blobs_says_in_vain_that_it_is_a_members() -> None:
    world = World()
    hello = b.HelloBlobs(b.MEMBER)
    error = world.error(other(LinkRole.BLOBS, "ann"), hello)
    assert (error.code, "group.replicate" in error.message) == (ErrorCode.ACCESS_DENIED, True)
    assert world.judge(other(LinkRole.BLOBS, "ann"), b.HelloBlobs(b.WORKER))
    member = other(LinkRole.BLOBS, "m1")._replace(method="cluster", account="")
    assert world.judge(member, hello) is hello
    assert world.judge(member, b.BlobGet(HIS_BLOB.digest))
    # The key of the cluster is no account: it submits nothing.
    session = client("m1")._replace(method="cluster", account="")
    assert world.error(session, m.HelloClient("m1")).code == ErrorCode.ACCESS_DENIED


def test_whoever_may_read_all_is_not_kept_from_anything() -> None:
    world = World()
    box = other(LinkRole.BLOBS, "box")
    for blob in (HIS_BLOB, NOBODYS):
        assert world.judge(box, b.BlobGet(blob.digest)).digest == blob.digest
        assert type(world.judge(box, b.BlobPut(blob.digest, 5))) is b.BlobPut
