from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from bench.histories import make
from bench.reading import measure
from rollq.net.ports import free_ports
from rollq.roles.member.readers.columns import make_all
from rollq.roles.reader.models import ARROW


def test_reading_is_measured_beside_jobs(tmp_path: Path) -> None:
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    make(tmp_path / "state", 20_000, address)
    assert make_all(tmp_path / "state", "default") == 1
    figures = measure(tmp_path / "state", address, 0.3, ARROW)
    assert figures["rows_per_s"] > 0
    assert figures["probes"] > 0
