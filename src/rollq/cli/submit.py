"""`rollq submit`: submits one job, an array of tasks, or a file of jobs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.names import NAME_CHARS_SHOWN
from rollq.base.traces import is_traceparent
from rollq.cli import following, needs, submit_options
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout
from rollq.cli.stdin import open_bytes
from rollq.cli.submit_checks import OPTIONS, check_like, check_needs, check_save, check_together

if TYPE_CHECKING:
    from rollq.roles.client.jobs.options import Options
    from rollq.roles.client.jobs.specs import CacheFile, Input, JobFile, JobSpec

EPILOG = """\b
Examples:
  rollq submit calcA 1 2 --wait
  rollq submit resize --file photo.png --wait --save ./results -- -s 50
  rollq submit train --dir ./data --file conf=a.toml --output '*.pt' --wait --save .
  rollq submit simulate --array 10000 --running-max 64 --wait
  rollq submit train --cpu 1.5 --memory 2G --gpu 1 --label zone=a --limit matlab
  rollq submit calcA --from-file jobs.csv --wait
  rollq submit --like 9ea19921 --wait -- 3 4
  rollq submit train --notify https://hooks.example.com/rollq --then 'mail ops'
"""

# Options of jobs whose names on the command line are others than those of the client.
OTHERWISE_CALLED = {"run_limit_soft": "soft_limit", "retry_exit_codes": "retry_exit_code"}
FED = ("args", "file", "folder", "cached", "input_", "output", "payload")  # inputs of a job


@dataclass(slots=True)
class SubmitOrder:
    """The parsed command line."""

    exec_name: str
    args: list[str]
    files: dict[str, Input]
    outputs: list[str]
    payload: bytes | None
    job_id: str
    key: str
    count: int
    running_max: int
    source: Path | None
    like: str
    header: bool
    batch_key: str
    options: Options
    followers: list[JobSpec]
    servers: str
    client_id: str
    timeout_s: float
    wait: bool
    wait_s: float | None
    save: Path | None
    exit_code: submit_options.ExitRule
    as_json: bool


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(submit)


def submit(
    ctx: typer.Context,
    exec_name: Annotated[
        str, typer.Argument(metavar="EXEC", help="Program or @task function to run.")
    ] = "",
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")] = None,
    file: submit_options.Files = None,
    folder: submit_options.Dirs = None,
    cached: submit_options.Cached = None,
    input_: submit_options.Inputs = None,
    output: submit_options.Outputs = None,
    payload: submit_options.Payload = None,
    array: submit_options.Array = None,
    running_max: submit_options.RunningMax = 0,
    from_file: submit_options.FromFile = None,
    header: submit_options.Header = False,
    batch: submit_options.BatchKey = "",
    like: submit_options.Like = "",
    queue: submit_options.Queue = "",
    priority: submit_options.Priority = 0,
    delay: submit_options.Delay = 0,
    max_attempts: submit_options.MaxAttempts = 0,
    run_limit: submit_options.RunLimit = 0,
    soft_limit: submit_options.SoftLimit = 0,
    retry_exit_code: submit_options.RetryExitCodes = None,
    lease: submit_options.Lease = 0,
    result_ttl: submit_options.ResultTtl = 0,
    expire: submit_options.Expire = 0,
    worker: submit_options.Worker = "",
    cpu: needs.Cpu = "",
    memory: needs.Memory = "",
    gpu: needs.Gpu = "",
    resource: needs.Resource = None,
    label: needs.Label = None,
    limit: needs.Limit = None,
    sticky_key: needs.StickyKey = "",
    after: needs.After = None,
    then: following.Then = None,
    notify: following.Notify = None,
    notify_key: following.NotifyKey = "",
    env: submit_options.Env = None,
    secret: submit_options.Secrets = None,
    traceparent: submit_options.Traceparent = "",
    job_id: submit_options.OwnId = "",
    key: submit_options.Key = "",
    client_id: submit_options.ClientId = "",
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for the result.")] = False,
    wait_timeout: submit_options.WaitTimeout = 0,
    save: submit_options.Save = None,
    exit_code: submit_options.ExitCode = submit_options.ExitRule.PROGRAM,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Submit one job, an array of tasks, or a file of jobs.

    Returns once the jobs are on the disks of a majority of members. Large files are uploaded first
    unless already stored; an interrupted upload resumes. Without --wait it prints the id of the
    job or array, or of every job of a file. With --json: one document, or one for each result.

    With --wait a single job behaves as if its program ran here: output is streamed, and the exit
    code is the program's, or 128 + n for signal n; 124: --wait-timeout expired, the job is still in
    the grid; 125: dead; 126: refused by its worker, as for a missing input or a bad variable; 143:
    cancelled, or killed by SIGTERM; 1: failed without an exit code. With several jobs, output is
    not shown, and the exit code is 1 unless all succeeded and all output of --save is saved.
    """
    if code := _carried_out(ctx):
        raise typer.Exit(code)


