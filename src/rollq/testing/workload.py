"""What the simulated jobs are: a body says how long it runs and how it ends, and from job and body
follows the one right result, so that every delivered result can be checked."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from rollq.base.ids import JobId
from rollq.base.jobs import BlobRef, Status
from rollq.base.needs import Amounts


class JobPlan(msgspec.Struct, array_like=True, frozen=True):
    """How an execution of a job goes; the job's body is this as msgpack."""

    run_ms: int
    exit_code: int = 0
    start_fails_below: int = 0  # attempts below this number cannot be started
    salt: int = 0
    inputs: tuple[int, ...] = ()  # numbers of blobs that it needs
    outputs: tuple[int, ...] = ()  # and of those that it leaves
    bad_inputs: bool = False  # their names are wrong: it fails wherever it is prepared


BLOB_NUMBERS = 25  # blobs are numbered below this; few, so that many jobs refer to the same

# Programs of the simulated jobs. The first worker always has all of them.
TOOLS = ("tool", "drill", "saw")


class Offer(NamedTuple):
    """What a simulated worker has for jobs."""

    labels: tuple[str, ...]
    resources: Amounts


# The first worker always has the first: it can run whatever a job needs.
OFFERS = (
    Offer(("gpu", "zone=a"), (("cpu", 4_000), ("gpu", 2_000))),
    Offer(("zone=b",), (("cpu", 2_000),)),
    Offer(("gpu", "spot", "zone=b"), (("cpu", 1_500), ("gpu", 1_000))),
)
LABELS = ((), (), ("gpu",), ("zone=a",), ("!spot", "zone"), ("zone!=b",))
RESOURCES: tuple[Amounts, ...] = (
    (),
    (("cpu", 1_000),),
    (("cpu", 1_000), ("gpu", 500)),
    (("gpu", 1_000),),
    (("cpu", 3_000), ("gpu", 2_000)),
)


def tool_of(job_id: JobId) -> str:
    """The program of a job: of each kind of request some need each."""
    return TOOLS[job_id[-1] % len(TOOLS)]


def body_of(plan: JobPlan) -> bytes:
    """The body of a job with this plan."""
    return msgspec.msgpack.encode(plan)


def plan_of(body: bytes) -> JobPlan:
    """The plan that a body holds."""
    return msgspec.msgpack.decode(body, type=JobPlan)


def status_of(plan: JobPlan) -> int:
    """How the program's end is reported."""
    return Status.FAILED if plan.exit_code else Status.OK


def result_of(job_id: JobId, body: bytes) -> bytes:
    """The one right result of a job."""
    return hashlib.blake2b(job_id + body, digest_size=12).digest()


def blob(number: int) -> BlobRef:
    """A reference to content that is not kept; few numbers, so that many refer to the same."""
    return BlobRef(hashlib.sha256(number.to_bytes(4, "big")).digest(), number)


def inputs_of(body: bytes) -> tuple[BlobRef, ...]:
    """What a job with this body refers to when it is submitted."""
    return tuple(map(blob, plan_of(body).inputs))


def outputs_of(body: bytes) -> tuple[BlobRef, ...]:
    """What its execution refers to when it ends by itself."""
    return tuple(map(blob, plan_of(body).outputs))
