"""The commands of grid scenarios, one small handler each.

Work        submit NAMES [client= queue= delay= priority= attempts= retry=(codes) for=WORKER]
            array NAME COUNT [max= delay= attempts=] · task ARRAY [worker=]
            assign NAMES [worker=] · ack NAME [status= exit= delay=] · nack NAME [delay=]
            stage BATCH PART NAMES [number= again=yes] · commit BATCH PARTS · drop BATCH
            unpack BATCH [position=]
Trouble     lease-lost NAME [attempt= delay=] · release NAME [attempt=] · expire NAMES
            cancel NAMES · redrive NAMES · purge NAMES · forget NAMES
People      open-worker NAME [incarnation= running=(names) delay=] · close-worker NAME [delay=]
            cap CLIENT N · confirm CLIENT NAMES · pause QUEUE · resume QUEUE
            account NAME ROLES [token=ID off=yes] · remove-account NAME
            role NAME [allow=ACTION/RESOURCE deny=ACTION/RESOURCE] · remove-role NAME
Looking     jobs · owed CLIENT · orders WORKER · restart (through a snapshot)
            may ACCOUNT ACTION RESOURCES

A name is a job, or `array/number` for a task. `ack` and `nack` speak of the last attempt that the
world saw start, so that they can come late. Every command prints outcome, facts and duties.
"""

from __future__ import annotations

from rollq.base.access_rules import AccessRole, Account, Rule, TokenHash, decide
from rollq.base.ids import JobId, task_id, task_number
from rollq.base.jobs import AttemptRef, JobOptions, Status
from rollq.base.staged import StagedGroup, StagedPart, part_crc
from rollq.grid import access_commands as a
from rollq.grid import commands as c
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.effects import (
    Applied,
    Done,
    Duplicate,
    Effect,
    Kept,
    Outcome,
    RunDone,
    SendAssign,
    SendCancel,
    SendDrain,
    SendKept,
    SendResult,
    TellTopic,
    each_effect,
)
from rollq.grid.events import Event, each_of
from rollq.grid.invariants import check
from rollq.grid.outbox import owed_to_client
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import PREFIX_BYTES, GridState
from rollq.grid.workers import orders_of
from tests.scenarios.blocks import Block
from tests.scenarios.runner import Machine

ID_BYTES = 16
LEASE_MS = 1_000


class World:
    """A state, and what workers were told of attempts."""

    def __init__(self) -> None:
        self.state = GridState()
        self.orders: dict[JobId, SendAssign] = {}

    def apply(self, *commands: c.Command) -> str:
        """Apply one entry and tell everything that came of it."""
        index = self.state.applied_index + 1
        applied = apply_entry(self.state, index, encode_batch(index, commands))
        for effect in each_effect(applied.effects):
            if isinstance(effect, SendAssign):
                self.orders[effect.job_ids] = effect
        broken = check(self.state)
        return "\n".join([*self.tell(applied), *broken])

    def tell(self, applied: Applied) -> list[str]:
        """Outcomes, facts, duties: one a line."""
        return [
            *dict.fromkeys(outcome_text(outcome) for outcome in applied.outcomes),
            *(f"  {self.event_text(event)}" for event in each_of(applied.events)),
            *(f"  > {self.effect_text(effect)}" for effect in each_effect(applied.effects)),
        ]

    def name(self, job_id: JobId) -> str:
        """What a scenario calls this id."""
        array = self.state.arrays.get(job_id[:PREFIX_BYTES])
        if array is not None and task_number(array.array_id, job_id) < array.task_count:
            return f"{plain(array.array_id)}/{task_number(array.array_id, job_id)}"
        return plain(job_id)

    def event_text(self, event: Event) -> str:
        """A fact with what matters of it."""
        subject = self.name(event.job_id) if event.job_id else plain(event.array_id)
        subject = subject or plain(event.worker_id) or event.client_id or event.queue
        if event.access is not None:
            subject = subject or event.access.account
        words = [event.kind, subject]
        if event.worker_id and event.job_id:
            words.append(f"worker={plain(event.worker_id)}")
        for field in ("attempt", "fence", "delay_ms", "count", "exit_code"):
            if getattr(event, field):
                words.append(f"{field.removesuffix('_ms')}={getattr(event, field)}")
        if event.cause:
            words.append(f"cause={c.Cause(event.cause).name.lower()}")
        return " ".join(words)

    def effect_text(self, effect: Effect) -> str:
        """A duty with what matters of it."""
        if isinstance(effect, SendDrain):
            return f"{'drain' if effect.is_drained else 'undrain'} {plain(effect.worker_id)}"
        if isinstance(effect, SendKept | TellTopic):
            return f"tell of topic {effect.topic}"
        name = self.name(effect.job_id if isinstance(effect, SendCancel) else effect.job_ids)
        if isinstance(effect, SendResult):
            more = f" and {effect.count - 1} more" if effect.count > 1 else ""
            return f"result {name}{more} to {effect.client_id}: {effect.outcome}"
        word = "assign" if isinstance(effect, SendAssign) else "stop"
        return f"{word} {name} on {plain(effect.worker_id)} fence={effect.fence}"


