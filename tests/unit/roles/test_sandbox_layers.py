"""Which layers a worker puts on, by what it was asked for and by what the system allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollq.base.amounts import size_text
from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.worker.sandbox.layers import (
    ALWAYS,
    BASIC,
    STRICT,
    Layer,
    SandboxLevel,
    SandboxSetup,
    choose,
    needs_launcher,
)

ANY_PLACE = (Path("anywhere"),)


def test_basic_is_the_default_and_needs_no_launcher() -> None:
    layers = choose(SandboxSetup(), {})
    assert set(layers) == set(BASIC)
    assert not needs_launcher(layers, SandboxSetup())


def test_off_leaves_what_is_always_there() -> None:
    assert set(choose(SandboxSetup(SandboxLevel.OFF), {})) == set(ALWAYS)


def test_strict_takes_what_the_system_allows() -> None:
    refusals = {Layer.CGROUP: "no", Layer.PIDS: "no"}
    layers = choose(SandboxSetup(SandboxLevel.STRICT), refusals)
    assert set(layers) == set(STRICT) - set(refusals)
    assert needs_launcher(layers, SandboxSetup(SandboxLevel.STRICT))


def test_layers_are_named_in_one_order() -> None:
    assert list(choose(SandboxSetup(SandboxLevel.STRICT), {})) == [
        one for one in Layer if one in STRICT
    ]


@pytest.mark.parametrize(
    ("asked", "added"),
    [
        ({"memory_bytes": 1 << 30}, {Layer.CGROUP}),
        ({"pids_max": 10}, {Layer.CGROUP}),
        ({"cpus": 0.5}, {Layer.CGROUP}),
        ({"disk_bytes": 1 << 30}, {Layer.DISK}),
        ({"network": False}, {Layer.NETWORK}),
        ({"users": (70_000, 70_009)}, {Layer.USER}),
        ({"readable": ANY_PLACE}, {Layer.LANDLOCK}),
        ({"writable": ANY_PLACE}, {Layer.LANDLOCK}),
        ({"cpu_s": 5}, set()),
        ({"open_files": 64}, set()),
    ],
)
def test_what_is_asked_for_adds_its_layer(asked: dict[str, Any], added: set[Layer]) -> None:
    setup = SandboxSetup(**asked)
    layers = choose(setup, {})
    assert set(layers) == {*BASIC, *added}
    assert needs_launcher(layers, setup)


def test_the_network_can_be_kept_in_a_strict_sandbox() -> None:
    assert Layer.NETWORK not in choose(SandboxSetup(SandboxLevel.STRICT, network=True), {})


@pytest.mark.parametrize(
    ("asked", "layer"),
    [
        ({"required": ("landlock",)}, Layer.LANDLOCK),
        ({"users": (70_000, 70_009)}, Layer.USER),
        ({"network": False}, Layer.NETWORK),
        ({"cpus": 1.0}, Layer.CGROUP),
        ({"cpu_s": 5}, Layer.RLIMITS),
        ({"open_files": 64}, Layer.RLIMITS),
        ({"readable": ANY_PLACE}, Layer.LANDLOCK),
    ],
)
def test_what_nothing_stands_in_for_is_needed(asked: dict[str, Any], layer: Layer) -> None:
    with pytest.raises(LocalError) as caught:
        choose(SandboxSetup(**asked), {layer: "this kernel has none"})
    assert caught.value.code is ErrorCode.NO_SANDBOX
    assert "this kernel has none" in str(caught.value)


def test_memory_and_processes_are_bounded_without_groups_too() -> None:
    setup = SandboxSetup(memory_bytes=1 << 30, pids_max=5)
    layers = choose(setup, {Layer.CGROUP: "not here"})
    assert set(layers) == set(BASIC)
    assert needs_launcher(layers, setup)


@pytest.mark.parametrize(
    "asked",
    [
        {"required": ("moat",)},
        {"memory_bytes": 1_000},
        {"open_files": 3},
        {"cpus": -1.0},
        {"users": (0, 10)},
        {"users": (10, 9)},
        {"users": (70_000, 70_002)},
        {"mode": SandboxLevel.OFF, "required": ("landlock",)},
        {"mode": SandboxLevel.OFF, "memory_bytes": 1 << 30},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(LocalError) as caught:
        SandboxSetup(**asked).check(slots=4)
    assert caught.value.code is ErrorCode.BAD_SETUP


def test_sizes_are_told_as_people_write_them() -> None:
    told = [size_text(one) for one in (12, 2048, 96 * 1024**2, 3 * 1024**3 // 2)]
    assert told == ["12 bytes", "2 KiB", "96 MiB", "1.5 GiB"]
