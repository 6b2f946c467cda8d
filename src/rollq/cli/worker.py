"""`rollq worker`: runs a worker of a group."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.amounts import AGES_S, SIZES, amount, counted
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.needs import labels_of
from rollq.cli import sandboxing
from rollq.cli.credentials import given_credentials
from rollq.cli.logs import Level
from rollq.cli.options import EncryptedDisk, Json, LogFormatOption, LogLevel, UnsafeNoAuth
from rollq.cli.places import EXEC_DIR, LEGACY_EXEC_DIR, find_dirs

if TYPE_CHECKING:
    from rollq.observe.server import MetricsServer
    from rollq.roles.worker.node import WorkerNode
    from rollq.roles.worker.setup import NodeSetup
    from rollq.roles.worker.tracing import JobTraces

EPILOG = """\b
Examples:
  rollq worker 127.0.0.1 5000 --exec-dir ./bin
  rollq worker 127.0.0.1 5000 'job.assign.render.*' --exec-dir ./bin --slots 8
  rollq worker 127.0.0.1 5000 --app mytasks
  rollq worker 127.0.0.1 5000 --app mytasks --label zone=a --resource gpu=2
  rollq worker 127.0.0.1 5000 --exec-dir ./bin --sandbox strict --memory 2G --disk 10G
