"""The workload: requests of the applications behind the clients, drawn from the seed."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from rollq.base.access_rules import AccessRole, Account, Effect, Rule, TokenHash
from rollq.base.hints import ExecHint
from rollq.base.ids import JobId, WorkerId
from rollq.base.jobs import BulkItem, CacheEntry, Condition, JobOptions, ParentRef
from rollq.grid.commands import RedriveItem
from rollq.testing.clock import MS, VirtualTimeline
from rollq.testing.jitter import SeededJitter
from rollq.testing.sim_batch import SimBatch
from rollq.testing.sim_client import SimClient
from rollq.testing.sim_client_map import SimMap
from rollq.testing.swarm import Swarm
from rollq.testing.workload import (
    BLOB_NUMBERS,
    LABELS,
    RESOURCES,
    JobPlan,
    blob,
    body_of,
    inputs_of,
    tool_of,
)
from rollq.wire import messages as wire

QUEUES = ("alpha", "beta", "gamma.deep")
CACHES = ("data", "model")
CONDITIONS = (Condition.OK, Condition.RESULT, Condition.ENDED, Condition.FAILED)
KEYS = ("db", "gpu")
TOKENS_MAX = 2  # the most that a job takes of a key
LIMITS = (
    ("exec", "tool"),
    ("exec", "saw"),
    ("queue", "alpha"),
    ("client", "c1"),
    ("key", "db"),
    ("key", "gpu"),
)
ACCOUNTS = ("ann", "olga", "pia")
ROLES = ("days", "nights")
EFFECTS: tuple[Effect, ...] = ("allow", "deny")
BAD_INPUTS_EXIT = 126  # exit code of a job whose inputs are not valid


class Application:
    """The requests of one client over time."""

    def __init__(
        self,
        client: SimClient,
        timeline: VirtualTimeline,
        chance: SeededJitter,
        swarm: Swarm,
        workers: list[WorkerId],
    ) -> None:
        self.client = client
        self._timeline = timeline
        self._chance = chance
        self._swarm = swarm
        self._remaining = swarm.jobs_per_client
        self._submits: list[wire.SubmitJob | wire.SubmitBulk | wire.SubmitArray] = []
        self._jobs: list[JobId] = []
        self._workers = workers
        self.paused: dict[str, None] = {}
        self.drained: dict[WorkerId, None] = {}

    def start(self) -> None:
        """Start sending requests."""
        self._timeline.after(self._chance.draw(1, 400) * MS, self._send_next)
        if self._swarm.limited:
            self._timeline.after(self._chance.draw(1, 1_000) * MS, self._limit)

    def _send_next(self) -> None:
        if self._remaining <= 0:
            return
        chance = self._chance
        spread_ms = 2 * self._swarm.chaos_ms // max(1, self._swarm.jobs_per_client)
        self._timeline.after(chance.draw(1, spread_ms) * MS, self._send_next)
        self._remaining -= 1
        roll = chance.draw(0, 100)
        if roll < 46 or not self._jobs:
            self._submit()
        elif roll < 50:
            self._submit_bulk()
        elif roll < 53:
            self._stage()
        elif roll < 56:
            self._map()
        elif roll < 62:
            self._submit_array()
        elif roll < 70:
            self._cancel()
        elif roll < 81:
            self._query()
        elif roll < 85:
            self._redrive()
        elif roll < 87:
            self._pause()
        elif roll < 88:
            self._drain()
        elif roll < 89:
            self._hint()
        elif roll < 90:
            self._read_history()
        elif roll < 92:
            self._put_cache()
        elif roll < 95:
            self.admin("remove_cache", {"cache_id": chance.pick(CACHES)})
        elif roll < 96:
            self._change_access()
        else:
            self.client.ask(chance.pick(self._submits))  # a duplicate: submits are idempotent

    def submit_one(self, run_ms: int) -> JobId:
        """Submit a job that runs for this long and succeeds; returns its id."""
        body = body_of(JobPlan(run_ms, salt=self._chance.draw(0, 1 << 30)))
        queue = self._chance.pick(QUEUES)
        job_id = self._chance.draw_id()
        self._ask_submit(wire.SubmitJob(job_id, self.client.client_id, queue, "tool", body))
        return job_id

    def _submit(self) -> None:
        chance = self._chance
        body = self._body()
        job_id = chance.draw_id()
        request = wire.SubmitJob(
            job_id,
            self.client.client_id,
            f"job.submit.{chance.pick(QUEUES)}",
            tool_of(job_id),
            body,
            self._after(self._options()),
            inputs_of(body),
            self._caches(),
        )
        self._jobs.append(request.job_id)
        self._ask_submit(request)

    def _submit_bulk(self) -> None:
        chance = self._chance
        bodies = [self._body() for _ in range(chance.draw(2, 6))]
        items = tuple(BulkItem(chance.draw_id(), body, inputs_of(body)) for body in bodies)
        key = chance.draw_id()
        self._jobs += [item.job_id for item in items]
        self._ask_submit(
            wire.SubmitBulk(
                key,
                self.client.client_id,
                chance.pick(QUEUES),
                tool_of(key),
                items,
                self._after(self._options()),
                key.hex() if chance.chance(500) else "",
                self._caches(),
            )
        )

    def _stage(self) -> None:
        chance = self._chance
        dead = self._dead() if chance.chance(300) else []
        SimBatch(
            self.client,
            chance,
            body=self._body,
            queue=chance.pick(QUEUES),
            options=self._options(),
            on_accept=self._jobs.append,
        ).start(dead[:2])

    def _map(self) -> None:
        chance = self._chance
        SimMap(
            self.client,
            chance,
            queue=chance.pick(QUEUES),
            options=self._options(),
            bodies=[self._body() for _ in range(chance.draw(3, 13))],
            window=chance.draw(2, 6),
            on_submit=self._jobs.append,
        ).start()

    def _submit_array(self) -> None:
        chance = self._chance
        array_id = chance.draw_id()
        body = self._body(run_ms_max=300)
        self._jobs.append(array_id)
        self._ask_submit(
            wire.SubmitArray(
                array_id,
                self.client.client_id,
                chance.pick(QUEUES),
                tool_of(array_id[:12]),
                body,
                chance.draw(2, 9),
                self._options(),
                chance.pick((0, 0, 1, 3)),
                inputs_of(body),
                self._caches(),
                array_id[0] % 2,  # as older clients number, or as current ones
            )
        )

    def _ask_submit(self, request: wire.SubmitJob | wire.SubmitBulk | wire.SubmitArray) -> None:
        self._submits.append(request)
        self.client.ask(request)

    def _cancel(self) -> None:
        self.client.ask(wire.Cancel(self._chance.draw_id(), (self._chance.pick(self._jobs),)))

    def _query(self) -> None:
        key = self._chance.pick(self._jobs)
        self.client.ask(wire.Query(self._chance.draw_id(), "job", key))

    def _redrive(self) -> None:
        dead = self._dead()
        if dead:
            item = RedriveItem(self._chance.pick(dead))
            self.admin("redrive", {"items": (item,)})

    def _dead(self) -> list[JobId]:
        results = self.client.results.values()
        return [one.job_id for one in results if one.outcome == "dead" and one.count == 1]

    def _pause(self) -> None:
        queue = self._chance.pick(QUEUES)
        self.paused[queue] = None
        self.admin("pause", {"queue": queue})
        self._timeline.after(self._chance.draw(200, 2_000) * MS, self.resume_all)

    def _drain(self) -> None:
        """Drain one or two workers for a while; unknown workers are refused."""
        workers = [self._chance.pick(self._workers) for _ in range(self._chance.draw(1, 3))]
        self.drained.update(dict.fromkeys(workers))
        self.admin("drain", {"worker_ids": workers})
        self._timeline.after(self._chance.draw(200, 4_000) * MS, self.resume_all)

    def _read_history(self) -> None:
        """Advance or release the hold of one of a few history readers."""
        name = f"reader-{self._chance.draw(0, 3)}"
        if self._chance.draw(0, 4):
            self.admin("hold_history", {"name": name, "index": self._chance.draw(1, 1_000)})
        else:
            self.admin("free_history", {"name": name})

    def _hint(self) -> None:
        run_ms = self._chance.draw(1, 3_000)
        hint = ExecHint("tool", run_ms // 2, run_ms, self._chance.draw(run_ms, 9_000))
        self.admin("set_hints", {"hints": (hint,)})

    def _change_access(self) -> None:
        """Put or remove one of a few accounts and roles; some changes are refused."""
        chance = self._chance
        name, role = chance.pick(ACCOUNTS), chance.pick(ROLES)
        rule = Rule(chance.pick(EFFECTS), "jobs.*", f"queue:{chance.pick(QUEUES)}")
        token = TokenHash("t", bytes([chance.draw(0, 256)]) * 32)
        account = Account(name, (role,), (rule,), (token,), (), chance.chance(200))
        self.admin(
            *chance.pick(
                (
                    ("access_put_account", {"account": account}),
                    ("access_put_account", {"account": Account(name, ("admin",), (), (token,))}),
                    ("access_put_role", {"role": AccessRole(role, (rule,))}),
                    ("access_remove_account", {"name": name}),
                    ("access_remove_role", {"name": role}),
                )
            )
        )

    def _limit(self) -> None:
        """Set, change or remove a limit or a weight, and schedule the next change. No limit is so
        tight that existing jobs could not finish in time."""
        if self._remaining <= 0:
            return
        chance = self._chance
        self._timeline.after(chance.draw(200, 3_000) * MS, self._limit)
        scope, name = chance.pick(LIMITS)
        rate = chance.pick((0, 0, 10 * 86_400, 40 * 86_400))
        limit = {
            "scope": scope,
            "name": name,
            "running_max": chance.draw(TOKENS_MAX, 6) if not rate or chance.chance(300) else 0,
            "rate": rate,
            "burst": chance.draw(1, 4) if rate else 0,
        }
        weight = {"client_id": chance.pick(("c1", "c2")), "weight": chance.draw(1, 5)}
        changes: tuple[tuple[str, Any], ...] = (
            ("put_limit", limit),
            ("put_limit", limit),
            ("put_limit", limit),
            ("remove_limit", {"scope": scope, "name": name}),
            ("put_weight", weight),
        )
        self.admin(*chance.pick(changes))

    def _tokens(self) -> tuple[tuple[str, int], ...]:
        """Tokens of one or both keys that may be limited."""
        chance = self._chance
        if not self._swarm.limited or not chance.chance(500):
            return ()
        return tuple((key, chance.draw(1, TOKENS_MAX + 1)) for key in KEYS if chance.chance(600))

    def _put_cache(self) -> None:
        """Put one of a few caches with one of two contents: some puts are duplicates, some are
        refused."""
        chance = self._chance
        cache_id, first = chance.pick(CACHES), chance.pick((20, 20, 20, 30))
        entries = [CacheEntry(f"file{n}", blob(first + n)) for n in range(3)]
        pattern = f"job.assign.{chance.pick(QUEUES)}"
        self.admin(
            "put_cache", {"cache_id": cache_id, "entries": entries, "target_pattern": pattern}
        )

    def _caches(self) -> tuple[str, ...]:
        """A cache that may not exist: a submit that names a missing one is refused."""
        return (self._chance.pick(CACHES),) if self._chance.chance(100) else ()

    def resume_all(self) -> None:
        """Resume and undrain everything that this application paused or drained."""
        for queue in self.paused:
            self.admin("resume", {"queue": queue})
        if self.drained:
            self.admin("undrain", {"worker_ids": tuple(self.drained)})

    def admin(self, action: str, arguments: Any) -> bytes:
        """Send an administrative command; returns the id of the request."""
        request_id = self._chance.draw_id()
        self.client.ask(wire.Admin(request_id, action, msgspec.msgpack.encode(arguments)))
        return request_id

    def _body(self, run_ms_max: int = 4_000) -> bytes:
        chance = self._chance
        run_ms = chance.draw(1, self._swarm.usual_run_ms if chance.chance(850) else run_ms_max)
        plan = JobPlan(
            run_ms,
            chance.pick((0, 0, 0, 0, 1, 7)),
            chance.draw(2, 4) if chance.chance(60) else 0,
            chance.draw(0, 1 << 30),
            self._numbers(),
            self._numbers(),
        )
        if plan.inputs and chance.chance(100):
            plan = replace(plan, exit_code=BAD_INPUTS_EXIT, outputs=(), bad_inputs=True)
        return body_of(plan)

    def _numbers(self) -> tuple[int, ...]:
        """Blobs for the inputs or outputs of a job; some are shared with caches, some appear
        twice."""
        chance = self._chance
        if not chance.chance(300):
            return ()
        return tuple(chance.draw(1, BLOB_NUMBERS) for _ in range(chance.draw(1, 4)))

    def _after(self, options: JobOptions | None) -> JobOptions | None:
        """Add dependencies on earlier jobs. Some of these are not accepted yet, or forgotten: then
        the submit is refused."""
        chance = self._chance
        if not self._jobs or not chance.chance(250):
            return options
        parents = {chance.pick(self._jobs[-8:]): None for _ in range(chance.draw(1, 4))}
        after = tuple(ParentRef(one, chance.pick(CONDITIONS)) for one in parents)
        return replace(options or JobOptions(), after=after)

    def _options(self) -> JobOptions | None:
        chance = self._chance
        if chance.chance(500):
            return None
        return JobOptions(
            priority=chance.draw(0, 10),
            delay_ms=chance.draw(1, 2_000) if chance.chance(250) else 0,
            max_attempts=chance.draw(1, 5) if chance.chance(300) else 0,
            expire_ms=chance.draw(500, 5_000) if chance.chance(100) else 0,
            retry_base_ms=chance.draw(1, 200) if chance.chance(200) else 0,
            retry_exit_codes=(7,) if chance.chance(400) else (),
            limits=self._tokens(),
            labels=chance.pick(LABELS),
            resources=chance.pick(RESOURCES),
        )
