"""Compares a flow in a file with the one that the group accepted under its name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from rollq.base.jobs import JobOptions
from rollq.grid.views import RawJobView
from rollq.roles.client.jobs.options import Options, job_options, stored_parents, subject_of
from rollq.roles.client.jobs.specs import JobFile, JobSpec
from rollq.subjects.grammar import SEPARATOR, fold
from rollq.subjects.queues import queue_of


def differences(specs: Iterable[JobSpec], known: Iterable[RawJobView], count: int) -> Iterator[str]:
    """Yield what differs, a phrase each. Jobs that the group has forgotten, and the content of
    files, are not compared.

    Args:
        specs: The jobs of the file.
        known: The jobs of the flow that the group still knows, with their parents.
        count: How many jobs the group accepted under the name.
    """
    in_file = {spec.key: spec for spec in specs}
    if len(in_file) != count:
        yield f"the file has {len(in_file)} jobs, and the flow {count}"
    for job in known:
        spec = in_file.get(job.key)
        if spec is None:
            yield f"[{job.key}] is not in the file"
        elif not job.is_changed and (what := _difference(spec, job)):
            yield f"[{job.key}] differs in {what}"


def _difference(spec: JobSpec, job: RawJobView) -> str:
    options = spec.options or Options()
    if spec.exec_name != job.exec_name:
        return "exec"
    if _place(spec, options) not in _places(job):
        return "queue or worker"
    parents = [(one.job_id, "result") for one in spec.files.values() if isinstance(one, JobFile)]
    waited_for = stored_parents([*options.get("after", ()), *parents])
    if {(one.job_id, one.condition) for one in waited_for} != {
        (one.job_id, one.condition) for one in job.parents
    }:
        return "after or inputs"
    if _own(job_options(options) or JobOptions()) != _own(job.options):
        return "options"
    request = job.request
    if request is None or request.is_cut or request.is_payload:
        return ""
    return "" if tuple(spec.args) == request.args else "args"


def _place(spec: JobSpec, options: Options) -> tuple[str, str]:
    """The queue and the worker that a job of the file names."""
    queue = queue_of(subject_of(spec.exec_name, options))
    return queue, fold(options.get("worker", ""))


def _places(job: RawJobView) -> tuple[tuple[str, str], ...]:
    """All ways to name the queue and the worker of a job: the last token of a queue may have been
    the name of a worker."""
    worker = fold(job.options.worker_name)
    place = job.queue, worker
    return (place, (f"{job.queue}{SEPARATOR}{worker}", "")) if worker else (place,)


def _own(options: JobOptions) -> JobOptions:
    """Without what is compared apart, and what the client finds out."""
    return msgspec.structs.replace(options, after=(), ships_exec=False, worker_name="")