def plain(raw: bytes) -> str:
    """The name inside an id."""
    return raw[:PREFIX_BYTES].rstrip(b"\0").decode()


def id_of(name: str) -> JobId:
    """The id of a name: a job, a worker, an array, or `array/number`."""
    array, _, number = name.partition("/")
    first = array.encode().ljust(ID_BYTES, b"\0")
    return task_id(first, int(number)) if number else first


def ids_of(block: Block, start: int = 0) -> tuple[JobId, ...]:
    """The ids of a command's words."""
    return tuple(id_of(word) for word in block.words[start:])


def outcome_text(outcome: Outcome) -> str:
    """An outcome in a word or two."""
    if isinstance(outcome, Done):
        return f"done {outcome.count}"
    if isinstance(outcome, Duplicate):
        return "known, ended" if outcome.ended else "known"
    if isinstance(outcome, RunDone):
        others = [f", {at}: {outcome_text(other)}" for at, other in outcome.others]
        return f"done {outcome.count}{''.join(others)}"
    if isinstance(outcome, Kept):
        return f"kept {outcome.count} from {outcome.index}"
    return f"refused: {outcome.code.name.lower()}"


def options_of(block: Block) -> JobOptions:
    """The job options that a command names."""
    return JobOptions(
        priority=block.option_number("priority", 0),
        delay_ms=block.option_number("delay", 0),
        max_attempts=block.option_number("attempts", 0),
        retry_exit_codes=tuple(block.option_numbers("retry")),
        worker_name=block.option("for"),
    )


def _submit(world: World, block: Block) -> str:
    client, queue = block.option("client", "ann"), block.option("queue", "q")
    options = options_of(block)
    return world.apply(
        *(
            c.SubmitJob(id_of(name), client, queue, "exe", name.encode(), options)
            for name in block.words
        )
    )


def _array(world: World, block: Block) -> str:
    return world.apply(
        c.SubmitArray(
            id_of(block.word(0)),
            block.option("client", "ann"),
            block.option("queue", "q"),
            "exe",
            b"",
            block.number(1),
            options_of(block),
            block.option_number("max", 0),
        )
    )


def _stage(world: World, block: Block) -> str:
    batch_key, part, *names = block.words
    bodies = [name.encode() for name in names]
    columns = (b"".join(map(id_of, names)), tuple(map(len, bodies)), b"".join(bodies))
    group = StagedGroup("q", "exe", *columns, redrives=block.option("again") == "yes")
    number = block.option_number("number", 0)
    return world.apply(c.StageJobs("ann", batch_key, part, number, (group,)))


