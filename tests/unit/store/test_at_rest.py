"""Whether a path is encrypted, as the kernel would tell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.store import at_rest
from rollq.store.at_rest import check_encrypted, encryption_of


class Kernel:
    """Devices and file systems that are told of in files."""

    def __init__(self, folder: Path) -> None:
        self.system = folder / "sys"
        self.mounts = folder / "mounts"
        self.mounts.write_text("1 1 8:1 / / rw - ext4 /dev/none rw\n")
        self.place = folder / "state"
        self.place.mkdir()
        (self.system / "dev/block").mkdir(parents=True)

    def device(self, name: str, uuid: str = "", on: tuple[str, ...] = (), part: str = "") -> Path:
        folder = self.system / "devices" / part / name
        (folder / "slaves").mkdir(parents=True)
        if uuid:
            (folder / "dm").mkdir()
            (folder / "dm/uuid").write_text(uuid)
        if part:
            (folder / "partition").write_text("1")
        for other in on:
            (folder / "slaves" / other).symlink_to(self.system / "devices" / other)
        return folder

    def lies_on(self, folder: Path) -> None:
        device = os.stat(self.place).st_dev
        link = self.system / "dev/block" / f"{os.major(device)}:{os.minor(device)}"
        link.symlink_to(folder)

    def told(self, path: Path | None = None) -> str:
        return encryption_of(path or self.place, self.system, self.mounts)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """On which nothing is encrypted; whatever this machine's own disk is."""
    monkeypatch.setattr(at_rest, "GET_POLICY", 0)
    return Kernel(tmp_path)


def test_a_plain_disk_is_not_encrypted(kernel: Kernel) -> None:
    assert kernel.told() == ""
    kernel.lies_on(kernel.device("sda"))
    assert kernel.told() == ""


def test_a_device_that_encrypts(kernel: Kernel) -> None:
    kernel.lies_on(kernel.device("dm-0", "CRYPT-LUKS2-abc"))
    assert kernel.told() == "dm-crypt"
    assert kernel.told(kernel.place / "not" / "there" / "yet") == "dm-crypt"


def test_a_volume_on_devices_that_encrypt(kernel: Kernel) -> None:
    kernel.device("dm-0", "CRYPT-LUKS2-abc")
    kernel.device("dm-1", "CRYPT-LUKS2-def")
    kernel.lies_on(kernel.device("dm-2", "LVM-xyz", on=("dm-0", "dm-1")))
    assert kernel.told() == "dm-crypt"


def test_half_a_volume_is_not_enough(kernel: Kernel) -> None:
    kernel.device("dm-0", "CRYPT-LUKS2-abc")
    kernel.device("sda")
    kernel.lies_on(kernel.device("md0", on=("dm-0", "sda")))
    assert kernel.told() == ""


def test_a_partition_of_a_device_that_encrypts(kernel: Kernel) -> None:
    kernel.device("dm-0", "CRYPT-LUKS2-abc")
    kernel.lies_on(kernel.device("dm-0p1", part="dm-0"))
    assert kernel.told() == "dm-crypt"


def test_devices_in_a_circle_end(kernel: Kernel) -> None:
    folder = kernel.device("dm-0", on=("dm-0",))
    kernel.lies_on(folder)
    assert kernel.told() == ""


def test_a_file_system_that_encrypts(kernel: Kernel) -> None:
    with open(kernel.mounts, "a") as file:
        file.write(f"2 1 0:9 / {kernel.place} rw - ecryptfs /below rw\n")
    assert kernel.told() == "ecryptfs"
    with open(kernel.mounts, "a") as file:
        file.write(f"3 1 0:9 / {kernel.place} rw - tmpfs tmpfs rw\n")  # on top of it
    assert kernel.told() == ""
    assert kernel.told(kernel.place.parent) == ""


def test_what_is_not_encrypted_is_refused_with_what_to_do(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_rest, "encryption_of", kernel.told)
    with pytest.raises(LocalError) as caught:
        check_encrypted(kernel.place)
    assert caught.value.code is ErrorCode.BAD_SETUP
    kernel.lies_on(kernel.device("dm-0", "CRYPT-LUKS2-abc"))
    check_encrypted(kernel.place)
