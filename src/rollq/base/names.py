"""Validation of names from outside: of files, programs and functions.

Everything that becomes a file name is checked here first: inputs, outputs, the entries of archives
and caches, on the way in and on the way out. A file name is relative, of plain parts with `/`
between them, and means the same on every file system: what one system would fold, strip or resolve
is refused on all of them. A valid name is safe to create below a directory; `rollq.store.safe_dir`
checks that no link is on the path.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import FILE_NAME_BYTES_MAX, FILE_NAME_PART_BYTES_MAX, FILE_NAME_PARTS_MAX

Parts: TypeAlias = tuple[str, ...]

NAME_CHARS_SHOWN: Final = 128  # of a refused name, in the error
NAMES_KEPT: Final = 1_024  # that were checked: jobs of a kind use the same ones

COMMAND_LINE: Final = "rollq-cli"  # the client id of commands that only read or administer
COMMAND_LINE_PREFIX: Final = "cli-"  # prefix of the ids of commands that submit

STDOUT_FILE: Final = "-"  # among the outputs of a job: its stdout

EXEC_NAME_CHARS_MAX: Final = 64
EXEC_NAME_HINT: Final = f"use up to {EXEC_NAME_CHARS_MAX} of a-z, A-Z, 0-9 and _ . -"
_EXEC_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{EXEC_NAME_CHARS_MAX}}}")

# Device names of Windows, valid in any directory and with any extension.
_DEVICE: Final = re.compile(
    r"(CON|PRN|AUX|NUL|CLOCK\$|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\..*)?"
)
# Writing that joins letters (Persian, Hindi, emoji) needs these two; file systems may ignore them.
_JOINERS: Final = "\u200c\u200d"
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))  # categories of Unicode
_UNSEEN_ASCII: Final = re.compile(r"[\x00-\x1f\x7f]")


@lru_cache(NAMES_KEPT)
def is_exec_name(name: str) -> bool:
    """Whether a program or function can have this name."""
    return _EXEC_NAME.fullmatch(name) is not None


@lru_cache(NAMES_KEPT)
def checked_name(name: str) -> Parts:
    """The parts of a file name.

    Raises:
        RemoteError: BAD_PAYLOAD, if it could lead anywhere but below a directory, or would mean
            something else on another file system.
    """
    try:
        name_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise _refused(name, "is not text") from None
    if name_bytes > FILE_NAME_BYTES_MAX:
        raise _refused(name, f"is longer than {FILE_NAME_BYTES_MAX} bytes")
    if name.startswith("/"):
        raise _refused(name, "is absolute")
    if "\\" in name:
        raise _refused(name, "holds a backslash")
    if ":" in name:
        raise _refused(name, "holds a colon, as a drive or a stream does")
    if _holds_unseen(name):
        raise _refused(name, "holds a NUL, a control or another character that is not seen")
    parts = tuple(name.split("/"))
    if len(parts) > FILE_NAME_PARTS_MAX:
        raise _refused(name, f"has more than {FILE_NAME_PARTS_MAX} parts")
    for part in parts:
        if why := _fault_of(part):
            raise _refused(name, why)
    if max(len(part.encode()) for part in parts) > FILE_NAME_PART_BYTES_MAX:
        raise _refused(name, f"has a part of more than {FILE_NAME_PART_BYTES_MAX} bytes")
    return parts


def checked_tree(names: Iterable[str]) -> list[Parts]:
    """The parts of the names of all files of a directory tree.

    Raises:
        RemoteError: BAD_PAYLOAD, if one is refused, or two of them cannot be beside each other.
    """
    tree = NameTree()
    return [tree.add(name) for name in names]


class NameTree:
    """Names of files that shall lie in one directory tree, wherever that is."""

    __slots__ = ("_files", "_folders")

    def __init__(self) -> None:
        self._files: dict[str, str] = {}  # folded name → name
        self._folders: dict[str, str] = {}

    def add(self, name: str) -> Parts:
        """The parts of one more name.

        Raises:
            RemoteError: BAD_PAYLOAD; the tree is as it was then.
        """
        parts = checked_name(name)
        key = _folded(name)
        if (other := self._files.get(key)) is not None:
            raise _refused(name, "is there twice" if other == name else _alike(other))
        if key in self._folders:
            raise _refused(name, "is both a file and a folder")
        folders: dict[str, str] = {}
        if len(parts) > 1:
            end = name.find("/")
            while end >= 0:
                folder, end = name[:end], name.find("/", end + 1)
                key_above = _folded(folder)
                if key_above in self._files:
                    raise _refused(
                        name, f"has {self._files[key_above]!a} above it, which is a file"
                    )
                if (other := self._folders.get(key_above, folder)) != folder:
                    raise _refused(name, _alike(other))
                folders[key_above] = folder
        self._folders.update(folders)
        self._files[key] = name
        return parts


def _holds_unseen(name: str) -> bool:
    if name.isascii():
        return _UNSEEN_ASCII.search(name) is not None
    return any(unicodedata.category(one) in _UNSEEN and one not in _JOINERS for one in name)


def _fault_of(part: str) -> str:
    """What is wrong with a part that has no forbidden characters; empty: nothing."""
    if not part:
        return "has an empty part"
    plain = part
    if not part.isascii():
        part = _without_joiners(part)
        plain = unicodedata.normalize("NFKC", part)
    if plain in ("", ".", ".."):
        return "has a part that is . or .., or is taken for it"
    if part[-1] in ". ":
        return "has a part that ends in a dot or a space"
    if _DEVICE.fullmatch(plain.upper()):
        return "has a part that is a device on Windows"
    return ""


def _folded(name: str) -> str:
    """A key that is equal for names that some file system does not distinguish."""
    if name.isascii():
        return name.lower()
    folded = unicodedata.normalize("NFD", _without_joiners(name)).casefold()
    return unicodedata.normalize("NFC", folded)


def _without_joiners(text: str) -> str:
    for joiner in _JOINERS:
        text = text.replace(joiner, "")
    return text


def _alike(other: str) -> str:
    return f"differs from {other[:NAME_CHARS_SHOWN]!a} only in case or in how it is encoded"


def _refused(name: str, why: str) -> RemoteError:
    return RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"the file name {name[:NAME_CHARS_SHOWN]!a} {why}",
        "use a relative path with / between plain names",
    )
