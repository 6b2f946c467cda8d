"""Bugs of the client's runs: the answer of one job is applied to another, or a job is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from rollq.roles.client.session.runs import SentRuns
from rollq.testing.bugs.registry import mutant
from rollq.wire.messages import SubmitJob
from rollq.wire.run_messages import RunAccepted, SubmitRun


@mutant("client_loses_the_last_job_of_a_run", SentRuns, "messages")
def _last_is_lost(old: Any) -> Any:
    def messages(self: SentRuns, jobs: list[SubmitJob]) -> Iterator[SubmitJob | SubmitRun]:
        for message in old(self, jobs):
            if isinstance(message, SubmitRun) and len(message.bodies) > 1:
                yield structs.replace(
                    message, job_ids=message.job_ids[:-16], bodies=message.bodies[:-1], blobs=()
                )
            else:
                yield message

    return messages


@mutant("client_takes_a_refused_job_of_a_run_for_accepted", SentRuns, "answers")
def _refusal_is_lost(old: Any) -> Any:
    def answers(self: SentRuns, message: RunAccepted) -> Any:
        return old(self, structs.replace(message, refused=()))

    return answers
