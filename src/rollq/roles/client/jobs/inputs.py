"""Reads the input files of jobs: small ones are embedded in the body, the others get a digest.
It blocks on disk IO, and so runs on threads for an event loop."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import JobId, guid_to_text
from rollq.base.jobs import BlobRef, CacheEntry
from rollq.base.limits import (
    BLOBS_PER_JOB_MAX,
    CACHE_ENTRIES_MAX,
    CLIENT_DIGESTS_MAX,
    CLIENT_READERS,
    FILE_NAME_PARTS_MAX,
    INLINE_BYTES_MAX,
)
from rollq.roles.client.answers import ArgumentTypeError
from rollq.roles.client.jobs.specs import (
    BYTES,
    CacheFile,
    JobFile,
    JobSpec,
    base64_bytes,
    check_names,
    inline_bytes,
)
from rollq.roles.client.jobs.supply import (
    InputBlob,
    SettledSpec,
    Stamp,
    changed,
    stamp_of,
    unreadable,
)
from rollq.wire.models import InputFile

READ_BYTES: Final = 1024 * 1024
EXECUTABLE: Final = 0o755
PLAIN: Final = 0o644


class Inputs:
    """Reads the input files of a client's jobs. A file that many jobs share is read once."""

    def __init__(self) -> None:
        self._readers = asyncio.Semaphore(CLIENT_READERS)
        self._digests: dict[tuple[Path, Stamp], Digest] = {}

    async def settle(self, spec: JobSpec) -> JobSpec:
        """The job with its files read; the spec itself if everything is embedded already.

        Raises:
            LocalError: BAD_OPTIONS if something does not exist, cannot be read or is not a file;
                BLOB_CORRUPT if it changes while it is read.
        """
        if not needs_reading(spec):
            return spec
        async with self._readers:
            return await asyncio.to_thread(self.read, spec)

    async def settle_all(self, specs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """The same for many jobs, several at a time; in order."""
        if not any(spec.files and needs_reading(spec) for spec in specs):
            return specs
        return await asyncio.gather(*map(self.settle, specs))

    def read(self, spec: JobSpec) -> SettledSpec:
        """Read a job's files. Runs on a thread."""
        found = list(_found(spec.files))
        check_names([one.name for one in found])
        inline = _inline(found, INLINE_BYTES_MAX - inline_bytes(spec, (one.name for one in found)))
        files: dict[str, InputFile] = {}
        blobs: dict[Digest, BlobRef] = {}
        pieces: dict[Digest, InputBlob] = {}
        caches: dict[str, None] = {}
        parents: list[tuple[JobId, str]] = []
        for one in found:
            if isinstance(one.given, JobFile):
                files[one.name] = _left_by(one.name, one.given)
                parents.append((one.given.job_id, "result"))
                continue
            if isinstance(one.given, CacheFile):
                caches[one.given.cache_id] = None
                files[one.name] = InputFile(one.name, one.given.cache_id)
                continue
            mode = EXECUTABLE if one.is_executable else msgspec.UNSET
            if one.name in inline:
                files[one.name] = InputFile(one.name, None, _content(one), mode=mode)
                continue
            ref = self._ref(one)
            blobs[ref.digest] = ref
            if isinstance(one.given, Path | bytes):
                pieces[ref.digest] = InputBlob(one.name, one.given, ref, one.stamp)
            files[one.name] = InputFile(
                one.name, digest=digest_to_text(ref.digest), size=ref.size, mode=mode
            )
        values = {name: getattr(spec, name) for name in JobSpec.__struct_fields__}
        program = files.get(spec.exec_name)
        if program is not None and (program.cache_id or program.mode is not msgspec.UNSET):
            values["options"] = {**spec.options, "ships_exec": True}
        if parents:
            after = (*spec.options.get("after", ()), *parents)
            values["options"] = {**values["options"], "after": after}
        return SettledSpec(
            **(values | {"files": files}),
            blobs=tuple(blobs.values()),
            pieces=pieces,
            caches=tuple(caches),
        )

    async def entries(self, files: Mapping[str, Any]) -> tuple[list[CacheEntry], list[InputBlob]]:
        """The entries of a cache, and the blobs to upload for it; nothing is embedded.

        Raises:
            LocalError: as `settle`.
        """
        async with self._readers:
            return await asyncio.to_thread(self._entries, files)

    def _entries(self, files: Mapping[str, Any]) -> tuple[list[CacheEntry], list[InputBlob]]:
        """Runs on a thread."""
        found = list(_found(files, CACHE_ENTRIES_MAX, "one cache"))
        check_names([one.name for one in found])
        entries: list[CacheEntry] = []
        pieces: dict[Digest, InputBlob] = {}
        for one in found:
            ref = self._ref(one)
            entries.append(CacheEntry(one.name, ref, EXECUTABLE if one.is_executable else PLAIN))
            if isinstance(one.given, Path | bytes):
                pieces[ref.digest] = InputBlob(one.name, one.given, ref, one.stamp)
        return entries, list(pieces.values())

    def _ref(self, found: _Found) -> BlobRef:
        given = found.given
        if isinstance(given, CacheFile | JobFile):
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"the file {found.name!r} is in a cache, or an output of another job",
                "give its content",
            )
        if isinstance(given, BlobRef):
            return given
        if isinstance(given, bytes):
            return BlobRef(hashlib.sha256(given).digest(), len(given))
        key = (given, found.stamp)
        digest = self._digests.get(key)
        if digest is None:
            digest = _digest(found.name, given, found.stamp)
            if len(self._digests) >= CLIENT_DIGESTS_MAX:
                self._digests.clear()
            self._digests[key] = digest
        return BlobRef(digest, found.size)


