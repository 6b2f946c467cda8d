"""What is said of an address that nobody serves, or that cannot be listened on."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from rollq.base.errors import LocalError
from rollq.cli.health import SILENT, group_findings
from rollq.cli.joblist import check_jobs
from rollq.net.listener import Listener


def test_a_member_that_is_stopped_accepts_connections_and_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # nobody takes what the system accepts
        address = f"127.0.0.1:{frozen.getsockname()[1]}"
        is_led, findings = asyncio.run(group_findings(address, 0.2))
    assert not is_led
    assert f"{address} {SILENT}" in [one.what for one in findings]


def test_what_to_do_about_an_address_depends_on_why_it_cannot_be_used() -> None:
    async def hint(host: str, port: int) -> str:
        listener = Listener("", lambda *_: None, lambda *_: None)
        with pytest.raises(LocalError) as caught:
            await listener.start(host, port)
        return caught.value.hint

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "stop the process" in asyncio.run(hint("127.0.0.1", taken.getsockname()[1]))
    assert asyncio.run(hint("192.0.2.1", 0)) == "use an address of this machine"


def test_a_number_in_the_first_column_is_no_program(tmp_path: Path) -> None:
    rows = tmp_path / "jobs.csv"
    rows.write_text("1,2\n", encoding="utf-8")
    with pytest.raises(LocalError, match="1 is a number, not a program"):
        check_jobs(rows, "", {}, header=False)
    assert check_jobs(rows, "calcA", {}, header=False).count == 1
