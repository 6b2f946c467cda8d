"""Staged jobs: sent in parts, and accepted at once when their batch is committed.

They are part of the wire and of the log: fields may be appended with a default, and nothing else
may change. Jobs are in columns, because members store them by the hundred thousand and read single
ones only when they are unpacked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat, starmap
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.jobs import BlobRef, BulkItem, JobOptions

SAME_BODY: Final = -1  # in place of a size, for a job to redrive with its present body
KEY_END: Final = "\0"  # between two keys of a column; no key has one
_ID: Final = Struct(f"{GUID_BYTES}s")
_MANY = Struct(f"{GUID_BYTES}s" * 256)


class StagedGroup(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Jobs that differ only in their columns. `bodies` are concatenated, with the lengths
    `sizes`."""

    queue: str  # on the wire: the subject that names it
    exec_name: str
    job_ids: bytes  # one behind another
    sizes: tuple[int, ...]
    bodies: bytes
    options: JobOptions | None = None
    caches: tuple[str, ...] = ()
    keys: str = ""  # with KEY_END between two of them; empty: no job has one
    blobs: tuple[tuple[BlobRef, ...], ...] = ()  # of each job; empty: no job needs any
    # Dead jobs to redrive, of any client: only ids and bodies are used.
    redrives: bool = False


class StagedPart(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A complete part of a batch, as counted by its client."""

    part: str
    count: int
    crc: int


def ids_of(column: bytes) -> Iterator[JobId]:
    """The ids of a column."""
    whole = len(column) - len(column) % _MANY.size
    many = _MANY.iter_unpack(memoryview(column)[:whole])  # twice as quick as one by one
    return chain.from_iterable(chain(many, _ID.iter_unpack(memoryview(column)[whole:])))


def bodies_of(group: StagedGroup) -> Iterator[bytes]:
    """The bodies of a group; nothing where there is SAME_BODY."""
    bodies, end = group.bodies, 0
    for size in group.sizes:
        begin, end = end, end + max(size, 0)
        yield bodies[begin:end]


def keys_of(group: StagedGroup) -> Sequence[str]:
    """The keys of a group, one a job."""
    return group.keys.split(KEY_END) if group.keys else [""] * len(group.sizes)


def items_of(group: StagedGroup) -> Iterator[BulkItem]:
    """The jobs of a group, one by one."""
    blobs = group.blobs or repeat(())
    columns = zip(ids_of(group.job_ids), bodies_of(group), blobs, keys_of(group), strict=False)
    return starmap(BulkItem, columns)


def join_keys(keys: Sequence[str]) -> str:
    """The column of keys."""
    return KEY_END.join(keys) if any(keys) else ""


def chunk_crc(groups: Iterable[StagedGroup]) -> int:
    """The checksum of one message: job ids, bodies and shared fields. The queue is excluded,
    because the leader normalises it."""
    crc = 0
    for group in groups:
        crc = crc32(group.exec_name.encode(), crc)
        crc = crc32(group.job_ids, crc)
        crc = crc32(group.bodies, crc)
        crc = crc32(group.keys.encode(), crc)
    return crc


def part_crc(crcs: Iterable[int]) -> int:
    """The checksum of a part, from those of its messages in order."""
    crc = 0
    for one in crcs:
        crc = crc32(one.to_bytes(4, "little"), crc)
    return crc
