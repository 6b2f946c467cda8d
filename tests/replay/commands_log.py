"""Golden command logs: how they are written, read and replayed.

A log is a text file, one entry a line in hex (`-` for an empty one). What replaying it gave when it
was written stands beside it: the hash of the log, a digest of all facts, and the snapshot. None of
these files is ever written again: a new version of the format gets new ones.

    python -m tests.replay.commands_log FILE          replay and print what it gives
    python -m tests.replay.commands_log --make NAME   write a new set (refuses to overwrite)
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollq.base.access_rules import AccessRole, Account, Rule, TokenHash
from rollq.base.hints import ExecHint
from rollq.base.jobs import (
    AttemptRef,
    BlobRef,
    BulkItem,
    CacheEntry,
    JobOptions,
    JobSecret,
)
from rollq.base.staged import SAME_BODY, StagedGroup, StagedPart, join_keys, part_crc
from rollq.grid import access_commands as a
from rollq.grid import commands as c
from rollq.grid import rule_commands as r
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.events import JOB_ACKED, JOB_REDRIVEN, Event, each_of
from rollq.grid.snapshot import encode_snapshot
from rollq.grid.state import ASSIGNED, GridState
from tests.replay.flow_life import flows
from tests.replay.later_commands import schedules, topics

GOLDEN = Path(__file__).with_name("golden")
# All of them, the newest last.
LOGS = sorted(GOLDEN.glob("commands-v*.log"), key=lambda path: int(path.stem.rpartition("-v")[2]))
# A column may be added to the facts of older logs, and all others stay what they were: from these
# versions of the commands on, facts about jobs were known to count the bytes of their blobs, and
# facts of attempts without a result to say what those took.
COUNTS_BLOBS = 3
TELLS_RUNS = 4
TELLS_WHO_ASKED = 8  # and what jobs were asked to run
TELLS_REDRIVES = 9  # what jobs are asked to run now, if that is not what they were


def read_log(path: Path) -> list[bytes]:
    """The entries of a log."""
    lines = path.read_text(encoding="ascii").split()
    return [b"" if line == "-" else bytes.fromhex(line) for line in lines]


def replay(entries: list[bytes]) -> tuple[GridState, dict[str, str]]:
    """The state after all entries, and what to compare it by."""
    state = GridState()
    facts = hashlib.sha256()
    for index, data in enumerate(entries, 1):
        for event in each_of(apply_entry(state, index, data).events):
            said = by_name(event)
            if data[0] < TELLS_WHO_ASKED:
                said.pop("request", None)
                said.pop("access", None)
            if data[0] < TELLS_REDRIVES and event.kind == JOB_REDRIVEN:
                said.pop("request", None)
                said.pop("body_bytes", None)
            if data[0] < COUNTS_BLOBS and not event.cache_id:
                said.pop("blob_bytes", None)
            if data[0] < TELLS_RUNS and event.kind != JOB_ACKED:
                for column in ("signal", "run_ms", "peak_bytes"):
                    said.pop(column, None)
            facts.update(msgspec.json.encode(said) + b"\n")
    snapshot = hashlib.sha256(encode_snapshot(state)).hexdigest()
    return state, {
        "log_hash": state.log_hash.hex(),
        "facts": facts.hexdigest(),
        "snapshot": snapshot,
    }


def by_name(event: Event) -> dict[str, object]:
    """The fields of an event that mean something, whatever its packed form is; an enum always."""
    said = {}
    for field in msgspec.structs.fields(event):
        value = getattr(event, field.name)
        if value != field.default or type(value) is not type(field.default):
            said[field.name] = value
    return said


def make_log() -> list[bytes]:
    """A log with every command in it, most of them many times, from one seed."""
    rng = random.Random(20_260_401)
    state = GridState()
    entries: list[bytes] = []
    for commands in life(rng, state):
        data = encode_batch(1_700_000_000_000 + 250 * len(entries), commands) if commands else b""
        apply_entry(state, len(entries) + 1, data)
        entries.append(data)
    return entries


def life(rng: random.Random, state: GridState) -> Iterator[list[c.Command]]:
    """What a small grid sees: work, then trouble, again and again."""
    workers = [bytes([0xA0 + number]) * 16 for number in range(3)]
    yield []
    yield [c.SetSettings(c.Settings(results_kept_max=20, client_cap=9), "olga")]
    yield [c.OpenClient("ann", 6), c.OpenClient("bøb")]
    yield [c.SetHints((ExecHint("exe", 5, 40, 900, 12), ExecHint("ø", 1, 1, 1)), "olga")]
    for turn in range(40):
        yield [
            c.OpenWorker(
                one,
                1 + turn // 15,
                f"w{one[0]}",
                ("job.assign.>",),
                4,
                (),
                40,
                ("gpu", "zone=a")[: turn % 3],
                (("cpu", 4_000), ("memory", 8 * 1024**3 * 1_000)),
            )
            for one in workers
            if one not in state.workers or turn == 15
        ]
        yield [*caches(turn), *submits(rng, turn), *readers(turn), *access(turn)]
        yield list(rules(turn))
        yield list(topics(turn))
        yield list(schedules(state, turn))
        yield list(batches(rng, state, turn))
        yield list(flows(rng, state, turn))
        yield [
            c.AssignJob(record.job_id, rng.choice(workers), 1 + turn // 15, record.attempt + 1, 90)
            for record in list(state.jobs.values())
            if record.end is None and rng.random() < 0.7
        ]
        yield [
            c.AssignTask(array.array_id, rng.choice(workers), 1 + turn // 15, 90)
            for array in state.arrays.values()
            for _ in range(3)
        ]
        yield list(reports(rng, state))
        yield list(submit_runs(rng, turn))
        yield list(assign_runs(rng, state, turn, workers))
        yield list(report_runs(rng, state))
        yield list(trouble(rng, state, turn, workers))


def submit_runs(rng: random.Random, turn: int) -> Iterator[c.Command]:
    """New work in runs, some of it twice."""
    options = JobOptions(priority=turn % 10, max_attempts=2, retry_exit_codes=(75,))
    for _ in range(2):
        ids = [rng.randbytes(16) for _ in range(rng.randrange(1, 8))]
        count = len(ids)
        keyed = [f"run-{turn}-{number}" if number % 2 else "" for number in range(count)]
        run = c.SubmitRun(
            rng.choice(["ann", "bøb"]),
            f"q{turn % 3}",
            "exe",
            b"".join(ids),
            tuple(rng.randbytes(rng.randrange(30)) for _ in ids),
            rng.choice([None, options]),
            ("data",) if turn % 6 == 1 else (),
            join_keys(keyed) if turn % 4 == 2 else "",
            tuple(some_blobs(rng) for _ in ids) if turn % 5 == 3 else (),
        )
        yield run
        if turn % 7 == 0:
            yield run


def assign_runs(
    rng: random.Random, state: GridState, turn: int, workers: list[bytes]
) -> Iterator[c.Command]:
    """What the dispatcher decides for workers that have much credit."""
    where = rng.choice(workers), 1 + turn // 15
    for attempt in (1, 2):
        ids = [one.job_id for one in state.jobs.values() if one.attempt == attempt - 1]
        if ids:
            yield c.AssignRun(*where, attempt, 90, b"".join(ids[:30]))
    for array in state.arrays.values():
        yield c.AssignTasks(array.array_id, *where, 90, 1 + turn % 4)


def report_runs(rng: random.Random, state: GridState) -> Iterator[c.Command]:
    """What workers say of many attempts at once."""
    for attempt, status, exit_code in ((1, 0, 0), (2, 0, 0), (1, 1, 75), (1, 1, 3), (1, 2, 0)):
        some = [
            one
            for one in state.jobs.values()
            if one.state is ASSIGNED and one.attempt == attempt and rng.random() < 0.3
        ]
        if some:
            yield c.AckRun(
                attempt,
                status,
                b"".join([one.job_id for one in some]),
                tuple(one.fence + (rng.random() < 0.1) for one in some),
                tuple(rng.randbytes(3) for _ in some),
                exit_code,
                retry_delay_ms=20,
                run_ms=tuple(rng.randrange(9) for _ in some),
                blobs=tuple(some_blobs(rng) for _ in some) if rng.random() < 0.2 else (),
            )
    for client in ("ann", "bøb"):
        ended = [one.job_id for one in state.jobs.values() if one.end and rng.random() < 0.3]
        if ended:
            yield c.ConfirmRun(client, b"".join(ended))


def submits(rng: random.Random, turn: int) -> Iterator[c.Command]:
    """New work."""
    options = JobOptions(
        priority=turn % 10,
        delay_ms=20 * (turn % 2),
        max_attempts=2,
        retry_exit_codes=(75,),
        worker_name="w161" if turn % 5 == 0 else "",
        secrets=(JobSecret("TOKEN", "db"), JobSecret("CERT", "x", as_file=True))[: turn % 3],
        resources=(("cpu", 1_500), ("gpu", 1_000))[: turn % 3],
        labels=("!spot", "zone=a")[: turn % 4],
        limits=(("db", 2), ("matlab", 1))[: turn % 3],
        sticky_key="ø" if turn % 6 == 0 else "",
    )
    for _ in range(3):
        yield c.SubmitJob(
            rng.randbytes(16),
            rng.choice(["ann", "bøb"]),
            f"q{turn % 3}",
            "exe",
            rng.randbytes(rng.randrange(30)),
            rng.choice([None, options]),
            some_blobs(rng),
            ("data",) if turn % 3 == 1 else (),
            f"row-{turn}" if turn % 4 == 2 else "",
        )
    if turn % 8 == 1:
        items = tuple(
            BulkItem(rng.randbytes(16), b"bulk", some_blobs(rng), f"n°{turn}" if turn > 20 else "")
            for _ in range(3)
        )
        yield c.SubmitBulk("ann", "bulk", "exe", items, None, f"key-{turn}", ("data",))
        yield c.SubmitArray(
            rng.randbytes(16),
            "bøb",
            "arrays",
            "exe",
            b"array",
            20,
            options,
            3,
            some_blobs(rng),
            ("data",),
            turn // 8 % 2,
        )


def batches(rng: random.Random, state: GridState, turn: int) -> Iterator[c.Command]:
    """Staged in two parts, one of them twice; committed, or dropped; unpacked by and by."""
    key = f"batch-{turn // 5}"
    names = [f"0.{turn % 5}", "1.0"]
    if turn % 5 < 2:
        for name in names:
            yield c.StageJobs("ann", key, name, 0, (staged(rng, turn), staged(rng, turn)))
            yield c.StageJobs("ann", key, name, 1, (staged(rng, turn),))
        dead = list(state.dead)[:2]
        if dead:
            sizes = (SAME_BODY, 4)[: len(dead)]
            bodies = b"more" if len(dead) > 1 else b""
            group = StagedGroup("", "", b"".join(dead), sizes, bodies, redrives=True)
            yield c.StageJobs("ann", key, "again", 0, (group,))
    elif turn % 5 == 2 and turn % 15 != 12:
        batch = state.staged.get(("ann", key))
        named = ["0.1", "again"] if batch is not None and "again" in batch.parts else ["0.1"]
        parts = tuple(whole(state, key, name) for name in named)
        yield c.CommitBatch("ann", key, (*parts, StagedPart("1.0", 1, 1)))  # which is not so
        yield c.CommitBatch("ann", key, parts)
        yield c.CommitBatch("ann", key, parts[:1])
    elif turn % 15 == 13:
        yield c.DropBatches((c.BatchName("ann", key), c.BatchName("bøb", key)), "olga")
    for (client_id, batch_key), accepted in state.committed.items():
        yield c.UnpackBatch(client_id, batch_key, accepted.position)


def staged(rng: random.Random, turn: int) -> StagedGroup:
    """Some jobs of one kind."""
    bodies = [rng.randbytes(rng.randrange(1, 9)) for _ in range(3)]
    return StagedGroup(
        f"q{turn % 3}",
        "exe",
        rng.randbytes(48),
        tuple(map(len, bodies)),
        b"".join(bodies),
        JobOptions(priority=3) if turn % 2 else None,
        keys=join_keys([f"s-{turn}", "", f"ø-{turn}"]) if rng.random() < 0.7 else "",
        blobs=tuple(some_blobs(rng) for _ in bodies) if rng.random() < 0.5 else (),
    )


def whole(state: GridState, key: str, name: str) -> StagedPart:
    """A part as whoever staged it would count it."""
    chunks = state.staged["ann", key].parts[name]
    crcs = [chunks[number].crc for number in sorted(chunks)]
    return StagedPart(name, sum(chunk.count for chunk in chunks.values()), part_crc(crcs))


def caches(turn: int) -> Iterator[c.Command]:
    """Files under a name: put, known, refused, removed."""
    if turn % 6 == 0:
        yield c.PutCache("data", (CacheEntry("b", blob(1)), CacheEntry("a", blob(9), 0o755)), ">")
        yield c.PutCache("data", (CacheEntry("b", blob(2)),), ">", "olga")
        yield c.PutCache("mødel", (CacheEntry("a", blob(3)),), f"job.assign.q{turn % 4}", "olga")
    elif turn % 6 == 5:
        yield c.RemoveCache("data", "olga")


def readers(turn: int) -> Iterator[c.Command]:
    """Readers of the history that have names: heard of, and let go."""
    if turn % 5 == 2:
        yield c.HoldHistory(f"reader-{turn % 3}", 10 * turn, "olga")
        yield c.HoldHistory("", 1)
    elif turn % 9 == 8:
        yield c.FreeHistory(f"reader-{turn % 4}", by="olga")
        yield c.FreeHistory("reader-2", 1)


def rules(turn: int) -> Iterator[c.Command]:
    """What operators set about queues, limits and shares: put, known, changed, refused, removed."""
    if turn % 4 == 1:
        yield r.PutPolicy("q1", ("sticky", "locality")[turn % 2], by="olga")
        yield r.PutPolicy("q.>", "score", (("running", 2), ("cpu", turn)), "olga")
        yield r.PutPolicy("q.>", "best")
        yield r.PutLimit("exec", "exe", 6 + turn % 3, by="olga")
        yield r.PutLimit("queue", "q1", 3, 500 * (turn % 2), 2 * (turn % 2))
        yield r.PutLimit("client", "ann", rate=4 * 86_400, burst=1 + turn % 3, by="olga")
        yield r.PutLimit("key", "db", 5, 7_000, 3)
        yield r.PutLimit("key", "db")
        yield r.PutWeight("ann", 1 + turn % 5, "olga")
        yield r.PutWeight("bøb", 101)
    elif turn % 8 == 6:
        yield r.RemovePolicy("q1", "olga")
        yield r.RemovePolicy("no-such")
        yield r.RemoveLimit("exec", "exe", "olga")
        yield r.RemoveLimit("exec", "no-such")
        yield r.PutWeight("ann", 1)


def access(turn: int) -> Iterator[c.Command]:
    """Accounts and roles: put, known, refused, removed; and who was refused what."""
    submit = Rule("allow", "jobs.*", f"queue:q{turn % 3}*")
    secret = Rule("deny", "results.read", "client:bøb")
    tokens = (TokenHash("t1", bytes([turn]) * 32, 1_800_000_000_000), TokenHash("t2", b"2" * 32))
    if turn % 7 == 0:
        yield a.PutRole(AccessRole("nights", (submit, secret)), by="olga")
        yield a.PutRole(AccessRole("admin", (submit,)))
        yield a.PutAccount(Account("olga", ("admin",), tokens=tokens), by="olga")
        yield a.PutAccount(Account("ann", ("nights", "client"), (secret,), tokens), by="olga")
    elif turn % 7 == 3:
        kept = (TokenHash("t2", b""),)
        yield a.PutAccount(Account("ann", ("client",), (), kept, (b"k" * 32,), True), turn, by="x")
        yield a.PutAccount(Account("ann", ("client",), (), kept, (b"k" * 32,), True), by="olga")
        yield a.PutAccount(Account("bøb"))
        yield a.PutAccount(Account("carl", ("no-such",)))
        yield a.RemoveRole("nights" if turn % 2 else "no-such", "olga")
        yield a.RemoveAccount("olga", by="ann")
        yield a.RemoveAccount("olga", turn > 30, "ann")
    elif turn % 7 == 5:
        yield a.RemoveAccount("ann", by="olga")
        yield a.NoteAct("remove_member", "cluster.change", "member:7", "olga")
        yield a.NoteRefusals((a.Refusal("ann", "jobs.read", "client:bøb", "10.0.0.7:5", turn),))


def blob(number: int) -> BlobRef:
    """One of few."""
    return BlobRef(bytes([number]) * 32, 1_000 * number)


def some_blobs(rng: random.Random) -> tuple[BlobRef, ...]:
    """Often none."""
    return tuple(blob(rng.randrange(1, 8)) for _ in range(max(0, rng.randrange(-3, 4))))


def reports(rng: random.Random, state: GridState) -> Iterator[c.Command]:
    """What workers say of the attempts that run."""
    for record in list(state.jobs.values()):
        if record.state is not ASSIGNED:
            continue
        name, attempt, fence = record.job_id, record.attempt, record.fence
        chance = rng.randrange(14)
        if chance < 5:
            yield c.AckJob(
                name,
                attempt,
                fence,
                chance % 2,
                b"out",
                chance,
                0,
                12,
                4_096,
                blobs=some_blobs(rng),
                fetched_bytes=rng.randrange(3) * 1_000,
                held_bytes=rng.randrange(3) * 500,
            )
        elif chance == 5:
            yield c.AckJob(name, attempt, fence, 1, b"again", 75, 0, 3, 0, 30, "busy")
        elif chance == 6:
            yield c.AckJob(name, attempt, fence, 2)
        elif chance == 7:
            yield c.NackJob(name, attempt, fence, "no room", 10, rng.random() < 0.5)
        elif chance == 8:
            yield c.ExpireLeases((c.LostAttempt(name, attempt, 15, rng.random() < 0.5),))


def trouble(
    rng: random.Random, state: GridState, turn: int, workers: list[bytes]
) -> Iterator[c.Command]:
    """What the leader's timers, operators and clients do."""
    jobs = list(state.jobs.values())
    some = [record for record in jobs if rng.random() < 0.3]
    yield c.ReleaseJobs(tuple(c.LostAttempt(one.job_id, one.attempt) for one in jobs))
    yield c.ReleaseJobs(tuple(c.LostAttempt(one.array_id, 0) for one in state.arrays.values()))
    yield c.ConfirmResults("ann", tuple(one.job_id for one in some))
    if turn % 4 == 0:
        yield c.CancelJobs(tuple(one.job_id for one in some[:3]), "olga")
        yield c.ExpireJobs(tuple(one.job_id for one in some[3:5]))
        dead = list(state.dead)
        yield c.RedriveJobs(tuple(c.RedriveItem(one, b"edited") for one in dead[:2]), "olga")
        yield c.RedriveJobs(tuple(c.RedriveItem(one, None, "q2") for one in dead[4:5]), "olga")
        yield c.PurgeJobs(tuple(dead[2:4]), "olga")
        yield c.ForgetJobs(tuple(one.job_id for one in some[5:]))
    if turn % 12 == 9:
        yield c.AdvanceTime(state.time_ms + 60_000 * turn)
    if turn % 9 == 4:
        yield c.DrainWorkers(tuple(workers[:1]), turn % 27 == 13, "olga")
    if turn % 10 == 5:
        yield c.PauseQueue("q1", "olga")
        yield c.CancelJobs(tuple(one.array_id for one in state.arrays.values())[:1])
        yield c.CloseWorker(workers[0], 1 + turn // 15, (c.LostAttempt(bytes(16), 1, 5),))
    elif turn % 10 == 7:
        yield c.ResumeQueue("q1", "olga")
        held = tuple(
            AttemptRef(one.job_id, one.attempt, one.fence)
            for one in jobs
            if one.worker_id == workers[1]
        )
        arrays = [one.id_of(19) for one in state.arrays.values()]
        yield c.OpenWorker(workers[1], 1 + turn // 15, "w161", (">",), 2, held[1:], 0)
        yield c.ForgetJobs(tuple(arrays))


def make_golden(name: str) -> None:
    """Write a new set of files."""
    entries = make_log()
    state, found = replay(entries)
    texts = "".join((data.hex() or "-") + "\n" for data in entries)
    for suffix, content in (
        ("log", texts.encode()),
        ("json", (json.dumps(found, indent=2) + "\n").encode()),
        ("snapshot", encode_snapshot(state)),
    ):
        with (GOLDEN / f"{name}.{suffix}").open("xb") as file:
            file.write(content)


if __name__ == "__main__":
    if sys.argv[1] == "--make":
        make_golden(sys.argv[2])
    else:
        print(json.dumps(replay(read_log(Path(sys.argv[1])))[1]))
