"""Whether the system encrypts files below a path on disk."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from rollq.base.errors import ErrorCode, LocalError

GET_POLICY: Final = 0xC0096616  # of the encryption of a directory by its file system, on Linux
POLICY: Final = struct.Struct("<Q24x")
ENCRYPTING: Final = ("ecryptfs", "fuse.gocryptfs", "fuse.cryfs", "fuse.encfs")
DEPTH_MAX: Final = 16  # of stacked devices


def check_encrypted(path: Path) -> None:
    """Raises LocalError BAD_SETUP, unless the system says that a path is encrypted."""
    if not encryption_of(path):
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"{path} is not on an encrypted file system, as far as this system tells",
            "put it on LUKS or fscrypt, or leave out --require-encrypted-disk: volumes that are "
            "encrypted below this machine cannot be told from others",
        )


def encryption_of(
    path: Path, system: Path = Path("/sys"), mounts: Path = Path("/proc/self/mountinfo")
) -> str:
    """How a path is encrypted: `fscrypt`, `dm-crypt`, or the name of a file system that does it.
    Empty: not, or nothing tells.

    Args:
        path: It need not exist yet.
        system: The kernel's tree of devices.
        mounts: The kernel's table of mounts.
    """
    place = path.resolve()
    while not place.exists():
        place = place.parent
    if _has_policy(place):
        return "fscrypt"
    kind, source = _mount_of(place, mounts)
    if kind in ENCRYPTING:
        return kind
    devices = {os.stat(place).st_dev}
    if source.is_block_device():  # a file system of several volumes has a device of its own
        devices.add(os.stat(source).st_rdev)
    return "dm-crypt" if any(_is_crypt(system, device) for device in devices) else ""


def _has_policy(folder: Path) -> bool:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.ioctl(fd, GET_POLICY, bytearray(POLICY.pack(24)))
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _mount_of(place: Path, mounts: Path) -> tuple[str, Path]:
    """The kind of file system that a path is on, and its source."""
    found, kind, source = Path(), "", Path()
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return kind, source
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(before.split(" ")[4].replace("\\040", " "))
        # The last mount of a mount point is visible.
        if place.is_relative_to(point) and len(point.parts) >= len(found.parts):
            words = after.split(" ")
            found, kind, source = point, words[0], Path(words[1])
    return kind, source


def _is_crypt(system: Path, device: int) -> bool:
    name = f"{os.major(device)}:{os.minor(device)}"
    return _is_crypt_below((system / "dev/block" / name).resolve(), DEPTH_MAX)


def _is_crypt_below(folder: Path, depth: int) -> bool:
    """Whether a device, or all devices below it, encrypt."""
    try:
        if (folder / "dm/uuid").read_text().startswith("CRYPT-"):
            return True
    except OSError:
        pass
    if depth == 0 or not folder.is_dir():
        return False
    if (folder / "partition").exists():
        return _is_crypt_below(folder.parent, depth - 1)
    below = list((folder / "slaves").iterdir()) if (folder / "slaves").is_dir() else []
    return bool(below) and all(_is_crypt_below(one.resolve(), depth - 1) for one in below)
