"""Bugs of labels and resources."""

from __future__ import annotations

from typing import Any

from rollq.policy import pools
from rollq.policy.dispatch import Dispatcher
from rollq.policy.needs import Room
from rollq.testing.bugs.registry import mutant


@mutant("labels_not_checked", pools, "has_labels", workers=4)
def _any_labels(old: Any) -> Any:
    return lambda required, labels: True


@mutant("resources_taken_beyond_the_capacity", Room, "take_jobs", slots=4)
def _never_taken(old: Any) -> Any:
    def take_jobs(self: Any, job_ids: Any, resources: Any) -> None:
        return None

    return take_jobs


@mutant("resources_of_lost_attempts_stay_taken", Room, "end_jobs", slots=4)
def _never_free(old: Any) -> Any:
    def end_jobs(self: Any, job_ids: Any) -> None:
        return None

    return end_jobs


@mutant("a_new_session_forgets_what_its_attempts_hold", Dispatcher, "open_worker", slots=4)
def _held_forgotten(old: Any) -> Any:
    def open_worker(self: Any, worker_id: bytes, *arguments: Any, **named: Any) -> None:
        old(self, worker_id, *arguments, **named)
        session = self._sessions[worker_id]
        session.room = Room(tuple(session.room.capacity.items()))

    return open_worker
