"""Sandbox options of `rollq worker`."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.amounts import SIZES, amount
from rollq.base.errors import ErrorCode, LocalError

if TYPE_CHECKING:
    from rollq.roles.worker.sandbox.layers import SandboxSetup


class Strictness(enum.StrEnum):
    """The values of `--sandbox`."""

    OFF = "off"
    BASIC = "basic"
    STRICT = "strict"


SandboxMode = Annotated[
    Strictness,
    typer.Option(
        "--sandbox",
        envvar="ROLLQ_SANDBOX",
        help="Layers between jobs and the machine: basic has those that cost nothing; strict has "
        "all that the system supports, and no network.",
    ),
]
RequireLayers = Annotated[
    list[str] | None,
    typer.Option(
        envvar="ROLLQ_REQUIRE_LAYERS",
        metavar="LAYER,…",
        help="Do not start without these layers.",
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_JOB_MEMORY",
        metavar="SIZE",
        help="Memory limit of a job: 512M, 2G (0 = none).",
    ),
]
Pids = Annotated[
    int,
    typer.Option(
        envvar="ROLLQ_JOB_PIDS",
        min=0,
        metavar="N",
        help="Processes that a job may have (0 = no limit).",
    ),
]
Cpus = Annotated[
    float,
    typer.Option(
        envvar="ROLLQ_JOB_CPUS",
        min=0,
        metavar="CPUS",
        help="Processors that a job may use: 0.5, 2 (0 = no limit). Needs cgroups.",
    ),
]
CpuTime = Annotated[
    int,
    typer.Option(
        envvar="ROLLQ_JOB_CPU_TIME",
        min=0,
        metavar="SECONDS",
        help="CPU time that a process of a job may take (0 = no limit).",
    ),
]
OpenFiles = Annotated[
    int,
    typer.Option(
        envvar="ROLLQ_JOB_OPEN_FILES",
        min=0,
        metavar="N",
        help="Files that a process of a job may have open (0 = no limit).",
    ),
]
DiskSize = Annotated[
    str,
    typer.Option(
        "--disk",
        envvar="ROLLQ_JOB_DISK",
        metavar="SIZE",
        help="What a job may write to its directory: 500M, 20G (0 = no limit).",
    ),
]
Network = Annotated[
    bool | None,
    typer.Option(
        "--network/--no-network",
        help="Whether jobs may use the network.",
        show_default="on, but off with --sandbox strict",
    ),
]
JobUsers = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_JOB_USERS",
        metavar="FIRST-LAST",
        help="Run jobs as users of this range of ids, one a slot. Needs root.",
        show_default=False,
    ),
]
Cgroups = Annotated[
    bool,
    typer.Option(
        "--cgroups/--no-cgroups",
        help="Whether to use cgroups where the worker may make them.",
    ),
]
AllowRead = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Directory that jobs may read beside those of the system; may be repeated.",
    ),
]
AllowWrite = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Directory that jobs may write to beside their own; may be repeated.",
    ),
]


def sandbox_setup(params: dict[str, Any]) -> SandboxSetup:
    """The sandbox setup, from the parameters of the command.

    Raises:
        LocalError: BAD_OPTIONS for an invalid value.
    """
    from rollq.roles.worker.sandbox.layers import SandboxLevel, SandboxSetup

    required = params["require_layers"] or ()
    return SandboxSetup(
        SandboxLevel(params["sandbox"].value),
        tuple(one for part in required for one in part.split(",") if one),
        memory_bytes=amount(params["memory"], SIZES, "--memory"),
        pids_max=params["pids"],
        cpus=params["cpus"],
        cpu_s=params["cpu_time"],
        open_files=params["open_files"],
        disk_bytes=amount(params["disk"], SIZES, "--disk"),
        network=params["network"],
        users=_users(params["job_users"]),
        cgroups=params["cgroups"],
        readable=tuple(path.resolve() for path in params["allow_read"] or ()),
        writable=tuple(path.resolve() for path in params["allow_write"] or ()),
    )


def _users(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"--job-users {text!r} is not a range of user ids",
            "use FIRST-LAST: 70000-70003",
        )
    return int(first), int(last or first)
