"""The options of a worker process, and their checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rollq.base.environ import is_pattern
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.limits import (
    AHEAD_MAX,
    APPS_MAX,
    CPU_CAP_MAX,
    CPU_CAP_MIN,
    PATTERNS_BYTES_MAX,
    PATTERNS_PER_WORKER_MAX,
    SLOTS_MAX,
    WORKER_NAME_BYTES_MAX,
)
from rollq.base.need_limits import OFFER_BYTES_MAX
from rollq.base.needs import labels_of, resources_of
from rollq.base.texts import check_utf8
from rollq.roles.worker.sandbox.layers import SandboxSetup
from rollq.roles.worker.sealed_execs import SealedExecs
from rollq.security.credentials import NONE, Credentials
from rollq.security.exec_digests import ExecDigests
from rollq.subjects.queues import check_typed

CPU_CAP_OFF: Final = 1.0


@dataclass(slots=True, frozen=True)
class NodeSetup:
    """The addresses, programs, directories and limits of a worker."""

    addresses: tuple[str, ...]  # members, host:port; one is enough
    patterns: tuple[str, ...] = ("job.assign.>",)
    exec_dir: Path | None = None  # programs; None: functions only
    jobs_dir: Path = Path("jobs")  # for the directories of jobs
    state_dir: Path = Path("worker")  # identity, and results that the grid has not taken
    name: str = ""
    slots: int = 4
    cpu_cap: float = 0.75  # 0.10 to 0.95; 1: no cap
    apps: tuple[str, ...] = ()  # modules that register functions
    ahead: int = 1_024  # maximum of prefetched jobs while runs are short; 0: none
    drain_ms: int = 30_000  # how long a drain waits for executions
    allow_shipped_execs: bool = False  # whether programs may be shipped with jobs
    pass_env: tuple[str, ...] = ()  # variables passed on to jobs; PREFIX_*: all with this prefix
    vault: Path | None = None  # a directory with one file for each secret
    vault_env: str = ""  # prefix of variables that are secrets
    exec_digests: Path | None = None  # only programs with a digest in this list run
    exec_digests_key: Path | None = None  # the key that must have signed the list
    blob_bytes_max: int = 16 * 1024**3  # bound of unused blobs
    blob_age_ms: int = 7 * 24 * 3_600_000  # maximal age of unused blobs
    # As in a legacy worker, a directory is `jobs_dir/JobId`, and the program is copied there and
    # runs there. It costs a copy for each job, and no directory is reused.
    own_execs: bool = False
    # As in a legacy worker: files `cache_dir/CacheId/name` are caches, and caches are written
    # there.
    cache_dir: Path | None = None
    credentials: Credentials = NONE
    unsafe_no_auth: bool = False  # serve blobs to workers of other hosts without TLS
    labels: tuple[str, ...] = ()  # zone=a, gpu: requirements of jobs are matched with them
    # (name, amount) for the needs of jobs; CPUs and memory are detected if they are not given.
    resources: tuple[tuple[str, str], ...] = ()
    sandbox: SandboxSetup = field(default_factory=SandboxSetup)

    def hidden(self) -> list[Path]:
        """Paths that jobs must not see, except for their own directories. From the folder of
        credentials, which may also hold programs, only the files that are private to their
        owner."""
        secret = [self.vault] if self.vault is not None else []
        if self.credentials.directory:
            files = Path(self.credentials.directory).iterdir()
            secret += [one for one in files if one.is_file() and not one.stat().st_mode & 0o077]
        return [self.state_dir, self.jobs_dir, *secret]

    def open_execs(self) -> SealedExecs | None:
        """The store of checked programs; None: there is no list of digests.

        Raises:
            LocalError: BAD_SETUP.
        """
        if self.exec_digests is None:
            return None
        return SealedExecs(ExecDigests(self.exec_digests, self.exec_digests_key))

    def check(self) -> None:
        """Raises LocalError BAD_SETUP or BAD_OPTIONS for invalid options."""
        check_utf8("name", self.name)
        for pattern in self.patterns:
            check_utf8("pattern", pattern)
        name_bytes = len(self.name.encode())
        in_hello = (*self.patterns[:1], *self.patterns)
        pattern_bytes = sum(len(pattern.encode()) for pattern in in_hello)
        for is_bad, what, hint in (
            (not self.addresses, "no address of a member", "give host:port"),
            (not 0 < self.slots <= SLOTS_MAX, f"{self.slots} slots", f"use 1 to {SLOTS_MAX}"),
            (not 0 <= self.ahead <= AHEAD_MAX, f"{self.ahead} ahead", f"use 0 to {AHEAD_MAX}"),
            (
                not (CPU_CAP_MIN <= self.cpu_cap <= CPU_CAP_MAX or self.cpu_cap == CPU_CAP_OFF),
                f"a CPU cap of {self.cpu_cap}",
                f"use {CPU_CAP_MIN} to {CPU_CAP_MAX}, or 1 for none",
            ),
            (
                not 0 < len(self.patterns) <= PATTERNS_PER_WORKER_MAX,
                f"{len(self.patterns)} patterns",
                f"use 1 to {PATTERNS_PER_WORKER_MAX}",
            ),
            (
                pattern_bytes > PATTERNS_BYTES_MAX,
                f"patterns of {pattern_bytes} bytes (the first counts twice)",
                f"use at most {PATTERNS_BYTES_MAX} bytes; name queues by a wildcard",
            ),
            (
                self.blob_bytes_max < 0 or self.blob_age_ms < 0,
                "a negative limit of cached files",
                "use 0 or more",
            ),
            (
                self.exec_digests_key is not None and self.exec_digests is None,
                "a key for a list of digests, and no list",
                "give --exec-digests, too",
            ),
            (
                self.exec_digests is not None and self.own_execs,
                "programs are copied into the directories of jobs, where they can be changed",
                "name --exec-dir and --jobs-dir: then they are not, and --exec-digests holds",
            ),
            (name_bytes > WORKER_NAME_BYTES_MAX, "a very long name", "shorten it"),
            (len(self.apps) > APPS_MAX, f"{len(self.apps)} apps", f"use up to {APPS_MAX}"),
            (
                self.exec_dir is not None and not self.exec_dir.is_dir(),
                f"the exec directory {self.exec_dir} "
                + (
                    "is no directory"
                    if self.exec_dir and self.exec_dir.exists()
                    else "is not there"
                ),
                "make it, or name another",
            ),
        ):
            if is_bad:
                raise LocalError(ErrorCode.BAD_SETUP, what, hint)
        self.sandbox.check(self.slots)
        self._check_offer()
        for name in self.pass_env:
            if not is_pattern(name):
                raise LocalError(
                    ErrorCode.BAD_OPTIONS,
                    f"no environment variable can be named {name[:64]!r}",
                    "pass on NAME, or PREFIX_* for all that begin so",
                )
        for pattern in self.patterns:
            check_typed(pattern)

    def _check_offer(self) -> None:
        """Check labels and resources, which go into the hello unchanged."""
        labels = labels_of(self.labels)
        named = resources_of(dict(self.resources))
        offer_bytes = sum(len(label) + 3 for label in labels)
        offer_bytes += sum(len(name) + len(str(amount)) + 6 for name, amount in named)
        if offer_bytes > OFFER_BYTES_MAX:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"labels and resources of {offer_bytes} bytes",
                f"use at most {OFFER_BYTES_MAX} bytes",
            )
