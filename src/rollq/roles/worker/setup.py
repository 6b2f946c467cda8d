"""What a worker process is told when it starts, and the checks on it."""

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
from rollq.roles.worker.sandbox.layers import SandboxSetup
from rollq.roles.worker.sealed_execs import SealedExecs
from rollq.security.credentials import NONE, Credentials
from rollq.security.exec_digests import ExecDigests
from rollq.subjects.queues import check_typed

CPU_CAP_OFF: Final = 1.0


@dataclass(slots=True, frozen=True)
class NodeSetup:
    """Where a worker finds its group, its programs and its own files."""

    addresses: tuple[str, ...]  # members, host:port; one is enough
    patterns: tuple[str, ...] = ("job.assign.>",)
    exec_dir: Path | None = None  # programs; None: functions only
    jobs_dir: Path = Path("jobs")  # a directory a job is made here
    state_dir: Path = Path("worker")  # identity, and results that the grid has not taken
    name: str = ""
    slots: int = 4
    cpu_cap: float = 0.75  # 0.10 to 0.95; 1: take jobs however busy the machine is
    apps: tuple[str, ...] = ()  # modules that register functions
    ahead: int = 1_024  # most jobs fetched beyond the slots while runs are short; 0: none
    drain_ms: int = 30_000  # how long a drain waits for what runs
    allow_shipped_execs: bool = False  # whether a program may come with its job
    pass_env: tuple[str, ...] = ()  # names of ours that jobs see too; PREFIX_*: all that begin so
    vault: Path | None = None  # one file a secret that jobs may name
    vault_env: str = ""  # variables of ours that begin so are secrets that jobs may name
    exec_digests: Path | None = None  # only programs with a digest of this list run
    exec_digests_key: Path | None = None  # which must be signed with this key
    blob_bytes_max: int = 16 * 1024**3  # kept of files that no job uses just now
    blob_age_ms: int = 7 * 24 * 3_600_000  # and for how long
    # As in a legacy worker, a directory is `jobs_dir/JobId`, and has a copy of the program, which
    # runs there. It costs a copy a job, and no directory is used again.
    own_execs: bool = False
    # As in a legacy worker: files `cache_dir/CacheId/name` are caches, and caches are there too.
    cache_dir: Path | None = None
    credentials: Credentials = NONE
    unsafe_no_auth: bool = False  # serve blobs to workers of other machines although unprotected
    labels: tuple[str, ...] = ()  # zone=a, gpu: what jobs may require
    # (name, amount) that jobs may need; CPUs and memory are found if they are not named.
    resources: tuple[tuple[str, str], ...] = ()
    sandbox: SandboxSetup = field(default_factory=SandboxSetup)  # what jobs cannot do

    def hidden(self) -> list[Path]:
        """What a job must not see, but for a directory of its own. Of the folder of credentials,
        in which programs may lie too, the files that are for their owner alone."""
        secret = [self.vault] if self.vault is not None else []
        if self.credentials.directory:
            files = Path(self.credentials.directory).iterdir()
            secret += [one for one in files if one.is_file() and not one.stat().st_mode & 0o077]
        return [self.state_dir, self.jobs_dir, *secret]

    def open_execs(self) -> SealedExecs | None:
        """What keeps to the list of digests; None: there is no list.

        Raises:
            LocalError: BAD_SETUP.
        """
        if self.exec_digests is None:
            return None
        return SealedExecs(ExecDigests(self.exec_digests, self.exec_digests_key))

    def check(self) -> None:
        """Raises LocalError BAD_SETUP or BAD_OPTIONS if something cannot be meant so."""
        name_bytes = len(self.name.encode(errors="replace"))
        in_hello = (*self.patterns[:1], *self.patterns)
        pattern_bytes = sum(len(pattern.encode(errors="replace")) for pattern in in_hello)
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
        """Labels and resources, which go into the hello as they are."""
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
