"""Options of `rollq submit` for resources, labels, limits and dependencies."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from rollq.base.errors import ErrorCode, LocalError

# Resources that have their own option.
OWN: Final = ("cpu", "memory", "gpu")
NEEDS: Final = (*OWN, "resource", "label", "limit", "sticky_key", "after")

Cpu = Annotated[str, typer.Option(metavar="N", help="CPUs that the job uses: 1.5.")]
Memory = Annotated[str, typer.Option(metavar="SIZE", help="Memory that the job uses: 512M, 2G.")]
Gpu = Annotated[str, typer.Option(metavar="N", help="GPUs that the job uses.")]
Resource = Annotated[
    list[str] | None,
    typer.Option(
        "--resource",
        metavar="NAME=AMOUNT",
        help="Other resource of the worker that the job uses; may be repeated.",
    ),
]
Label = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="REQUIREMENT",
        help="Run only on a worker with this label: zone=a, zone!=a, ssd, !spot; may be repeated.",
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="KEY[=N]",
        help="Hold N tokens (default 1) of this limit while it runs (rollq limit); repeatable.",
    ),
]
StickyKey = Annotated[
    str,
    typer.Option(
        metavar="KEY",
        help="In queues with placement sticky: run jobs with the same key on the same worker.",
    ),
]

After = Annotated[
    list[str] | None,
    typer.Option(
        "--after",
        metavar="ID[:CONDITION]",
        help="Start only after this job or array succeeded (:ended = ended in any way, :failed = "
        "did not succeed); may be repeated.",
    ),
]


def needs_of(params: dict[str, Any]) -> dict[str, Any]:
    """Convert the options to those of the client."""
    resources = {name: params[name] for name in OWN if params[name]}
    for one in params["resource"] or []:
        name, equals, amount = one.partition("=")
        if not equals or name in resources:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"--resource {one[:64]!r}",
                "write NAME=AMOUNT once for each, as in --resource fpga=0.5",
            )
        resources[name] = amount
    return {
        "resources": resources,
        "labels": tuple(params["label"] or ()),
        "limits": tuple(params["limit"] or ()),
        "sticky_key": params["sticky_key"],
        "after": [_parent(params, one) for one in params.get("after") or ()],
    }


def _parent(params: dict[str, Any], text: str) -> tuple[bytes, str]:
    """Parse a dependency: the id, which may be short, and the condition."""
    from rollq.cli.ids import full_id

    named, _, condition = text.partition(":")
    return full_id(params["servers"], params["timeout"], named), condition or "ok"