"""


ExecDir = Annotated[
    Path | None,
    typer.Option(
        envvar="ROLLQ_EXEC_DIR",
        metavar="DIR",
        help="Directory of the programs that jobs may run.",
        show_default="the legacy directory or ./exec, if it exists",
    ),
]
JobsDir = Annotated[
    Path | None,
    typer.Option(
        envvar="ROLLQ_JOBS_DIR",
        metavar="DIR",
        help="Parent of the working directories of jobs.",
        show_default="./jobs",
    ),
]
Apps = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE", help="Python module with @task functions; may be repeated."),
]
Name = Annotated[
    str, typer.Option(envvar="ROLLQ_WORKER_NAME", metavar="NAME", help="Name of the worker.")
]
Slots = Annotated[
    int,
    typer.Option(
        envvar=["ROLLQ_SLOTS", "WORKER_MAX_PAR"], min=1, metavar="N", help="Jobs to run at once."
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        envvar="ROLLQ_LABELS",
        metavar="NAME[=VALUE],…",
        help="Labels that jobs may require: zone=a, ssd; may be repeated.",
        show_default="none",
    ),
]
Resources = Annotated[
    list[str] | None,
    typer.Option(
        "--resource",
        envvar="ROLLQ_RESOURCES",
        metavar="NAME=AMOUNT,…",
        help="Resources that jobs may use: gpu=2, memory=8G; may be repeated.",
        show_default="the CPUs and the memory of the machine",
    ),
]
CpuCap = Annotated[
    float,
    typer.Option(
        envvar=["ROLLQ_CPU_CAP", "WORKER_CPU_CAP"],
        metavar="SHARE",
        help="Run one job at a time above this CPU load: 0.10 to 0.95 (1 = no cap).",
    ),
]
Ahead = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Prefetch up to N short jobs."),
]
Drain = Annotated[
    float,
    typer.Option(
        "--drain", min=0, metavar="SECONDS", help="At a stop, wait this long for running jobs."
    ),
]
ShippedExecs = Annotated[
    bool,
    typer.Option(
        "--allow-shipped-execs",
        envvar="ROLLQ_ALLOW_SHIPPED_EXECS",
        help="Run programs shipped with jobs: anyone who may submit can run any code.",
    ),
]
PassEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--pass-env",
        envvar="ROLLQ_PASS_ENV",
        metavar="NAME,…",
        help="Environment variables passed on to jobs; PREFIX_* matches all with that prefix.",
    ),
]
VaultDir = Annotated[
    Path | None,
    typer.Option(
        "--vault",
        resolve_path=True,
        envvar="ROLLQ_VAULT",
        metavar="DIR",
        help="Secrets that jobs may name: one file each, mode 0600.",
        show_default="none",
    ),
]
VaultEnv = Annotated[
    str,
    typer.Option(
        "--vault-env",
        envvar="ROLLQ_VAULT_ENV",
        metavar="PREFIX_",
        help="Secrets that jobs may name: environment variables PREFIX_NAME.",
        show_default="none",
    ),
]
ExecDigestsFile = Annotated[
    Path | None,
    typer.Option(
        "--exec-digests",
        resolve_path=True,
        envvar="ROLLQ_EXEC_DIGESTS",
        metavar="FILE",
        help="Run only programs with a digest in this list (rollq exec digest).",
        show_default="any program",
    ),
]
ExecDigestsKey = Annotated[
    Path | None,
    typer.Option(
        "--exec-digests-key",
        resolve_path=True,
        envvar="ROLLQ_EXEC_DIGESTS_KEY",
        metavar="FILE",
        help="Public key that the list must be signed with (rollq exec sign).",
        show_default="unsigned",
    ),
]
BlobBytesMax = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_WORKER_BLOB_BYTES_MAX",
        metavar="SIZE",
        help="Cache at most this much of unused input files: 500M, 20G.",
    ),
]
BlobAge = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_WORKER_BLOB_AGE",
        metavar="AGE",
        help="Delete cached input files this long after last use: 12h, 7d.",
    ),
]
MoreServers = Annotated[
    str,
    typer.Option(
        "--servers",
        "-s",
        metavar="HOST:PORT,…",
        help="Further members to connect to.",
        show_default=False,
    ),
]
WorkerState = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="State directory of this worker; never shared.",
        show_default="./state/worker-NAME or ./state/worker",
    ),
]
Http = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_WORKER_HTTP",
        metavar="[HOST:]PORT",
        help="Also serve /metrics and /healthz there (0 = any free port).",
        show_default="no metrics",
    ),
]
PORT_MAX = 65_535


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(worker)


def worker(
    ctx: typer.Context,
    host: Annotated[str, typer.Argument(metavar="HOST", help="Host of a member.")],
    port: Annotated[
        int, typer.Argument(metavar="PORT", min=1, max=65_535, help="Port of that member.")
    ],
    pattern: Annotated[
        str,
        typer.Argument(help="Patterns of queues to serve, separated by commas.", metavar="PATTERN"),
    ] = "job.assign.>",
    exec_dir: ExecDir = None,
    jobs_dir: JobsDir = None,
    app: Apps = None,
    name: Name = "",
    slots: Slots = 4,
    cpu_cap: CpuCap = 0.75,
    label: Labels = None,
    resource: Resources = None,
    ahead: Ahead = 1_024,
    drain_s: Drain = 30.0,
    allow_shipped_execs: ShippedExecs = False,
    pass_env: PassEnv = None,
    vault: VaultDir = None,
    vault_env: VaultEnv = "",
    exec_digests: ExecDigestsFile = None,
    exec_digests_key: ExecDigestsKey = None,
    blob_bytes_max: BlobBytesMax = "16G",
    blob_age: BlobAge = "7d",
    servers: MoreServers = "",
    state: WorkerState = None,
    sandbox: sandboxing.SandboxMode = sandboxing.Strictness.BASIC,
    require_layers: sandboxing.RequireLayers = None,
    memory: sandboxing.Memory = "0",
    pids: sandboxing.Pids = 0,
    cpus: sandboxing.Cpus = 0.0,
    cpu_time: sandboxing.CpuTime = 0,
    open_files: sandboxing.OpenFiles = 0,
    disk: sandboxing.DiskSize = "0",
    network: sandboxing.Network = None,
    job_users: sandboxing.JobUsers = "",
    cgroups: sandboxing.Cgroups = True,
    allow_read: sandboxing.AllowRead = None,
    allow_write: sandboxing.AllowWrite = None,
    unsafe_no_auth: UnsafeNoAuth = False,
    require_encrypted_disk: EncryptedDisk = False,
    http: Http = "",
    log_level: LogLevel = Level.INFO,
    log_format: LogFormatOption = None,
    as_json: Json = False,
) -> None:
    """Run jobs of a group: programs of a directory, and Python functions.

    The first SIGTERM drains: no new jobs, running ones finish. The second kills running jobs.
    """
    from rollq.cli.logs import set_up_logs
    from rollq.cli.service import run
    from rollq.security.memory import close_memory
    from rollq.store.at_rest import check_encrypted

    setup = _setup(ctx.params, _addresses(ctx))
    setup.check()
    listen = metrics_address(http, unsafe_no_auth=unsafe_no_auth) if http else None
    if require_encrypted_disk:
        check_encrypted(setup.state_dir)
        check_encrypted(setup.jobs_dir)
    set_up_logs(ctx, name=setup.name)
    if vault is not None or vault_env:
        close_memory()
    run(_serve(setup, listen=listen, as_json=as_json))


def _addresses(ctx: typer.Context) -> tuple[str, ...]:
    """The members to connect to. What the command line names counts alone: the addresses of a file
    may be those of another group."""
    from rollq.net.dialer import join_address, split_address

    sources = {name: ctx.get_parameter_source(name) for name in ("host", "port", "servers")}
    typed = {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}
    others = _parts(ctx.params["servers"]) if "servers" in typed or not typed else []
    for one in others:  # they are checked now, because connecting is retried forever
        split_address(one)
    if typed == {"servers"} and others:
        return tuple(dict.fromkeys(others))
    return tuple(dict.fromkeys([join_address(ctx.params["host"], ctx.params["port"]), *others]))


def _setup(asked: dict[str, Any], addresses: tuple[str, ...]) -> NodeSetup:
    """The setup of the worker, from the parameters of the command."""
    from rollq.roles.worker.setup import NodeSetup

    exec_dir, jobs_dir, own_execs, cache_dir = find_dirs(asked["exec_dir"], asked["jobs_dir"])
    if exec_dir is None and not asked["app"] and not asked["allow_shipped_execs"]:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"no programs to run: neither {LEGACY_EXEC_DIR} nor ./{EXEC_DIR} is a directory",
            "give --exec-dir with programs, --app with a module of @task functions, or "
            "--allow-shipped-execs for programs that come with their jobs",
        )
    name = asked["name"]
    state = asked["state"] or Path("state") / (f"worker-{name}" if name else "worker")
    return NodeSetup(
        addresses=addresses,
        patterns=tuple(_parts(asked["pattern"])),
        exec_dir=exec_dir.resolve() if exec_dir is not None else None,
        jobs_dir=jobs_dir.resolve(),
        state_dir=state.resolve(),
        name=name,
        slots=asked["slots"],
        cpu_cap=asked["cpu_cap"],
        labels=labels_of(one for part in asked["label"] or () for one in _parts(part)),
        resources=_amounts(asked["resource"] or ()),
        apps=tuple(asked["app"] or ()),
        ahead=asked["ahead"],
        drain_ms=int(asked["drain_s"] * 1000),
        allow_shipped_execs=asked["allow_shipped_execs"],
        pass_env=tuple(one for part in asked["pass_env"] or () for one in part.split(",") if one),
        vault=asked["vault"],
        vault_env=asked["vault_env"],
        exec_digests=asked["exec_digests"],
        exec_digests_key=asked["exec_digests_key"],
        blob_bytes_max=amount(asked["blob_bytes_max"], SIZES, "--blob-bytes-max"),
        blob_age_ms=amount(asked["blob_age"], AGES_S, "--blob-age") * 1_000,
        own_execs=own_execs,
        cache_dir=cache_dir,
        credentials=given_credentials(),
        sandbox=sandboxing.sandbox_setup(asked),
        unsafe_no_auth=asked["unsafe_no_auth"],
    )


def _amounts(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Parse names and amounts, such as gpu=2."""
    parts = [one.partition("=") for part in given for one in _parts(part)]
    for name, equals, _ in parts:
        if not equals:
            raise LocalError(
                ErrorCode.BAD_OPTIONS, f"--resource {name!r} has no amount", f"write {name}=1"
            )
    return tuple((name, given) for name, _, given in parts)


