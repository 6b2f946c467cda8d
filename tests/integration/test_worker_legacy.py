"""A worker that keeps its programs and directories as the legacy worker does."""

from __future__ import annotations

from pathlib import Path

import rollq
from tests.integration.small_grid import SmallGrid


def test_a_program_runs_as_a_copy_in_a_directory_named_by_its_job(tmp_path: Path) -> None:
    with SmallGrid(tmp_path, own_execs=True) as grid:
        program = tmp_path / "exec" / "calcA.exe"
        program.write_text(
            "#!/bin/sh\npwd\necho $0\nls\necho new > out.txt\nrm calcA.exe\ncat in.bin | wc -c\n"
        )
        program.chmod(0o755)
        with rollq.BlockingClient(grid.address) as client:
            for size in (3, 500_000):  # inline, and as a blob
                files = {"in.bin": bytes(size)}
                result = client.submit("calcA", files=files).result()
                here, name, *listed, count = result.stdout.split()
                assert Path(here) == tmp_path / "jobs" / result.id
                assert (name, listed) == ("./calcA.exe", ["calcA.exe", "in.bin"])
                assert int(count) == size
                assert set(result.outputs) == {"out.txt"}
        assert program.exists()