def _left_by(name: str, given: JobFile) -> InputFile:
    output = given.name or msgspec.UNSET
    return InputFile(name, parent=guid_to_text(given.job_id), output=output)


def needs_reading(spec: JobSpec) -> bool:
    """Whether a job has files to read, or too many bytes for its body."""
    if not spec.files or type(spec) is SettledSpec:
        return False
    if not isinstance(spec.files, Mapping):
        raise ArgumentTypeError(
            ErrorCode.BAD_OPTIONS,
            f"files is {type(spec.files).__name__}",
            "give names and contents: files={'in.csv': pathlib.Path('data/in.csv')}",
        )
    size = 0
    for given in spec.files.values():
        if not isinstance(given, BYTES):
            return True
        size += len(given)
    return (
        size > INLINE_BYTES_MAX // 4
        and base64_bytes(size) + inline_bytes(spec, spec.files) > INLINE_BYTES_MAX
    )


class _Found(msgspec.Struct, frozen=True):
    """A file that has not been read yet."""

    name: str
    given: Path | bytes | BlobRef | CacheFile | JobFile
    size: int
    stamp: Stamp = ()
    is_executable: bool = False


def _found(
    files: Mapping[str, Any], count_max: int = BLOBS_PER_JOB_MAX, what: str = "one job"
) -> Iterator[_Found]:
    """All files; folders are expanded."""
    count = 0
    for name, given in files.items():
        for one in _found_under(name, given):
            count += 1
            if count > count_max:
                raise LocalError(
                    ErrorCode.BAD_OPTIONS,
                    f"{name}: more than {count_max} files for {what}",
                    "pack them into one file",
                )
            yield one


def _found_under(name: str, given: Any) -> Iterator[_Found]:
    if isinstance(given, BYTES):
        yield _Found(name, bytes(given), len(given))
    elif isinstance(given, BlobRef):
        yield _Found(name, given, given.size)
    elif isinstance(given, CacheFile | JobFile):
        yield _Found(name, given, 0)
    elif isinstance(given, os.PathLike):
        path = Path(given)
        try:
            status = path.stat()
            if not stat.S_ISDIR(status.st_mode):
                yield _plain(name, path, status)
                return
            above = "" if name == "." else f"{name}/"
            yield from _tree(above, path, FILE_NAME_PARTS_MAX)
        except OSError as error:
            raise unreadable(Path(error.filename or path), error) from None
    else:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"the file {name!r} is {type(given).__name__}",
            "give bytes, a pathlib.Path, a BlobRef, a CacheFile, or job.file(name)",
        )


def _tree(above: str, folder: Path, depth: int) -> Iterator[_Found]:
    """The files below a folder, sorted, so that the same tree makes the same job."""
    with os.scandir(folder) as entries:
        in_order = sorted(entries, key=lambda entry: entry.name)
    for entry in in_order:
        path = Path(entry.path)
        status = path.stat()
        if not stat.S_ISDIR(status.st_mode):
            yield _plain(above + entry.name, path, status)
        elif entry.is_symlink() or depth <= 1:
            why = "is a link to a folder" if entry.is_symlink() else "lies too deep"
            raise LocalError(
                ErrorCode.BAD_OPTIONS, f"{path} {why}", "give that folder under a name of its own"
            )
        else:
            yield from _tree(f"{above}{entry.name}/", path, depth - 1)


def _plain(name: str, path: Path, status: os.stat_result) -> _Found:
    if not stat.S_ISREG(status.st_mode):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{path} is neither a file nor a folder", "leave it out"
        )
    executable = bool(status.st_mode & stat.S_IXUSR)
    return _Found(name, path, status.st_size, stamp_of(status), is_executable=executable)


def _inline(found: list[_Found], room: int) -> frozenset[str]:
    """The names of the files that fit into the body; the smallest first."""
    chosen = []
    for one in sorted(found, key=lambda one: one.size):
        if isinstance(one.given, BlobRef | CacheFile | JobFile):
            continue
        room -= base64_bytes(one.size)
        if room < 0:
            break
        chosen.append(one.name)
    return frozenset(chosen)


def _content(found: _Found) -> bytes:
    """The content of a small file."""
    given = found.given
    if isinstance(given, bytes):
        return given
    assert isinstance(given, Path)
    try:
        with open(given, "rb") as file:
            content = file.read(found.size + 1)
            status = os.fstat(file.fileno())
    except OSError as error:
        raise unreadable(given, error) from None
    if stamp_of(status) != found.stamp or len(content) != found.size:
        raise changed(found.name, given)
    return content


def _digest(name: str, path: Path, stamp: Stamp) -> Digest:
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            while data := file.read(READ_BYTES):
                digest.update(data)
            status = os.fstat(file.fileno())
    except OSError as error:
        raise unreadable(path, error) from None
    if stamp_of(status) != stamp:
        raise changed(name, path)
    return digest.digest()