def _carried_out(ctx: typer.Context) -> int:
    from rollq.cli.service import run
    from rollq.cli.submitting import carry_out
    from rollq.cli.tracing import open_tracer

    open_tracer("rollq-submit")
    _check(ctx)
    return run(carry_out(_order(ctx)))


def _check(ctx: typer.Context) -> None:
    """Refuse conflicting options."""
    asked = ctx.params
    if asked["like"]:
        check_like(ctx)
    else:
        check_together(
            asked["exec_name"],
            asked["from_file"],
            is_fed=any(asked[name] for name in FED),
            array=asked["array"],
            own=asked["job_id"] or asked["key"],
        )
    check_needs(ctx)
    check_save(asked["save"])


def _order(ctx: typer.Context) -> SubmitOrder:
    """Parse the command line, and check what needs no connection."""
    from rollq.cli.grid import job_ids

    asked = ctx.params
    if asked["job_id"]:
        job_ids([asked["job_id"]])
    args = asked["args"] or []
    return SubmitOrder(
        exec_name="" if asked["like"] else asked["exec_name"],
        args=[asked["exec_name"], *args] if asked["like"] and asked["exec_name"] else args,
        files=named_once(
            find_files(asked["file"], "--file"),
            find_files(asked["folder"], "--dir"),
            cached_files(asked["cached"]),
            left_files(asked),
        ),
        outputs=asked["output"] or [],
        payload=_read_payload(asked["payload"]),
        job_id=asked["job_id"],
        key=asked["key"],
        count=asked["array"] or 0,
        running_max=asked["running_max"],
        source=asked["from_file"],
        like=asked["like"],
        header=asked["header"],
        batch_key=asked["batch"],
        options=options_of(ctx),
        followers=following.asked_followers(asked),
        servers=asked["servers"],
        client_id=asked["client_id"],
        timeout_s=asked["timeout"],
        wait=asked["wait"],
        wait_s=asked["wait_timeout"] or None,
        save=asked["save"],
        exit_code=asked["exit_code"],
        as_json=asked["as_json"],
    )


def options_of(ctx: typer.Context) -> Options:
    """The job options, from the options of a command."""
    from rollq.cli.grid import queue_name

    wanted = {name: ctx.params.get(name) for name in OPTIONS} | {
        "queue": queue_name(ctx.params["queue"]),
        "run_limit_soft": ctx.params["soft_limit"],
        "retry_exit_codes": tuple(ctx.params["retry_exit_code"] or ()),
        "env": environment(ctx.params["env"] or []),
        "secrets": _secrets(ctx.params["secret"] or []),
        "traceparent": _traceparent(ctx) if "traceparent" in ctx.params else "",
        **needs.needs_of(ctx.params),
    }
    options = cast("Options", {name: value for name, value in wanted.items() if value})
    _check_options(options)
    return options


def _check_options(options: Options) -> None:
    """Refuse invalid values by the names that they have on the command line."""
    from rollq.roles.client.jobs.options import BadOptionError, job_options

    try:
        job_options(options)
    except BadOptionError as error:
        name = OTHERWISE_CALLED.get(error.option, error.option)
        raise error.called(f"--{name.replace('_', '-')}") from None