def _commit(world: World, block: Block) -> str:
    batch_key, *names = block.words
    batch = world.state.staged.get(("ann", batch_key))
    parts = []
    for name in names:
        chunks = {} if batch is None else batch.parts.get(name, {})
        count = sum(chunk.count for chunk in chunks.values())
        crcs = [chunks[number].crc for number in sorted(chunks)]
        parts.append(StagedPart(name, count, part_crc(crcs)))
    return world.apply(c.CommitBatch("ann", batch_key, tuple(parts)))


def _unpack(world: World, block: Block) -> str:
    batch = world.state.committed.get(("ann", block.word(0)))
    position = block.option_number("position", 0 if batch is None else batch.position)
    return world.apply(c.UnpackBatch("ann", block.word(0), position))


def _drop(world: World, block: Block) -> str:
    return world.apply(c.DropBatches((c.BatchName("ann", block.word(0)),)))


def _incarnation(world: World, worker: bytes) -> int:
    known = world.state.workers.get(worker)
    return 1 if known is None else known.incarnation


def _task(world: World, block: Block) -> str:
    worker = id_of(block.option("worker", "w1"))
    return world.apply(
        c.AssignTask(id_of(block.word(0)), worker, _incarnation(world, worker), LEASE_MS)
    )


def _assign(world: World, block: Block) -> str:
    worker = id_of(block.option("worker", "w1"))
    commands = []
    for job_id in ids_of(block):
        record = world.state.jobs.get(job_id)
        attempt = 1 if record is None else record.attempt + 1
        commands.append(c.AssignJob(job_id, worker, _incarnation(world, worker), attempt, LEASE_MS))
    return world.apply(*commands)


def _ack(world: World, block: Block) -> str:
    order = world.orders[id_of(block.word(0))]
    return world.apply(
        c.AckJob(
            order.job_ids,
            order.attempt,
            order.fence,
            Status[block.option("status", "ok").upper()],
            b"result",
            block.option_number("exit", 0),
            retry_delay_ms=block.option_number("delay", 0),
        )
    )


def _nack(world: World, block: Block) -> str:
    order = world.orders[id_of(block.word(0))]
    delay_ms = block.option_number("delay", 0)
    which = order.job_ids, order.attempt, order.fence
    return world.apply(c.NackJob(*which, "", delay_ms, block.option("started") == "no"))


def _lost(world: World, block: Block) -> c.LostAttempt:
    job_id = id_of(block.word(0))
    record = world.state.jobs.get(job_id)
    attempt = block.option_number("attempt", 0 if record is None else record.attempt)
    unsent = block.option("sent") == "no"
    return c.LostAttempt(job_id, attempt, block.option_number("delay", 0), unsent)


def _lease_lost(world: World, block: Block) -> str:
    return world.apply(c.ExpireLeases((_lost(world, block),)))


def _release(world: World, block: Block) -> str:
    return world.apply(c.ReleaseJobs((_lost(world, block),)))


def _redrive(world: World, block: Block) -> str:
    return world.apply(c.RedriveJobs(tuple(c.RedriveItem(one) for one in ids_of(block))))


def _open_worker(world: World, block: Block) -> str:
    name = block.word(0)
    orders = [world.orders[id_of(job)] for job in block.options.get("running", ()) if job]
    refs = tuple(AttemptRef(one.job_ids, one.attempt, one.fence) for one in orders)
    incarnation = block.option_number("incarnation", 1)
    delay_ms = block.option_number("delay", 0)
    return world.apply(c.OpenWorker(id_of(name), incarnation, name, (">",), 4, refs, delay_ms))


def _close_worker(world: World, block: Block) -> str:
    worker = id_of(block.word(0))
    known = world.state.workers.get(worker)
    delay_ms = block.option_number("delay", 0)
    held = () if known is None else tuple(known.held)
    lost = tuple(
        c.LostAttempt(job_id, world.state.jobs[job_id].attempt, delay_ms) for job_id in held
    )
    incarnation = block.option_number("incarnation", _incarnation(world, worker))
    return world.apply(c.CloseWorker(worker, incarnation, lost))


