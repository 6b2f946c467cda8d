"""Known attacks by file names and archives. Each must be refused, with an error that names it.

The tables are data: what comes in is on the left, what it tries is on the right.
"""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Callable, Sequence

from rollq.base.limits import (
    ARCHIVE_ENTRIES_MAX,
    ARCHIVE_PACKED_BYTES_MAX,
    FILE_NAME_BYTES_MAX,
    FILE_NAME_PART_BYTES_MAX,
    FILE_NAME_PARTS_MAX,
)

DRIVE = "C:"  # apart, because whole paths of a machine are not allowed in here

NAMES: list[tuple[str, str]] = [
    ("", "the directory itself"),
    (".", "the directory itself"),
    ("./", "the directory itself"),
    ("..", "the directory above"),
    ("../", "the directory above"),
    ("../x", "one up"),
    ("../../../../etc/passwd", "up to the root"),
    ("a/../../x", "up, after a step down"),
    ("a/..", "the directory itself, by a detour"),
    ("a/../b", "a detour"),
    ("a/./b", "an empty step"),
    ("./a", "an empty step"),
    ("a/.", "a folder as a file"),
    ("a/", "a folder as a file"),
    ("a//b", "an empty part"),
    ("//", "the root"),
    ("/", "the root"),
    ("/etc/passwd", "absolute"),
    ("//server/share/x", "another machine"),
    ("///x", "absolute"),
    ("\\x", "absolute on Windows"),
    ("\\\\server\\share\\x", "another machine"),
    ("\\\\?\\C\\x", "a raw path of Windows"),
    ("\\\\.\\PhysicalDrive0", "a raw device of Windows"),
    ("..\\x", "one up on Windows"),
    ("a\\..\\..\\x", "up on Windows, after a step down"),
    ("a/..\\../x", "both kinds of slash"),
    ("a\\b", "a folder on Windows, a name elsewhere"),
    ("C:", "a drive"),
    ("C:x", "relative on a drive"),
    ("C:/x", "absolute on a drive"),
    (DRIVE.lower() + "\\windows\\x", "absolute on a drive"),
    ("a/C:/x", "a drive further down"),
    ("file:///etc/passwd", "a URL"),
    ("a.txt:hidden", "a stream beside the file"),
    ("a.txt::$DATA", "the file's own stream"),
    (":x", "a stream of the directory"),
    ("a\0b", "cut at the NUL by C"),
    ("../x\0.txt", "up, and cut at the NUL"),
    ("\0", "empty for C"),
    ("a\nb", "two lines in a log"),
    ("a\rb", "hides the start of a line"),
    ("\x1b[2Jx", "clears a terminal"),
    ("a\x7fb", "a delete"),
    ("a\x85b", "a next line of Latin-1"),
    ("a\u2028b", "a line separator"),
    ("invoice\u202egpj.exe", "shown backwards"),
    ("a\u2066b\u2069", "isolated in direction"),
    ("a\ufeffb", "a mark that is not seen"),
    ("a\u00adb", "a soft hyphen that is not seen"),
    ("a\u200bb", "a space that is not seen"),
    ("\u200d", "empty where joiners are ignored"),
    (".\u200c.", "one up where joiners are ignored"),
    ("a/.\u200d", "a step on the spot where joiners are ignored"),
    ("\uff0e\uff0e", "one up where wide letters are narrowed"),
    ("\u2025", "one up where letters are taken apart"),
    ("\uff0e\uff0e/x", "one up where wide letters are narrowed"),
    ("\ud800", "half a letter"),
    ("a/\udcff", "a byte that is not text"),
    ("CON", "the console"),
    ("con", "the console"),
    ("NUL", "nothing"),
    ("nul.txt", "nothing, with an extension"),
    ("a/NUL/b", "nothing, as a folder"),
    ("AUX.tar.gz", "a port, with two extensions"),
    ("PRN", "a printer"),
    ("COM1", "a port"),
    ("com9.log", "a port, with an extension"),
    ("COM0", "a port on some versions"),
    ("COM\u00b9", "a port by a raised digit"),
    ("LPT1", "a printer"),
    ("lpt\u00b3.txt", "a printer by a raised digit"),
    ("CONIN$", "the keyboard"),
    ("conout$", "the screen"),
    ("CLOCK$", "the clock"),
    ("NUL .txt", "nothing, with a space that is dropped"),
    ("\uff23\uff2f\uff2e", "the console in wide letters"),
    ("a.", "a dot that is dropped"),
    ("a...", "dots that are dropped"),
    ("...", "nothing but dots"),
    ("a ", "a space that is dropped"),
    ("..  ", "one up, once the spaces are dropped"),
    (".. /x", "one up, once the space is dropped"),
    ("a./b", "a folder whose dot is dropped"),
    (" ", "nothing but a space"),
    ("x" * (FILE_NAME_PART_BYTES_MAX + 1), "a part that is too long"),
    ("é" * 128, "a part that is too long in bytes"),
    ("a/" + "y" * 300, "a part that is too long further down"),
    ("/".join(["z" * 200] * 6), "too long"),
    ("a/" * (FILE_NAME_BYTES_MAX // 2) + "a", "too long, of short parts"),
    ("/".join("a" * (FILE_NAME_PARTS_MAX + 1)), "too deep"),
    ("../" * 300 + "etc/passwd", "up, and up, and up"),
]

TREES: list[tuple[Sequence[str], str]] = [
    (("a", "a"), "one file twice"),
    (("a", "A"), "one file where case is folded"),
    (("README", "readme"), "one file where case is folded"),
    (("d/x", "D/y"), "one folder where case is folded"),
    (("d/x", "D"), "a folder and a file where case is folded"),
    (("a", "a/b"), "a file and a folder"),
    (("a/b", "a"), "a folder and a file"),
    (("a/b/c", "a/b"), "a folder and a file further down"),
    (("A/b", "a"), "a folder and a file where case is folded"),
    (("straße", "STRASSE"), "one file where case is folded by Unicode"),
    (("\u00e9", "e\u0301"), "one file where letters are composed"),
    (("\u00c9", "e\u0301"), "one file where both is done"),
    (("\u212a", "k"), "one file: the sign of Kelvin is a k"),
    (("\u017f", "S"), "one file: the long s is an s"),
    (("\u03c3", "\u03c2"), "one file: two forms of sigma"),
    (("ab", "a\u200db"), "one file where joiners are ignored"),
    (("d\u0301/x", "D\u0301/y"), "one folder where case is folded"),
]


def zipped(*entries: tuple[str, bytes], **attributes: int) -> bytes:
    """An archive of entries, with attributes of their headers set as said."""
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w") as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in entries:
            info = zipfile.ZipInfo("x")
            info.filename = name  # as it is: the constructor would cut it at a NUL
            info.compress_type = zipfile.ZIP_DEFLATED
            for attribute, value in attributes.items():
                setattr(info, attribute, value)
            archive.writestr(info, content)
    return packed.getvalue()


def patched(data: bytes, old: bytes, new: bytes) -> bytes:
    """An archive in which some bytes are others; each place that has them."""
    assert old in data
    return data.replace(old, new)


def _slip(name: str) -> Callable[[], bytes]:
    return lambda: zipped((name, b"slipped"))


def _of_kind(mode: int) -> Callable[[], bytes]:
    return lambda: zipped(("entry", b"/etc/passwd"), external_attr=mode << 16, create_system=3)


def _lying_about_its_size() -> bytes:
    """Declares 10 bytes and inflates to a thousand times as much."""
    data = zipped(("entry", bytes(100_000)))
    return patched(data, struct.pack("<I", 100_000), struct.pack("<I", 10))


def _declaring_terabytes() -> bytes:
    data = zipped(("entry", bytes(1_000)))
    return patched(data, struct.pack("<I", 1_000), struct.pack("<I", 0xFFFF_FFF0))


def _overlapping() -> bytes:
    """Many names for the same packed bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("entry", bytes(1_000))
        (info,) = archive.infolist()
        for number in range(50):
            other = zipfile.ZipInfo(f"entr{number:x}")
            for field in ("header_offset", "compress_size", "file_size", "CRC", "compress_type"):
                setattr(other, field, getattr(info, field))
            archive.filelist.append(other)
    return packed.getvalue()


def _behind_its_extra_field() -> bytes:
    """The data of the first entry begin where the second one is, by the length of its extra."""
    data = bytearray(zipped(("first", b"1" * 50), ("other", b"2" * 50)))
    data[28:30] = struct.pack("<H", 40)
    return bytes(data)


def _too_many_entries() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(ARCHIVE_ENTRIES_MAX + 1):
            archive.writestr(zipfile.ZipInfo(str(number)), b"")
    return packed.getvalue()


def _by_method(method: int) -> Callable[[], bytes]:
    def make() -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as archive:
            archive.writestr("entry", bytes(100_000))
        return packed.getvalue()

    return make


def _two_names() -> bytes:
    """One name in the directory, another before the data."""
    data = zipped(("entry", b"1"))
    return data.replace(b"entry", b"../..", 1)


def _encrypted() -> bytes:
    data = bytearray(zipped(("entry", b"1")))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


ARCHIVES: list[tuple[Callable[[], bytes], str, str]] = [
    (_slip("../slip"), "../slip", "one up"),
    (_slip("a/../../slip"), "a/../../slip", "up, after a step down"),
    (_slip("/etc/slip"), "/etc/slip", "absolute"),
    (_slip("..\\slip"), "..", "one up on Windows"),
    (_slip(DRIVE + "\\slip"), "C:", "a drive"),
    (_slip("slip\0.txt"), "slip", "cut at the NUL"),
    (_slip("../slip/"), "../slip", "a folder one up"),
    (_slip("slip/nul"), "slip/nul", "a device"),
    (lambda: zipped(("a", b"1"), ("a", b"2")), "'a' is there twice", "one name twice"),
    (lambda: zipped(("a", b"1"), ("A", b"2")), "'A'", "one name where case is folded"),
    (lambda: zipped(("a", b"1"), ("a/b", b"2")), "'a/b'", "below a file"),
    (_of_kind(0o120777), "'entry' is a link", "a link as an entry"),
    (_of_kind(0o010644), "'entry' is a link or a device", "a FIFO as an entry"),
    (_of_kind(0o020644), "'entry' is a link or a device", "a device as an entry"),
    (_of_kind(0o040755), "'entry' is a link or a device", "a folder that is a file"),
    (lambda: zipped(("d/", b"data")), "'d/' is a folder", "a folder with content"),
    (lambda: zipped(("e", bytes(8 << 20))), "inflates", "zeros: a thousandfold"),
    (lambda: zipped(*((f"e{n}", bytes(1 << 20)) for n in range(9))), "inflates", "in parts"),
    (_lying_about_its_size, "entry", "inflates to more than it says"),
    (_declaring_terabytes, "inflates", "says that it inflates to 4 GiB"),
    (_overlapping, "shares bytes", "fifty entries, one content"),
    (_behind_its_extra_field, "'first' shares bytes", "data that begin in the next entry"),
    (_too_many_entries, "entries", "many empty entries"),
    (lambda: bytes(ARCHIVE_PACKED_BYTES_MAX + 1), "bytes", "large as it is"),
    (_by_method(zipfile.ZIP_BZIP2), "'entry' is packed by method 12", "packs a millionfold"),
    (_by_method(zipfile.ZIP_LZMA), "'entry' is packed by method 14", "packs without a bound"),
    (_two_names, "entry", "another name before the data than in the directory"),
    (_encrypted, "'entry' is encrypted", "encrypted"),
    (lambda: b"no zip at all", "zip", "not an archive"),
    (lambda: b"", "zip", "empty"),
    (lambda: zipped(("entry", b"1"))[:-10], "zip", "cut off"),
]

# Odd, and yet names like others: they land below the directory as they are.
HARMLESS: list[str] = [
    "a",
    "a/b.c",
    ".hidden",
    "..a",
    "...a",
    "a..b",
    "-rf",
    "~",
    "~root/x",
    "$HOME",
    "%2e%2e%2fx",
    "a b",
    " a",
    "a;rm -rf",
    "`id`",
    "*",
    "cond/conx",
    "null",
    "com10",
    "日本/語",
    "👩\u200d🔬.png",
    "wait…",
    "x" * FILE_NAME_PART_BYTES_MAX,
    "/".join("a" * FILE_NAME_PARTS_MAX),
]
