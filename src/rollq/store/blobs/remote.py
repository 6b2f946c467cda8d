"""Blobs in a store that several machines share: S3, or any other that fsspec reaches by URL.

Blobs have the same names as in a local directory. Uploads are received and verified in a local
staging folder, so that one that was cut can be resumed and unverified bytes are never published.
In object stores a blob appears as a whole when its upload is completed; elsewhere it is written
under another name and renamed. Needs the extra `rollq[s3]`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rollq.base.digests import Digest
from rollq.base.errors import DialError, DiskError, ErrorCode, LocalError, RollqError
from rollq.base.limits import BLOB_ROOM_BYTES, BLOB_UPLOAD_BYTES, BLOB_UPLOAD_PARTS_MAX
from rollq.store.blobs.failures import blob_missing, explained
from rollq.store.blobs.partial import Part, Staging, sync_folder
from rollq.store.blobs.protocol import Leftover, StoredBlob
from rollq.store.blobs.staged import FOLDERS, PARTIAL, ROTTEN, Staged, digest_at, place_of

OBJECT_STORES: Final = frozenset(("s3", "s3a", "gs", "gcs", "abfs", "az", "adl", "oci"))
READ_AHEAD_BYTES: Final = 4 * 1024 * 1024
ASKED_AT_ONCE: Final = 8  # parallel requests for sizes
_TIMES: Final = ("LastModified", "mtime", "last_modified", "updated", "created")


class FsspecBlobs(Staged):
    """A `BlobStore` behind a URL. Used from any thread; not from a child after a fork."""

    def __init__(
        self,
        url: str,
        staging: Path,
        *,
        room_bytes: int = BLOB_ROOM_BYTES,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """`staging` is a local folder for uploads; `options` are passed to fsspec's file system.

        Raises:
            LocalError: BAD_SETUP if the extra is not installed; BAD_ADDRESS if the URL is wrong.
        """
        super().__init__(Staging(staging, room_bytes))
        self._url = url.rstrip("/")
        self._fs, self._root = _connect(url, {"use_listings_cache": False, **(options or {})})
        protocol = self._fs.protocol
        names = (protocol,) if isinstance(protocol, str) else protocol
        self._is_object_store = not OBJECT_STORES.isdisjoint(names)
        self._is_on_disk = "file" in names

    # --- the BlobStore protocol

    def size(self, digest: Digest) -> int | None:
        """The size of a blob in bytes; None if it is missing."""
        try:
            with self._explained("look at", place_of(digest)):
                return int(self._fs.info(self._place(digest))["size"])
        except FileNotFoundError:
            return None

    def missing(self, digests: Iterable[Digest]) -> list[Digest]:
        """The digests of which the store has no blob; several are looked up in parallel."""
        wanted = list(digests)
        with ThreadPoolExecutor(ASKED_AT_ONCE, "rollq-blobs") as pool:
            sizes = pool.map(self.size, wanted)
            return [one for one, size in zip(wanted, sizes, strict=True) if size is None]

    def open(self, digest: Digest) -> RemoteReader:
        """Open a blob for reading."""
        try:
            with self._explained("open", place_of(digest)):
                file = self._fs.open(
                    self._place(digest),
                    "rb",
                    block_size=READ_AHEAD_BYTES,
                    cache_type="readahead",
                )
                return RemoteReader(self, digest, file)
        except FileNotFoundError:
            raise blob_missing(digest) from None

    def path(self, digest: Digest) -> Path | None:
        """None: there is no local file to link to."""
        return None

    def remove(self, digest: Digest) -> None:
        """Remove a blob."""
        with contextlib.suppress(FileNotFoundError), self._explained("remove", place_of(digest)):
            self._fs.rm_file(self._place(digest))

    def digests(self, start: int = 0) -> Iterator[StoredBlob]:
        """All blobs, one folder after the other: a listing of a million would fill the memory."""
        there = self._folders()
        for folder in (*FOLDERS[start:], *FOLDERS[:start]):
            for name, info in self._list(folder) if folder in there else ():
                digest = digest_at(folder, name)
                if digest is not None:
                    yield StoredBlob(digest, int(info["size"]), _mtime_ms(info))

    def set_aside(self, digest: Digest) -> None:
        """Move a corrupt blob to `rotten/`."""
        with contextlib.suppress(FileNotFoundError), self._explained("set aside", place_of(digest)):
            self._move(self._place(digest), f"{ROTTEN}/{digest.hex()}")

    def leftovers(self) -> Iterator[Leftover]:
        """Partial uploads, local and remote, and corrupt blobs."""
        for name, status in self._staging.files():
            yield _staged(name, status)
        yield from self._set_by()

    def sweep(self, before_ms: int) -> list[Leftover]:
        """Remove old leftovers. Incomplete multipart uploads in S3 are left to its lifecycle
        rules."""
        gone = [_staged(*one) for one in self._staging.sweep(before_ms)]
        for one in list(self._set_by()):
            if one.mtime_ms < before_ms:
                with contextlib.suppress(FileNotFoundError), self._explained("remove", one.name):
                    self._fs.rm_file(f"{self._root}/{one.name}")
                gone.append(one)
        return gone

    def close(self) -> None:
        """Does nothing: fsspec shares its connections between all users."""

    # --- helpers

    def _publish(self, digest: Digest, part: Part) -> None:
        if self.size(digest) != part.size:
            try:
                with self._explained("store", place_of(digest)):
                    if self._is_object_store:
                        self._upload(self._place(digest), part)
                    else:
                        self._write_and_move(digest, part)
            except FileNotFoundError as error:
                raise DiskError(
                    ErrorCode.DISK_FAILED,
                    f"there is nothing at {self._url} to store blobs in",
                    "make the bucket or folder, or correct the URL",
                ) from error
            found = self.size(digest)
            if found != part.size:
                raise DiskError(
                    ErrorCode.DISK_FAILED,
                    f"{self._url}/{place_of(digest)} has {found} bytes after {part.size} were sent",
                    "check the store",
                )
        part.discard()

    def _upload(self, target: str, part: Part) -> None:
        """Upload a part, which becomes visible when it is completed; an error must not complete
        it."""
        block = max(BLOB_UPLOAD_BYTES, -(-part.size // BLOB_UPLOAD_PARTS_MAX))
        file = self._fs.open(target, "wb", block_size=block, autocommit=False)
        try:
            for piece in part.pieces():
                file.write(piece)
            file.close()
            file.commit()
        except BaseException:
            with contextlib.suppress(Exception):
                file.discard()
            raise

    def _write_and_move(self, digest: Digest, part: Part) -> None:
        name = f"{PARTIAL}/{digest.hex()}-{secrets.token_hex(8)}"
        target = f"{self._root}/{name}"
        try:
            self._fs.makedirs(f"{self._root}/{PARTIAL}", exist_ok=True)
            with self._fs.open(target, "wb") as file:
                for piece in part.pieces():
                    file.write(piece)
                _sync(file)
            self._move(target, place_of(digest))
            if self._is_on_disk:
                for folder in (Path(self._place(digest)).parent, Path(self._root)):
                    sync_folder(folder)
        except BaseException:
            with contextlib.suppress(Exception):
                self._fs.rm_file(target)
            raise

    def _move(self, old: str, new: str) -> None:
        if not self._is_object_store:
            self._fs.makedirs(f"{self._root}/{new.rpartition('/')[0]}", exist_ok=True)
        self._fs.mv(old, f"{self._root}/{new}")

    def _place(self, digest: Digest) -> str:
        return f"{self._root}/{place_of(digest)}"

    def _set_by(self) -> Iterator[Leftover]:
        for folder in (PARTIAL, ROTTEN):
            for name, info in self._list(folder):
                yield Leftover(f"{folder}/{name}", int(info["size"]), _mtime_ms(info))

    def _folders(self) -> frozenset[str]:
        """The folders that exist, by one request instead of 256."""
        try:
            with self._explained("list", ""):
                rows = self._fs.ls(self._root, detail=True)
        except FileNotFoundError:
            return frozenset()
        return frozenset(str(row["name"]).rstrip("/").rpartition("/")[2] for row in rows)

    def _list(self, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
        try:
            with self._explained("list", folder):
                rows = self._fs.ls(f"{self._root}/{folder}", detail=True)
        except FileNotFoundError:
            return
        for info in sorted(rows, key=lambda row: str(row["name"])):
            if info["type"] == "file":
                yield str(info["name"]).rpartition("/")[2], info

    @contextlib.contextmanager
    def _explained(self, verb: str, name: str) -> Iterator[None]:
        """Raise errors of fsspec and the libraries below it, which share no base class, as ours.
        FileNotFoundError is left to the caller."""
        try:
            with explained(f"{verb} {self._url}/{name}"):
                try:
                    yield
                except FileNotFoundError as error:
                    raise _NotThereError from error
        except _NotThereError as error:
            raise FileNotFoundError(name) from error
        except RollqError:
            raise
        except Exception as error:
            raise DialError(
                ErrorCode.UNREACHABLE,
                f"cannot {verb} {self._url}/{name}: {error}",
                "check the address of the store, the credentials and the network",
            ) from error


class RemoteReader:
    """An open blob, with some read-ahead."""

    def __init__(self, store: FsspecBlobs, digest: Digest, file: Any) -> None:
        self._store = store
        self._digest = digest
        self._file = file
        file.seek(0, os.SEEK_END)
        self.size: int = file.tell()

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from `offset` on."""
        try:
            with self._store._explained("read", place_of(self._digest)):
                self._file.seek(offset)
                return bytes(self._file.read(length))
        except FileNotFoundError:
            raise blob_missing(self._digest) from None

    def close(self) -> None:
        """Close the blob. May be called again."""
        self._file.close()


class _NotThereError(Exception):
    """Carries FileNotFoundError past the translation of other errors."""


def _connect(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"blobs at {url} need fsspec, which is not installed",
            "pip install 'rollq[s3]'",
        ) from error
    try:
        fs, root = url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise LocalError(
            ErrorCode.BAD_ADDRESS,
            f"no blobs can be kept at {url!r}: {error}",
            "use a URL such as s3://bucket/folder, and install what it needs: 'rollq[s3]'",
        ) from error
    return fs, str(root).rstrip("/")


def _mtime_ms(info: Mapping[str, Any]) -> int:
    for name in _TIMES:
        value = info.get(name)
        if isinstance(value, int | float):
            return int(value * 1000)
        if isinstance(value, datetime):
            at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return int(at.timestamp() * 1000)
    return time.time_ns() // 1_000_000  # a file without a time is never treated as old


def _staged(name: str, status: os.stat_result) -> Leftover:
    return Leftover(f"staging/{name}", status.st_size, status.st_mtime_ns // 1_000_000)


def _sync(file: Any) -> None:
    """Sync a file of a local file system, so that its bytes are on disk before it is renamed."""
    file.flush()
    try:
        fd = file.fileno()
    except (AttributeError, OSError):
        return
    os.fsync(fd)
