"""What a worker has and how much of it is in use, from its computer to the views of the leader."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rollq.base.errors import LocalError
from rollq.base.jobs import JobOptions
from rollq.base.needs import WorkerLoad
from rollq.grid.views import worker_view
from rollq.roles.worker import capacity
from rollq.roles.worker.sandbox.cgroups import CgroupFolders
from rollq.roles.worker.session import IDLE_HEARTBEAT_MS, WorkerSetup
from rollq.roles.worker.setup import NodeSetup
from rollq.roles.worker.signals import Connected, LoadMeasured, SendToMember, Started, Tick
from rollq.wire import messages as wire
from tests.unit.grid.kit import Grid, worker_id
from tests.unit.roles.chance import MiddleJitter
from tests.unit.roles.worker_machines import WORKER, Worker, received, say, welcomed

LOAD = WorkerLoad(125, 2**30, 2**34, 4_096, 2**40)


def group_of(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in {"cgroup.procs": "", **files}.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return folder


def test_groups_of_the_kernel_bound_what_a_worker_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = group_of(tmp_path / "all", cpu_max="50000 100000\n", memory_max="max\n")
    own = group_of(above / "own", cpu_max="max 100000\n", memory_max=f"{2**20}\n")
    places = CgroupFolders({"cpu": own, "memory": own}, True)
    monkeypatch.setattr(capacity, "look_for_places", lambda: places)
    assert capacity.capacity({}) == (("cpu", 500), ("memory", 2**20 * 1_000))
    assert capacity.capacity({"cpu": "4", "gpu": "2"})[:2] == (("cpu", 4_000), ("gpu", 2_000))
    (own / "memory.current").write_text("9000")
    (own / "memory.stat").write_text("anon 5\ninactive_file 1000\n")
    load = capacity.LoadSampler(2**20, tmp_path).sample(7)
    assert (load.memory_used_bytes, load.memory_total_bytes, load.cache_bytes) == (8_000, 2**20, 7)
    assert 0 <= load.cpu_permille <= 1_000
    assert load.disk_free_bytes > 0


def test_this_computer_has_a_cpu_and_memory() -> None:
    found = dict(capacity.capacity({}))
    assert found["cpu"] > 0
    assert found["memory"] > 2**20 * 1_000


def test_a_hello_says_what_the_worker_has() -> None:
    offer = ("gpu", "zone=a"), (("cpu", 4_000), ("gpu", 1_000))
    setup = WorkerSetup(WORKER, ("m1",), ("q",), labels=offer[0], resources=offer[1])
    worker = Worker(setup, MiddleJitter())
    worker.handle(Started())
    (hello,) = [
        message
        for one in worker.handle(Connected())
        if isinstance(one, SendToMember)
        for message in one.messages
    ]
    assert isinstance(hello, wire.HelloWorker)
    assert (hello.labels, hello.resources) == offer


def test_heartbeats_tell_the_last_load() -> None:
    worker = welcomed()
    assert worker.handle(LoadMeasured(LOAD)) == []
    assert worker.handle(Tick(IDLE_HEARTBEAT_MS)) == [say(wire.Heartbeat((), False, LOAD))]


def test_a_new_leader_is_told_the_load_at_once() -> None:
    worker = welcomed()
    worker.handle(LoadMeasured(LOAD))
    told = worker.handle(received(wire.Welcome("g", 1)))
    assert say(wire.Heartbeat((), False, LOAD)) in told


@pytest.mark.parametrize(
    "setup",
    [
        NodeSetup(("m:1",), labels=("zone=",)),
        NodeSetup(("m:1",), resources=(("gpu", "much"),)),
        NodeSetup(("m:1",), labels=tuple(f"{n:x}{'l' * 30}={'v' * 63}" for n in range(16))),
    ],
)
def test_what_no_worker_can_have_is_refused_at_its_start(setup: NodeSetup) -> None:
    with pytest.raises(LocalError):
        setup.check()


def test_a_view_sums_what_jobs_have_taken() -> None:
    grid = Grid()
    grid.start("a", "b", resources=(("cpu", 1_500), ("gpu", 1_000)))
    view = worker_view(grid.state, worker_id("w1"))
    assert view is not None
    assert view.in_use == (("cpu", 3_000), ("gpu", 2_000))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(view), type=type(view)) == view
    assert JobOptions().resources == ()