def _jobs(world: World, block: Block) -> str:
    lines = []
    for record in sorted(world.state.jobs.values(), key=lambda one: one.seq):
        words = [world.name(record.job_id), record.state.name.lower()]
        if record.attempt:
            words.append(f"attempt={record.attempt}")
        if record.cancel_requested:
            words.append("asked to stop")
        lines.append(" ".join(words))
    for array in sorted(world.state.arrays.values(), key=lambda one: one.seq):
        lines.append(f"{plain(array.array_id)}: {array.tasks_waiting} tasks wait")
    return "\n".join(lines) or "(nothing)"


def _owed(world: World, block: Block) -> str:
    results, _ = owed_to_client(world.state, block.word(0), 0, 100)
    return "\n".join(world.effect_text(result) for result in results) or "(nothing)"


def _orders(world: World, block: Block) -> str:
    worker = world.state.workers.get(id_of(block.word(0)))
    held = [] if worker is None else [world.state.jobs[job_id] for job_id in worker.held]
    orders = [order for record in held for order in orders_of(world.state, record)]
    return "\n".join(world.effect_text(order) for order in orders) or "(nothing)"


def _account(world: World, block: Block) -> str:
    name, *roles = block.words
    token = block.option("token")
    tokens = (TokenHash(token, token.encode().ljust(32, b"\0")),) if token else ()
    account = Account(name, tuple(roles), (), tokens, (), block.option("off") == "yes")
    return world.apply(a.PutAccount(account, by="olga"))


def _role(world: World, block: Block) -> str:
    rules = []
    if block.option("allow"):
        rules.append(Rule("allow", *block.option("allow").split("/")))
    if block.option("deny"):
        rules.append(Rule("deny", *block.option("deny").split("/")))
    return world.apply(a.PutRole(AccessRole(block.word(0), tuple(rules)), by="olga"))


def _may(world: World, block: Block) -> str:
    name, action, *resources = block.words
    return "yes" if decide(world.state.access.rules_of(name), name, action, resources) else "no"


def _restart(world: World, block: Block) -> str:
    world.state = decode_snapshot(encode_snapshot(world.state))
    return f"at {world.state.applied_index}"


MACHINE = Machine(
    World,
    {
        "submit": _submit,
        "array": _array,
        "task": _task,
        "stage": _stage,
        "commit": _commit,
        "unpack": _unpack,
        "drop": _drop,
        "assign": _assign,
        "ack": _ack,
        "nack": _nack,
        "lease-lost": _lease_lost,
        "release": _release,
        "redrive": _redrive,
        "expire": lambda world, block: world.apply(c.ExpireJobs(ids_of(block))),
        "cancel": lambda world, block: world.apply(c.CancelJobs(ids_of(block))),
        "purge": lambda world, block: world.apply(c.PurgeJobs(ids_of(block))),
        "forget": lambda world, block: world.apply(c.ForgetJobs(ids_of(block))),
        "open-worker": _open_worker,
        "close-worker": _close_worker,
        "cap": lambda world, block: world.apply(c.OpenClient(block.word(0), block.number(1))),
        "confirm": lambda world, block: world.apply(
            c.ConfirmResults(block.word(0), ids_of(block, 1))
        ),
        "pause": lambda world, block: world.apply(c.PauseQueue(block.word(0))),
        "resume": lambda world, block: world.apply(c.ResumeQueue(block.word(0))),
        "account": _account,
        "remove-account": lambda world, block: world.apply(a.RemoveAccount(block.word(0))),
        "role": _role,
        "remove-role": lambda world, block: world.apply(a.RemoveRole(block.word(0))),
        "may": _may,
        "jobs": _jobs,
        "owed": _owed,
        "orders": _orders,
        "restart": _restart,
    },
)
