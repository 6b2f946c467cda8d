"""State directories that a member must not or cannot use, and files that cannot grow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.load import Load
from tests.integration.procs import MemberProcess
from tests.integration.talk import accepted, client, hang_up_all

# Runs what follows bound by permissions even if it is root (it drops CAP_DAC_OVERRIDE and
# CAP_DAC_READ_SEARCH), or with files of a bounded size.
BOUND = (
    "import ctypes, os, sys; c = ctypes.CDLL(None); c.prctl(24, 1); c.prctl(24, 2); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
FILES_OF = (
    "import os, resource, sys; n = int(sys.argv[1]); "
    "resource.setrlimit(resource.RLIMIT_FSIZE, (n, n)); os.execv(sys.argv[2], sys.argv[2:])"
)


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def test_a_state_directory_without_permission_is_named_with_what_to_do(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    member = MemberProcess(closed / "state", prefix=(sys.executable, "-c", BOUND)).spawn()
    line = member.until_line("cannot start")
    assert member.wait() == 2
    assert "disk_failed" in line
    assert str(closed / "state") in line
    assert "give the user that runs rollq the right to write there" in line


def test_a_state_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a directory")
    member = MemberProcess(tmp_path / "state").spawn()
    assert "disk_failed" in member.until_line("cannot start")
    assert member.wait() == 2


def test_two_members_do_not_share_a_state_directory(tmp_path: Path) -> None:
    first = MemberProcess(tmp_path / "state").start()
    second = MemberProcess(tmp_path / "state").spawn()
    line = second.until_line("cannot start")
    assert second.wait() == 2
    assert "disk_busy" in line
    assert f"process {first.pid} uses the state directory" in line
    assert accepted(client(first.address), [1])
    first.kill()  # a lock dies with its holder
    assert second.start().stop() == 0


def test_a_member_that_cannot_make_its_log_does_not_start(tmp_path: Path) -> None:
    member = MemberProcess(
        tmp_path / "state", prefix=(sys.executable, "-c", FILES_OF, "100000")
    ).spawn()
    assert "disk_full" in member.until_line("cannot start")
    assert member.wait() == 2


def test_a_disk_without_room_stops_the_member_and_loses_nothing(tmp_path: Path) -> None:
    """The log has its room already, and large bodies stay in it; those that are short and do not
    stay in memory have none."""
    state = tmp_path / "state"
    tight = MemberProcess(
        state,
        prefix=(sys.executable, "-c", FILES_OF, str(17 * 1024 * 1024)),
    ).start()
    with Load([tight.address], body=bytes(4_000)) as load:
        line = tight.until_line("failed:")
        assert tight.wait() == 1
        roomy = MemberProcess(state, tight.port).start()
        load.until_more(10)
    assert "disk_full" in line
    assert "make room and start the member again" in line
    numbers = list(load.accepted)
    known: dict[bytes, bool] = {}
    talker = client(roomy.address, "load")
    for first in range(0, len(numbers), 50):
        known |= accepted(talker, numbers[first : first + 50], bytes(4_000))
    assert len(known) == len(numbers)
    assert all(known.values())
    assert roomy.stop() == 0
