"""Parts of the sandbox that need no process: where groups of the kernel are, what a job may see,
which processes are one job's, and what its end was due to."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.worker.sandbox import paths
from rollq.roles.worker.sandbox.box import Box
from rollq.roles.worker.sandbox.cgroups import (
    CONTROLLERS,
    CgroupFolders,
    CgroupLimits,
    JobCgroup,
    NoGroupsError,
    WorkerGroup,
    find_places,
)
from rollq.roles.worker.sandbox.layers import SandboxSetup
from rollq.roles.worker.sandbox.watch import Process, family_of
from rollq.roles.worker.setup import NodeSetup
from rollq.security.credentials import Credentials

MIB = 1024**2
V1_MOUNTS = "".join(
    f"{30 + at} 25 0:{at} / /sys/fs/cgroup/{name} rw,relatime - cgroup cgroup rw,{name}\n"
    for at, name in enumerate(("cpu", "cpuacct", "memory", "pids"))
)
V2_MOUNT = "40 25 0:9 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
ROOT_MOUNT = "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"


def test_groups_of_version_1_come_first() -> None:
    own = "3:pids:/a\n2:memory:/b/c\n1:cpu:/\n0::/\n"
    places = find_places(ROOT_MOUNT + V1_MOUNTS + V2_MOUNT, own)
    root = Path("/sys/fs/cgroup")
    folders = {"memory": root / "memory/b/c", "pids": root / "pids/a", "cpu": root / "cpu"}
    assert places == CgroupFolders(folders, is_v2=False)
    assert places.name == "v1: memory, pids, cpu"


def test_groups_of_version_2_are_one_folder() -> None:
    mount = "40 25 0:9 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
    places = find_places(ROOT_MOUNT + mount, "0::/system.slice/rollq.service\n")
    folder = Path("/sys/fs/cgroup/system.slice/rollq.service")
    assert places == CgroupFolders(dict.fromkeys(CONTROLLERS, folder), is_v2=True)


def test_a_container_sees_its_own_group_as_the_root() -> None:
    mount = "40 25 0:9 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    places = find_places(mount, "0::/docker/abc/inner\n")
    assert places.folders["pids"] == Path("/sys/fs/cgroup/inner")


@pytest.mark.parametrize("mounts", ["", ROOT_MOUNT], ids=["nothing", "no groups"])
def test_no_groups_are_said_to_be_none(mounts: str) -> None:
    with pytest.raises(NoGroupsError):
        find_places(mounts, "0::/\n")


def fake_v2(folder: Path) -> CgroupFolders:
    """A folder that looks like a group of version 2, as far as files do."""
    folder.mkdir()
    (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return CgroupFolders(dict.fromkeys(CONTROLLERS, folder), is_v2=True)


def test_limits_of_version_2_are_written(tmp_path: Path) -> None:
    group = WorkerGroup(fake_v2(tmp_path / "unit"), "me")
    group.folders = dict.fromkeys(CONTROLLERS, tmp_path / "unit")
    job = group.make(CgroupLimits(64 * MIB, 20, 0.5))
    assert job.procs == [str(tmp_path / "unit/1/cgroup.procs")]
    said = {one.name: one.read_text() for one in (tmp_path / "unit/1").iterdir()}
    assert said == {
        "memory.max": str(64 * MIB),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "20",
        "cpu.max": "50000 100000",
    }


def test_a_group_that_is_not_there_is_refused(tmp_path: Path) -> None:
    places = CgroupFolders(dict.fromkeys(CONTROLLERS, tmp_path / "none"), is_v2=True)
    with pytest.raises(NoGroupsError) as caught:
        WorkerGroup(places, "me").open(CgroupLimits())
    assert "No such file" in str(caught.value)


def test_a_group_without_controllers_is_refused(tmp_path: Path) -> None:
    places = fake_v2(tmp_path / "unit")
    (tmp_path / "unit/cgroup.controllers").write_text("cpu pids\n")
    with pytest.raises(NoGroupsError) as caught:
        WorkerGroup(places, "me").open(CgroupLimits())
    assert "no controller memory" in str(caught.value)


def group_that_counted(folder: Path, events: dict[str, str], *, is_v2: bool) -> JobCgroup:
    folder.mkdir()
    for name, text in events.items():
        (folder / name).write_text(text)
    return JobCgroup(dict.fromkeys(CONTROLLERS, folder), is_v2)


NO_USAGE = SimpleNamespace(ru_utime=0.1, ru_stime=0.1)
LIMITS = SandboxSetup(memory_bytes=64 * MIB, pids_max=20, disk_bytes=8 * MIB, cpu_s=2)


@pytest.mark.parametrize(
    ("is_v2", "events"),
    [
        (True, {"memory.events": "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n"}),
        (False, {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"}),
    ],
    ids=["v2", "v1"],
)
def test_the_kernel_says_that_memory_was_short(
    tmp_path: Path, is_v2: bool, events: dict[str, str]
) -> None:
    group = group_that_counted(tmp_path / "group", events, is_v2=is_v2)
    box = Box(1, LIMITS, group=group)
    limit = "memory limit of 64 MiB exceeded (out of memory)"
    assert box.why_ended(signal.SIGKILL, NO_USAGE) == [f"killed, {limit}"]
    assert box.why_ended(3 << 8, NO_USAGE) == [f"{limit}: 1 of its processes killed"]


def test_the_kernel_says_that_there_were_too_many_processes(tmp_path: Path) -> None:
    group = group_that_counted(tmp_path / "group", {"pids.events": "max 12\n"}, is_v2=False)
    told = Box(1, LIMITS, group=group).why_ended(2 << 8, NO_USAGE)
    assert told == ["limit of 20 processes reached: 12 more refused"]


def test_signals_of_limits_are_explained() -> None:
    busy = SimpleNamespace(ru_utime=1.5, ru_stime=0.6)
    cpu = "killed, limit of 2 s of CPU time exceeded"
    assert Box(1, LIMITS).why_ended(signal.SIGKILL, busy) == [cpu]
    assert Box(1, LIMITS).why_ended(signal.SIGXCPU, NO_USAGE) == [cpu]
    assert Box(1, LIMITS).why_ended(signal.SIGKILL, NO_USAGE) == []
    assert Box(1, LIMITS).why_ended(signal.SIGXFSZ, NO_USAGE) == [
        "killed, disk limit of 8 MiB exceeded by a file"
    ]


def test_a_failure_is_explained_by_what_the_program_says() -> None:
    box = Box(1, LIMITS)
    assert box.why_failed("Traceback …\nMemoryError\n") == ["memory limit of 64 MiB reached"]
    assert box.why_failed("sh: 1: Cannot fork\n") == ["limit of 20 processes reached"]
    assert box.why_failed("OSError: [Errno 27] File too large") == [
        "disk limit of 8 MiB reached by a file"
    ]
    assert box.why_failed("wrong argument\n") == []
    assert Box(1, SandboxSetup()).why_failed("MemoryError\n") == []


def test_a_family_is_descendants_and_groups() -> None:
    processes = [
        Process(10, 1, 10),
        Process(11, 10, 10),
        Process(12, 11, 12),  # in a group of its own, and known by its parent
        Process(13, 1, 12),  # an orphan, and known by its group
        Process(20, 1, 20),
    ]
    assert sorted(family_of((10, 0), processes)) == [10, 11, 12, 13]
    assert family_of((99,), processes) == []


def test_what_is_hidden_is_left_out_of_what_is_seen(tmp_path: Path) -> None:
    for name in ("app/lib", "app/state/worker", "app/jobs", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "app/mytasks.py").touch()
    hidden = [f"{tmp_path}/app/state/worker", f"{tmp_path}/app/jobs"]
    sight = paths.rules_of_paths([f"{tmp_path}/app", f"{tmp_path}/other", hidden[0]], [], hidden)
    seen = [path for path in sight.run if path.startswith(str(tmp_path))]
    assert sorted(seen) == [
        f"{tmp_path}/app/lib",
        f"{tmp_path}/app/mytasks.py",
        f"{tmp_path}/other",
    ]
    assert sight.names == [f"{tmp_path}/app", f"{tmp_path}/app/state"]


def test_programs_may_lie_in_what_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "state" / "bin").mkdir(parents=True)
    hidden = [f"{tmp_path}/state"]
    sight = paths.rules_of_paths([], [], hidden, [f"{tmp_path}/state/bin"])
    assert f"{tmp_path}/state/bin" in sight.run
    sight = paths.rules_of_paths([], [], hidden, [f"{tmp_path}/state"])
    assert not [path for path in sight.run if path.startswith(str(tmp_path))]


def test_private_files_of_the_credentials_are_hidden(tmp_path: Path) -> None:
    for name, mode in (("key.pem", 0o600), ("cert.pem", 0o644), ("mytasks.py", 0o644)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    setup = NodeSetup(("h:1",), credentials=Credentials(str(tmp_path)))
    assert setup.hidden() == [setup.state_dir, setup.jobs_dir, tmp_path / "key.pem"]


def test_users_of_jobs_must_be_able_to_pass(tmp_path: Path) -> None:
    place = tmp_path / "closed" / "jobs"
    place.mkdir(parents=True)
    os.chmod(place.parent, 0o700)
    with pytest.raises(LocalError) as caught:
        paths.check_passable([str(place)])
    assert caught.value.code is ErrorCode.NO_SANDBOX
    assert str(place.parent) in caught.value.hint