def _parts(text: str) -> list[str]:
    """Split at commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def metrics_address(http: str, *, unsafe_no_auth: bool) -> tuple[str, int]:
    """The address of `/metrics`, from `[HOST:]PORT`; the default host is this machine.

    Raises:
        LocalError: BAD_ADDRESS; or UNPROTECTED, if other machines could reach it.
    """
    from rollq.net.addresses import is_loopback

    host, _, port = http.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise LocalError(
            ErrorCode.BAD_ADDRESS, f"not [HOST:]PORT: {http[:128]!r}", "give a port: --http 9100"
        )
    if not is_loopback(host) and not unsafe_no_auth:
        raise LocalError(
            ErrorCode.UNPROTECTED,
            f"other machines would reach the metrics on {host} without TLS and logins",
            "leave out the host, or use --unsafe-no-auth",
        )
    return host, int(port)


def _traces(setup: NodeSetup) -> JobTraces | None:
    """Create spans for jobs, if an exporter is configured."""
    from rollq.cli.tracing import open_tracer

    tracer = open_tracer("rollq-worker")
    if tracer is None:
        return None
    from rollq.roles.worker.tracing import JobTraces

    return JobTraces(tracer, setup.name or gethostname())


async def _serve(setup: NodeSetup, *, listen: tuple[str, int] | None, as_json: bool) -> None:
    from rollq.cli.notify import ServiceNotes
    from rollq.observe.server import MetricsServer
    from rollq.roles.worker.node import WorkerNode
    from rollq.roles.worker.session import LinkState

    node = WorkerNode(setup, _traces(setup))
    with ServiceNotes().running() as notes:
        await node.start()
        try:
            server = None if listen is None else MetricsServer(*listen, node.families)
        except LocalError:
            await node.stop()
            raise
        _show_started(setup, node, server, as_json=as_json)
        notes.serving(lambda: _doing(node), is_ready=lambda: node.machine.link is LinkState.OPEN)
        try:
            await node.run()
        finally:
            notes.ending()
            if server is not None:
                server.stop()


def _doing(node: WorkerNode) -> str:
    """The status for a service manager."""
    from rollq.roles.worker.session import LinkState

    is_open = node.machine.link is LinkState.OPEN
    count = counted(node.machine.running_count, "job")
    return f"{'connected' if is_open else 'looking for a leader'}, {count} running"


def _show_started(
    setup: NodeSetup, node: WorkerNode, server: MetricsServer | None, *, as_json: bool
) -> None:
    from rollq.cli.output import write_json, write_line

    if as_json:
        write_json(
            {
                "event": "working",
                "name": setup.name,
                "slots": setup.slots,
                "patterns": list(setup.patterns),
                "servers": list(setup.addresses),
                "layers": list(node.layers),
            }
            | ({} if server is None else {"http": server.address})
        )
    else:
        name = setup.name or gethostname()
        where = ", ".join(setup.addresses)
        write_line(f"rollq worker {name}: {setup.slots} slots, looking for a member at {where}")
        write_line(f"layers of jobs: {', '.join(node.layers)}")
        if server is not None:
            write_line(f"metrics: http://{server.address}/metrics")
