"""Whether a flow in a file is the one that the group accepted under its name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rollq.base.jobs import JobOptions
from rollq.cli.flow_changes import differences
from rollq.grid.views import RawJobView
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.specs import JobSpec

ID = b"i" * 16
VIEW = RawJobView(ID, "flow-n1", "render", "render", "queued", 0, JobOptions(), 0, 0, key="run")


def changes(given: Options, **known: object) -> list[str]:
    spec = JobSpec("render", options=given, key="run")
    return list(differences([spec], [replace(VIEW, **known)], 1))


@pytest.mark.parametrize(
    ("options", "queue", "worker"),
    [
        ({}, "render", ""),
        ({"queue": "Slow"}, "slow", ""),
        ({"worker": "GPU-1"}, "render", "gpu-1"),  # the leader folds names
        ({"queue": "slow.GPU-1"}, "slow.gpu-1", ""),  # no worker had this name
        ({"queue": "slow.GPU-1"}, "slow", "gpu-1"),  # one had
    ],
)
def test_names_are_compared_as_the_leader_resolves_them(
    options: Options, queue: str, worker: str
) -> None:
    assert changes(options, queue=queue, options=JobOptions(worker_name=worker)) == []


@pytest.mark.parametrize(
    ("options", "worker"),
    [({}, "gpu-1"), ({"worker": "gpu-1"}, ""), ({"worker": "gpu-1"}, "gpu-2")],
)
def test_another_worker_is_another_flow(options: Options, worker: str) -> None:
    found = changes(options, options=JobOptions(worker_name=worker))
    assert found == ["[run] differs in queue or worker"]
