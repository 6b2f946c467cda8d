"""The simulated jobs: a body says how long it runs and how it ends, and the expected result follows
from job id and body, so that every result can be checked."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from rollq.base.ids import JobId
from rollq.base.jobs import BlobRef, Status
from rollq.base.needs import Amounts


class JobPlan(msgspec.Struct, array_like=True, frozen=True):
    """The execution of a job; its body is this as msgpack."""

    run_ms: int
    exit_code: int = 0
    start_fails_below: int = 0  # attempts below this number fail to start
    salt: int = 0
    inputs: tuple[int, ...] = ()  # numbers of its input blobs
    outputs: tuple[int, ...] = ()  # numbers of its output blobs
    bad_inputs: bool = False  # input names are not valid: it fails on any worker


BLOB_NUMBERS = 25  # exclusive; few, so that jobs share blobs

# Programs of the simulated jobs. The first worker always has all of them.
TOOLS = ("tool", "drill", "saw")


class WorkerOffer(NamedTuple):
    """The labels and resources of a simulated worker."""

    labels: tuple[str, ...]
    resources: Amounts


# The first worker has the first offer, which satisfies every job.
OFFERS = (
    WorkerOffer(("gpu", "zone=a"), (("cpu", 4_000), ("gpu", 2_000))),
    WorkerOffer(("zone=b",), (("cpu", 2_000),)),
    WorkerOffer(("gpu", "spot", "zone=b"), (("cpu", 1_500), ("gpu", 1_000))),
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
    """The program of a job; every kind of request uses all programs."""
    return TOOLS[job_id[-1] % len(TOOLS)]


def body_of(plan: JobPlan) -> bytes:
    """Encode a plan as a body."""
    return msgspec.msgpack.encode(plan)


def plan_of(body: bytes) -> JobPlan:
    """Decode the plan in a body."""
    return msgspec.msgpack.decode(body, type=JobPlan)


def status_of(plan: JobPlan) -> int:
    """The reported status of a program."""
    return Status.FAILED if plan.exit_code else Status.OK


def result_of(job_id: JobId, body: bytes) -> bytes:
    """The expected result of a job."""
    return hashlib.blake2b(job_id + body, digest_size=12).digest()


def blob(number: int) -> BlobRef:
    """A reference to content that is not stored."""
    return BlobRef(hashlib.sha256(number.to_bytes(4, "big")).digest(), number)


def inputs_of(body: bytes) -> tuple[BlobRef, ...]:
    """The input blobs of a job with this body."""
    return tuple(map(blob, plan_of(body).inputs))


def outputs_of(body: bytes) -> tuple[BlobRef, ...]:
    """The output blobs of a job with this body."""
    return tuple(map(blob, plan_of(body).outputs))
