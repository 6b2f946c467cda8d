"""Files packed as one ZIP, and untrusted ZIP archives unpacked with checks.

Names follow `rollq.base.names`. Nothing is extracted before the whole archive is checked: names,
kinds, offsets and declared sizes; and no entry inflates to more than it declares.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import Final

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import (
    ARCHIVE_ENTRIES_MAX,
    ARCHIVE_PACKED_BYTES_MAX,
    ARCHIVE_RATIO_MAX,
    ARCHIVE_SLACK_BYTES,
)
from rollq.base.names import NameTree, checked_name

ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)  # equal files give equal archives
UNIX: Final = 3
ENCRYPTED: Final = 0x01 | 0x40
ENTRY_MARK: Final = b"PK\x01\x02"
LOCAL_HEADER_BYTES: Final = 30
LOCAL_LENGTHS: Final = struct.Struct("<HH")  # of the name and of what follows it
LOCAL_LENGTHS_AT: Final = 26
# Other methods have no bound on the inflated size.
METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
READ_BYTES: Final = 64 * 1024


def pack(files: Iterable[tuple[str, bytes, int]], onto: bytes = b"") -> bytes:
    """A ZIP of files, each with name, content and mode, appended to those of the ZIP `onto`, which
    was made here; the names are valid."""
    packed = io.BytesIO(onto)
    with zipfile.ZipFile(packed, "a" if onto else "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in files:
            info = zipfile.ZipInfo(name, ZIP_TIME)
            info.create_system = UNIX
            info.external_attr = (stat.S_IFREG | (0o755 if mode & 0o100 else 0o644)) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def unpack(packed: bytes, bytes_max: int) -> dict[str, bytes]:
    """The files of a ZIP by name; folders are implied by the names.

    Raises:
        RemoteError: DECOMPRESSION_BOMB, if it is or declares too much; BAD_PAYLOAD, if it is broken
            or an entry has a name or kind that is refused.
    """
    if len(packed) > ARCHIVE_PACKED_BYTES_MAX:
        raise _bomb(f"it has {len(packed)} bytes, more than {ARCHIVE_PACKED_BYTES_MAX}")
    # Before parsing: an entry takes far more memory than room in the archive.
    if packed.count(ENTRY_MARK) > ARCHIVE_ENTRIES_MAX:
        raise _bomb(f"it has more than {ARCHIVE_ENTRIES_MAX} entries")
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            infos = archive.infolist()
            _check_sizes(infos, len(packed), bytes_max)
            _check_places(infos, packed, archive.start_dir)
            files = _checked_files(infos)
            return {info.filename: _read(archive, info) for info in files}
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError) as error:
        raise _broken(str(error)) from None
    except (ValueError, NotImplementedError, OverflowError) as error:
        raise _broken(str(error)) from None


def _check_sizes(infos: list[zipfile.ZipInfo], packed_bytes: int, bytes_max: int) -> None:
    if len(infos) > ARCHIVE_ENTRIES_MAX:
        raise _bomb(f"it has {len(infos)} entries, more than {ARCHIVE_ENTRIES_MAX}")
    total = sum(info.file_size for info in infos)
    if total > bytes_max:
        raise _bomb(f"it inflates to {total} bytes, more than {bytes_max}")
    if total > max(packed_bytes * ARCHIVE_RATIO_MAX, ARCHIVE_SLACK_BYTES):
        raise _bomb(f"it inflates more than {ARCHIVE_RATIO_MAX}-fold, to {total} bytes")


def _check_places(infos: list[zipfile.ZipInfo], packed: bytes, end: int) -> None:
    """Refuse overlapping entries, which could inflate to any size."""
    for info in sorted(infos, key=lambda one: one.header_offset, reverse=True):
        start = info.header_offset
        if start < 0 or start + LOCAL_HEADER_BYTES > end:
            raise _shared(info)
        name_bytes, extra_bytes = LOCAL_LENGTHS.unpack_from(packed, start + LOCAL_LENGTHS_AT)
        if start + LOCAL_HEADER_BYTES + name_bytes + extra_bytes + info.compress_size > end:
            raise _shared(info)
        end = start


def _checked_files(infos: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    tree = NameTree()
    files = []
    for info in infos:
        name = info.orig_filename  # `filename` ends at a NUL
        kind = stat.S_IFMT(info.external_attr >> 16)
        if name.endswith("/"):
            checked_name(name[:-1])
            if kind not in (0, stat.S_IFDIR) or info.file_size:
                raise _broken(f"the entry {name[:128]!a} is a folder and is not")
            continue
        tree.add(name)
        if kind not in (0, stat.S_IFREG):
            raise _broken(f"the entry {name[:128]!a} is a link or a device, not a plain file")
        if info.flag_bits & ENCRYPTED:
            raise _broken(f"the entry {name[:128]!a} is encrypted")
        if info.compress_type not in METHODS:
            raise _broken(f"the entry {name[:128]!a} is packed by method {info.compress_type}")
        files.append(info)
    return files


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    # In pieces: otherwise the module inflates everything, whatever was declared.
    content = bytearray()
    with archive.open(info) as file:
        while data := file.read(READ_BYTES):
            content += data
    if len(content) != info.file_size:
        raise _broken(f"the entry {info.filename[:128]!a} is not as long as declared")
    return bytes(content)


def _broken(why: str) -> RemoteError:
    return RemoteError(ErrorCode.BAD_PAYLOAD, f"the archive is refused: {why[:256]}")


def _bomb(why: str) -> RemoteError:
    return RemoteError(ErrorCode.DECOMPRESSION_BOMB, f"the archive is refused: {why}")


def _shared(info: zipfile.ZipInfo) -> RemoteError:
    return _bomb(f"the entry {info.orig_filename[:128]!a} shares bytes with another")
