"""The life of a job as a table: (state, command) -> the states that the command may bring it to.

`None` means no record. Data only: handlers must comply with it (tests/properties checks every
applied command against it), and docs/lifecycle.md is drawn from it (`docs/make_lifecycle.py`). A
missing pair: the command does not change a job in that state.
"""

from __future__ import annotations

from typing import Final

from rollq.grid.commands import (
    AckJob,
    AckRun,
    AssignJob,
    AssignRun,
    AssignTask,
    AssignTasks,
    CancelJobs,
    CloseWorker,
    ConfirmResults,
    ConfirmRun,
    ExpireJobs,
    ExpireLeases,
    ForgetJobs,
    NackJob,
    OpenWorker,
    PurgeJobs,
    RedriveJobs,
    ReleaseJobs,
    SubmitBulk,
    SubmitJob,
    SubmitRun,
    UnpackBatch,
)
from rollq.grid.flow_commands import SettleChildren
from rollq.grid.state import ASSIGNED, BLOCKED, CANCELLED, DEAD, DELAYED, DONE, QUEUED, JobState

_LOST: Final = (QUEUED, DELAYED, DEAD, CANCELLED)  # states after a lost attempt

# States of a new job; it is cancelled at once if a parent has already failed.
_ACCEPTED: Final = (QUEUED, DELAYED, BLOCKED, CANCELLED)
_TOLD: Final = (QUEUED, DELAYED, CANCELLED)  # states of a job whose parents have ended

TABLE: Final[dict[tuple[JobState | None, type], tuple[JobState | None, ...]]] = {
    (None, SubmitJob): _ACCEPTED,
    (None, SubmitRun): _ACCEPTED,
    (None, SubmitBulk): _ACCEPTED,
    (None, UnpackBatch): _ACCEPTED,
    (None, AssignTask): (ASSIGNED,),  # a task of an array becomes a record when it starts
    (None, AssignTasks): (ASSIGNED,),
    (BLOCKED, AckJob): _TOLD,  # of a parent, as all of these
    (BLOCKED, AckRun): _TOLD,
    (BLOCKED, NackJob): _TOLD,
    (BLOCKED, ExpireLeases): _TOLD,
    (BLOCKED, CloseWorker): _TOLD,
    (BLOCKED, OpenWorker): _TOLD,
    (BLOCKED, ExpireJobs): _TOLD,
    (BLOCKED, CancelJobs): _TOLD,  # of a parent, or its own
    (BLOCKED, SettleChildren): _TOLD,  # if one entry could not settle all children
    (QUEUED, AssignJob): (ASSIGNED,),
    (QUEUED, AssignRun): (ASSIGNED,),
    (QUEUED, ExpireJobs): (DEAD,),
    (QUEUED, CancelJobs): (CANCELLED,),
    (DELAYED, ReleaseJobs): (QUEUED,),
    (DELAYED, ExpireJobs): (DEAD,),
    (DELAYED, CancelJobs): (CANCELLED,),
    (ASSIGNED, AckJob): (DONE, *_LOST),  # lost if its retry rule names the exit code
    (ASSIGNED, AckRun): (DONE, *_LOST),
    (ASSIGNED, NackJob): _LOST,
    (ASSIGNED, ExpireLeases): _LOST,
    (ASSIGNED, CloseWorker): _LOST,
    (ASSIGNED, OpenWorker): _LOST,  # of another incarnation
    (DONE, ForgetJobs): (None,),
    (DONE, ConfirmResults): (None,),  # beyond the bound on kept results, the oldest is deleted
    (DONE, ConfirmRun): (None,),
    (DEAD, RedriveJobs): (QUEUED,),
    (DEAD, UnpackBatch): (QUEUED,),
    (DEAD, PurgeJobs): (None,),
    (DEAD, ForgetJobs): (None,),
    (CANCELLED, ForgetJobs): (None,),
    (CANCELLED, ConfirmResults): (None,),
    (CANCELLED, ConfirmRun): (None,),
}


def is_allowed(old: JobState | None, command: type, new: JobState | None) -> bool:
    """Whether a command of this type may move a job from one state to another, or leave it."""
    return old == new or new in TABLE.get((old, command), ())


def mermaid() -> str:
    """The table as a diagram: one arrow per pair of states, labelled with its commands."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (old, command), targets in TABLE.items():
        for new in targets:
            arrows.setdefault((_node(old), _node(new)), []).append(command.__name__)
    lines = ["stateDiagram-v2"]
    for (old_node, new_node), names in arrows.items():
        lines.append(f"    {old_node} --> {new_node}: {', '.join(names)}")
    return "\n".join(lines)


def markdown() -> str:
    """The table as Markdown rows."""
    lines = ["| State | Command | Next |", "|---|---|---|"]
    for (old, command), targets in TABLE.items():
        nexts = ", ".join(_word(new) for new in targets)
        lines.append(f"| {_word(old)} | `{command.__name__}` | {nexts} |")
    return "\n".join(lines)


def _node(state: JobState | None) -> str:
    return "[*]" if state is None else _word(state)


def _word(state: JobState | None) -> str:
    return "none" if state is None else state.name.lower()
