"""Schedules in the simulator: an operator puts, changes, pauses, resumes, runs and removes them
during the chaos phase."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rollq.base.schedules import ALL, CANCEL, CATCH_UPS, OVERLAPS, SKIP
from rollq.testing.applications import QUEUES
from rollq.testing.checkers.schedules import EVERY_MINUTE, SchedulesKept
from rollq.testing.clock import MS, VirtualTimeline
from rollq.testing.jitter import SeededJitter
from rollq.testing.sim_client import SimClient
from rollq.testing.swarm import Swarm
from rollq.testing.workload import JobPlan, body_of
from rollq.wire.messages import Admin

SLOW: Final = "sweep"  # its jobs may run longer than its period
NAMES: Final = (SLOW, "beat", "team/report")
SLOW_MS_MAX: Final = 2_500
LOOK_MS: Final = 600
EVERY_MS: Final = (1_000, 1_000, 2_000, 3_000)
# With catch-up of every instant, if clocks leap by a day.
LONG_EVERY_MS: Final = (900_000, 1_800_000)


class SimSchedules:
    """The operator."""

    def __init__(
        self,
        client: SimClient,
        timeline: VirtualTimeline,
        chance: SeededJitter,
        swarm: Swarm,
        checker: SchedulesKept,
    ) -> None:
        self._client = client
        self._timeline = timeline
        self._chance = chance
        self._swarm = swarm
        self._checker = checker
        self._is_ending = False

    def start(self) -> None:
        """Start changing schedules, until the chaos phase is over."""
        self._timeline.after(self._chance.draw(1, LOOK_MS) * MS, self._look)

    def end(self) -> None:
        """Remove all schedules."""
        self._is_ending = True
        self._look()

    def unmet(self, time_ms: int) -> list[str]:
        """Why the schedules have not converged at this time of the group."""
        unmet = [f"schedule {name} is overdue" for name in self._checker.overdue(time_ms)]
        if self._is_ending:
            unmet += [f"schedule {name} is not removed" for name in self._checker.ghosts]
            unmet += [f"job {one.hex()} of a schedule is open" for one in self._checker.open]
        return unmet

    def _look(self) -> None:
        chance = self._chance
        if self._is_ending:
            for name in self._checker.ghosts if not self._client.pending else ():
                self._ask("remove_schedule", {"name": name})
        elif self._timeline.now_us >= self._swarm.chaos_ms * MS:
            return
        else:
            self._change()
        self._timeline.after(chance.draw(LOOK_MS // 4, LOOK_MS) * MS, self._look)

    def _change(self) -> None:
        """Change one of a few schedules; some changes are refused, as it does not exist."""
        name, dice = self._chance.pick(NAMES), self._chance.draw(0, 100)
        if dice < 35:
            self._put(name)
        elif dice < 48:
            self._ask("pause_schedule", {"name": name})
        elif dice < 75:
            self._ask("resume_schedule", {"name": name})
        elif dice < 92:
            self._ask("run_schedule", {"name": name})
        else:
            self._ask("remove_schedule", {"name": name})

    def _put(self, name: str) -> None:
        chance = self._chance
        catch_up = chance.pick(CATCH_UPS)
        leaps = "clock_jump" in self._swarm.faults
        every_ms = chance.pick(LONG_EVERY_MS if catch_up == ALL and leaps else EVERY_MS)
        is_cron = chance.chance(150)
        is_slow = name == SLOW  # at most one of its jobs runs, which leaves workers free
        run_ms = chance.draw(1, SLOW_MS_MAX if is_slow else self._swarm.usual_run_ms)
        plan = JobPlan(run_ms, chance.pick((0, 0, 1)), salt=chance.draw(0, 1 << 30))
        wanted = {
            "name": name,
            "queue": chance.pick(QUEUES),
            "exec_name": "tool",
            "body": body_of(plan),
            "cron": EVERY_MINUTE if is_cron else "",
            "every_ms": 0 if is_cron else every_ms,
            "jitter_ms": chance.pick((0, 0, 1_000, 2_000)),
            "overlap": chance.pick((SKIP, CANCEL) if is_slow else OVERLAPS),
            "catch_up": catch_up,
        }
        self._ask("put_schedule", wanted)

    def _ask(self, action: str, arguments: dict[str, Any]) -> None:
        request_id = self._chance.draw_id()
        self._client.ask(Admin(request_id, action, msgspec.msgpack.encode(arguments)))