def environment(given: list[str]) -> dict[str, str]:
    """Environment variables by name; one without a value is copied from this process."""
    env: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals and name not in os.environ:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"the environment variable {name[:64]!r} is not set here",
                "set it, or use --env NAME=VALUE",
            )
        env[name] = value if equals else os.environ[name]
    return env


def _traceparent(ctx: typer.Context) -> str:
    """The parent span of the job. A value of the environment is ignored if it is invalid, or if the
    job may be resubmitted, which must be identical."""
    given: str = ctx.params["traceparent"]
    source = ctx.get_parameter_source("traceparent")
    if source is not None and source.name == "ENVIRONMENT":
        is_taken = not any(ctx.params[name] for name in ("job_id", "key", "batch", "payload"))
        return given if is_taken and is_traceparent(given) else ""
    return given


def _secrets(given: list[str]) -> dict[str, str]:
    """Names of secrets, by environment variable."""
    secrets: dict[str, str] = {}
    for one in given:
        variable, equals, name = one.partition("=")
        if not equals or variable in secrets:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"--secret {variable[:64]!r}",
                "write VARIABLE=SECRET once for each, as in --secret TOKEN=github",
            )
        secrets[variable] = name
    return secrets


def named_once(*given: Iterable[tuple[str, Input]]) -> dict[str, Input]:
    """The input files of all options, by name in the job's directory.

    Raises:
        LocalError: BAD_OPTIONS, if a name is given twice: one of its files would be left out.
    """
    files: dict[str, Input] = {}
    for name, one in chain.from_iterable(given):
        if name in files:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"the file name {name[:NAME_CHARS_SHOWN]!r} is there twice",
                "give each file a name of its own, as in --file NAME=PATH",
            )
        files[name] = one
    return files


def find_files(named: list[str] | None, option: str) -> Iterator[tuple[str, Path]]:
    """Generate local files or directories, with their names in the job's directory. They must
    exist and be readable."""
    for one in named or ():
        name, equals, path = one.partition("=")
        place = Path(path if equals else one)
        try:
            if place.is_dir() is not (option == "--dir"):
                place.stat()
                kind = "a directory: use --dir" if place.is_dir() else "not a directory: use --file"
                raise LocalError(ErrorCode.BAD_OPTIONS, f"{place} is {kind}", f"check {option}")
            os.close(os.open(place, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            raise LocalError(
                ErrorCode.BAD_OPTIONS, f"{place}: {error.strerror or error}", f"check {option}"
            ) from None
        yield name if equals else place.resolve().name, place


def cached_files(named: list[str] | None) -> Iterator[tuple[str, CacheFile]]:
    """Generate files of caches, with their names."""
    from rollq.roles.client.jobs.specs import CacheFile

    for one in named or ():
        cache_id, colon, name = one.partition(":")
        if not (cache_id and colon and name):
            hint = "write CACHE:NAME, as in dataset:a.csv"
            raise LocalError(ErrorCode.BAD_OPTIONS, f"--cached {one!r}", hint)
        yield name, CacheFile(cache_id)


def left_files(asked: dict[str, Any]) -> Iterator[tuple[str, JobFile]]:
    """Generate output files of other jobs, with their names in the job's directory."""
    from rollq.cli.ids import full_id
    from rollq.roles.client.jobs.specs import JobFile

    for one in asked["input_"] or ():
        name, equals, source = one.partition("=")
        named, colon, output = source.partition(":")
        if not (name and equals and named and colon and output):
            hint = "write NAME=ID:FILE, as in --input in.csv=1d0b4f2e:out.csv"
            raise LocalError(ErrorCode.BAD_OPTIONS, f"--input {one!r}", hint)
        yield name, JobFile(full_id(asked["servers"], asked["timeout"], named), output)


def _read_payload(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        if str(path) == "-":
            return open_bytes().read()
        return path.read_bytes()
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{path}: {error.strerror or error}", "check --payload"
        ) from None
