"""The workload: what the applications behind the clients ask for, drawn from the seed."""

from __future__ import annotations

from typing import Any

import msgspec

from rollq.base.ids import JobId
from rollq.base.jobs import BulkItem, JobOptions
from rollq.grid.commands import RedriveItem
from rollq.testing.clock import MS, Timeline
from rollq.testing.jitter import SeededJitter
from rollq.testing.sim_client import SimClient
from rollq.testing.sim_client_map import SimMap
from rollq.testing.swarm import Swarm
from rollq.testing.workload import JobPlan, body_of
from rollq.wire import messages as wire

QUEUES = ("alpha", "beta", "gamma.deep")


class Application:
    """What one client wants over time."""

    def __init__(
        self, client: SimClient, timeline: Timeline, chance: SeededJitter, swarm: Swarm
    ) -> None:
        self.client = client
        self._timeline = timeline
        self._chance = chance
        self._swarm = swarm
        self._left = swarm.jobs_per_client
        self._submits: list[wire.SubmitJob | wire.SubmitBulk | wire.SubmitArray] = []
        self._jobs: list[JobId] = []
        self.paused: dict[str, None] = {}

    def start(self) -> None:
        """Begin to want things."""
        self._timeline.after(self._chance.draw(1, 400) * MS, self._want)

    def _want(self) -> None:
        if self._left <= 0:
            return
        chance = self._chance
        spread_ms = 2 * self._swarm.chaos_ms // max(1, self._swarm.jobs_per_client)
        self._timeline.after(chance.draw(1, spread_ms) * MS, self._want)
        self._left -= 1
        dice = chance.draw(0, 100)
        if dice < 52 or not self._jobs:
            self._submit()
        elif dice < 57:
            self._submit_bulk()
        elif dice < 60:
            self._map()
        elif dice < 66:
            self._submit_array()
        elif dice < 74:
            self._cancel()
        elif dice < 88:
            self._query()
        elif dice < 92:
            self._redrive()
        elif dice < 95:
            self._pause()
        else:
            self.client.ask(chance.pick(self._submits))  # the same again: idempotent

    def _submit(self) -> None:
        chance = self._chance
        request = wire.SubmitJob(
            chance.draw_id(),
            self.client.client_id,
            f"job.submit.{chance.pick(QUEUES)}",
            "tool",
            self._body(),
            self._options(),
        )
        self._jobs.append(request.job_id)
        self._ask_submit(request)

    def _submit_bulk(self) -> None:
        chance = self._chance
        items = tuple(BulkItem(chance.draw_id(), self._body()) for _ in range(chance.draw(2, 6)))
        key = chance.draw_id()
        self._jobs += [item.job_id for item in items]
        self._ask_submit(
            wire.SubmitBulk(
                key,
                self.client.client_id,
                chance.pick(QUEUES),
                "tool",
                items,
                self._options(),
                key.hex() if chance.chance(500) else "",
            )
        )

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
        self._jobs.append(array_id)
        self._ask_submit(
            wire.SubmitArray(
                array_id,
                self.client.client_id,
                chance.pick(QUEUES),
                "tool",
                self._body(run_ms_max=300),
                chance.draw(2, 9),
                self._options(),
                chance.pick((0, 0, 1, 3)),
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
        dead = [r.job_id for r in self.client.results.values() if r.outcome == "dead"]
        if dead:
            item = RedriveItem(self._chance.pick(dead))
            self.admin("redrive", {"items": (item,)})

    def _pause(self) -> None:
        queue = self._chance.pick(QUEUES)
        self.paused[queue] = None
        self.admin("pause", {"queue": queue})
        self._timeline.after(self._chance.draw(200, 2_000) * MS, self.resume_all)

    def resume_all(self) -> None:
        """Resume whatever this application paused."""
        for queue in self.paused:
            self.admin("resume", {"queue": queue})

    def admin(self, action: str, arguments: Any) -> bytes:
        """Ask for a change; the id of the request."""
        request_id = self._chance.draw_id()
        self.client.ask(wire.Admin(request_id, action, msgspec.msgpack.encode(arguments)))
        return request_id

    def _body(self, run_ms_max: int = 4_000) -> bytes:
        chance = self._chance
        run_ms = chance.draw(1, 300 if chance.chance(850) else run_ms_max)
        return body_of(
            JobPlan(
                run_ms,
                chance.pick((0, 0, 0, 0, 1, 7)),
                chance.draw(2, 4) if chance.chance(60) else 0,
                chance.draw(0, 1 << 30),
            )
        )

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
        )
