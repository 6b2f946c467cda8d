"""The import table: who may import whom. Its picture is in docs/architecture.md.

A row is named by a package, or by a module where that is stricter; the longest name that fits
counts. What is not in a row is forbidden. A package may always import itself.
"""

from __future__ import annotations

CORE = ("base", "wire", "subjects", "raft", "grid", "policy")
SHELL = (*CORE, "security", "net", "gossip", "store", "history")
# What lies beside the roles is for all of them; a role never imports another role.
ANY_ROLE = (
    *(
        *SHELL,
        "roles.service",
        "roles.persist",
        "roles.process",
        "roles.redial",
        "roles.silence",
        "roles.refusals",
        "roles.offers",
        "roles.dialogue",
        "roles.access",
        "roles.login",
        "roles.door",
    ),
    "roles.blobs",
)

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "base": (),
    "leash": (),  # how a child ends with its parent
    "release": (),  # version and commit
    "values": ("base",),  # Python values as bytes
    "tasks": ("base",),  # the decorator: what an application imports must be light
    "pickled": ("tasks",),  # functions that no module registers
    "webhook": ("base", "tasks"),  # posts how jobs ended
    "celery": ("base", "tasks", "roles.client"),  # for code that knows Celery
    "dask": ("roles.client",),  # for code that knows Dask
    "wire": ("base", "raft.types"),  # members exchange raft's messages as frames
    "subjects": ("base",),
    "raft": ("base",),
    "grid": ("base", "subjects"),
    "policy": ("base", "subjects", "grid"),
    "store": ("base", "raft.types"),
    "security": ("base",),  # keys, tokens and certificates: bytes and files, no link
    "net": ("base", "wire", "security"),
    "gossip": ("base", "security", "net"),  # groups find each other
    "history": ("base", "wire.models", "grid.events", "store.disk"),
    "roles": SHELL,
    "roles.member": ANY_ROLE,
    "roles.worker": (*ANY_ROLE, "tasks", "values"),
    "roles.client": (*ANY_ROLE, "tasks", "values"),
    "roles.reader": ANY_ROLE,
    # A router is a client of its groups, for others.
    "roles.router": (*ANY_ROLE, "roles.client"),
    # A group in one file: from members that run or do not, and back.
    "backup": (*SHELL, "roles.member", "roles.reader", "roles.blobs"),
    # What is shown to people and programs, whoever shows it: the command line, or pages.
    "documents": (
        *CORE,
        *("gossip.map", "roles.client", "roles.member.status"),
        *("history.job_rows", "history.schema"),
    ),
    # Metrics as text, and traces; what is counted is counted where it happens, by base.counters.
    "observe": ("base",),
    # Pages and HTTP: a client of the grid in a process of its own.
    "web": (
        *("base", "wire", "subjects", "grid", "security", "net", "gossip.map"),
        *("documents", "observe", "roles.client", "roles.reader", "roles.member.status"),
        *("roles.service", "leash", "spark.pipeline.catalog", "spark.pipeline.tables"),
    ),
    "spark": (
        *("base", "subjects", "wire.models", "grid.events", "gossip.map", "history"),
        *("roles.client", "roles.reader", "tasks", "leash"),
    ),
    "pyspark_rollq": ("spark",),  # the name that Spark looks for
    "airflow": ("base", "roles.client"),  # an operator
    "prefect": ("base", "roles.client", "values"),  # a task runner
    # The name that Snakemake looks for.
    "snakemake_executor_plugin_rollq": ("base", "roles.client"),
    # A grid in this process, for the tests of those who use it.
    "local_grid": ("net.ports", "roles.client", "roles.member", "roles.worker"),
    "pytest_plugin": ("local_grid",),
    "joblib_backend": ("roles.client",),
    "cli": (*SHELL, "roles", "backup", "documents", "observe", "web", "spark", "leash", "release"),
    "__main__": ("cli",),
    "testing": (*SHELL, "roles", "backup", "documents", "observe", "web", "spark", "cli"),
    "": (
        "base",
        "tasks",
        "roles.client",
        "roles.reader",
        "local_grid",
    ),  # rollq/__init__.py: the public API
}

# These read no clock, no random, no socket and no file: inputs in, values out. So does whatever
# they import. The driver is among them because the simulator must be able to replay it: its
# clock, chance and disk are handed in.
PURE_PACKAGES = CORE
PURE_MODULES = (
    "gossip.codec",
    "gossip.following",
    "gossip.map",
    "roles.blobs.client_machine",
    "roles.blobs.server_machine",
    "roles.router.blob_machine",
    "roles.member.driver",
    "history.schema",
    "history.columns",
    "history.tables",
    "store.record",
)
PURE_FILE_NAME = "machine"

IMPURE_IMPORTS = frozenset(
    (
        *("asyncio", "concurrent", "multiprocessing", "queue", "sched", "signal", "threading"),
        *("http", "select", "selectors", "socket", "socketserver", "ssl", "urllib"),
        *("importlib", "os", "pathlib", "platform", "shutil", "subprocess", "tempfile"),
        *("datetime", "locale", "logging", "random", "secrets", "time", "uuid"),
        "pyspark",
    )
)
IMPURE_CALLS = frozenset(("open", "input", "print", "exec", "eval", "compile", "__import__"))

# What the core may use beyond the standard library.
CORE_NEEDS: dict[str, frozenset[str]] = {
    "": frozenset(("msgspec",)),
    "wire": frozenset(("msgspec", "zstandard", "brotli")),
    "history": frozenset(("msgspec", "zstandard")),  # events wait and are sealed compressed
}

MAY_PRINT = ("testing", "cli")


def row_of(inner: str) -> str:
    """The row for a module, given without the leading `rollq.`"""
    while inner and inner not in MAY_IMPORT:
        inner = inner.rpartition(".")[0]
    return inner


def is_within(inner: str, names: tuple[str, ...]) -> bool:
    """Whether a module is one of these, or inside one of them."""
    return any(inner == name or inner.startswith(name + ".") for name in names)


def is_pure(inner: str) -> bool:
    """Whether a module is named as one of the pure set."""
    head, _, last = inner.rpartition(".")
    return is_within(inner, (*PURE_PACKAGES, *PURE_MODULES)) or bool(
        head and last == PURE_FILE_NAME
    )


def as_markdown() -> str:
    """The table as docs/architecture.md shows it."""
    lines = ["| Package | May import |", "|---|---|"]
    for row, allowed in MAY_IMPORT.items():
        name = f"`{row}`" if row else "`rollq` itself"
        lines.append(f"| {name} | {' '.join(f'`{one}`' for one in allowed) or 'nothing of ours'} |")
    return "\n".join(lines)
