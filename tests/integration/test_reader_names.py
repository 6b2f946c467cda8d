"""Readers with names, told to whoever leads; and what the command line shows of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from rollq import BlockingClient
from rollq.base.errors import DialError, ErrorCode, StateError
from rollq.cli.main import app
from rollq.net.ports import free_ports
from rollq.roles.reader.models import Holder
from rollq.roles.reader.reader import Reader
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.small_grid import SmallGrid
from tests.integration.talk import find_leader


def test_a_name_is_known_to_the_next_leader_until_it_is_freed(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        leader, _ = find_leader(members.addresses)
        with Reader(members.addresses) as reader:
            reader.hold("nightly", 3)
            reader.hold("nightly", 5)
            reader.hold("hourly", 9)
            assert _places(reader) == {"hourly": 9, "nightly": 5}
            members.at(leader).kill()
            assert _places(reader) == {"hourly": 9, "nightly": 5}
            reader.free("hourly")
            assert _places(reader) == {"nightly": 5}
            with pytest.raises(StateError) as caught:
                reader.free("hourly")
            assert caught.value.code is ErrorCode.UNKNOWN_READER
            with pytest.raises(StateError) as caught:
                reader.hold("", 1)
            assert caught.value.code is ErrorCode.BAD_OPTIONS


def test_somebody_who_calls_itself_a_reader_is_in_nobodys_way(tmp_path: Path) -> None:
    with SmallGrid(tmp_path, "tests.integration.sample_app") as grid:
        with BlockingClient(grid.address, client_id="reader") as client:
            client.pause("noop")
            client.submit("noop")
        with BlockingClient(grid.address) as other:
            other.resume("noop")
            until(lambda: (view := other.client("reader")) is not None and view.owed)
        with Reader(grid.address) as reader:
            reader.hold("nightly", 3)
            assert _places(reader) == {"nightly": 3}


def _places(reader: Reader) -> dict[str, int]:
    holders = reader.holders()
    assert all(isinstance(one, Holder) and one.stamp_ms > 0 for one in holders)
    return {one.name: one.index for one in holders}


def test_nobody_leads() -> None:
    [port] = free_ports(1)
    with pytest.raises(DialError) as caught, Reader(f"127.0.0.1:{port}", timeout_s=0.1) as reader:
        reader.hold("x", 1)
    assert str(port) in caught.value.message


def test_the_command_line_lists_readers_and_frees_them(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()
    try:
        with Reader(member.address) as reader:
            reader.hold("nightly", 17)
        run = CliRunner()
        servers = ["--servers", member.address]
        shown = run.invoke(app, ["history", "readers", *servers])
        assert shown.exit_code == 0, shown.output
        assert "nightly" in shown.output
        assert "17" in shown.output
        shown = run.invoke(app, ["history", "readers", "--json", *servers])
        assert msgspec.json.decode(shown.stdout)["index"] == 17
        assert run.invoke(app, ["history", "readers", "--free", "nightly", *servers]).exit_code == 0
        assert run.invoke(app, ["history", "readers", "--json", *servers]).stdout == ""
    finally:
        member.kill()
