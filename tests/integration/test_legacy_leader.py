"""Our worker and our client at a leader of the first system."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollq import Client, ErrorCode, RollqError
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from tests.integration.fake_leader import play
from tests.integration.legacy_leader import HELLO_CLIENT, HELLO_WORKER, LegacyLeader


def test_a_client_and_a_worker_of_ours_work_at_a_legacy_leader(tmp_path: Path) -> None:
    program = tmp_path / "exec" / "calcA"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho got $1\nexit $2\n")
    program.chmod(0o755)

    async def story() -> None:
        async with LegacyLeader() as leader:
            worker = WorkerNode(
                NodeSetup(
                    (leader.address,),
                    exec_dir=program.parent,
                    jobs_dir=tmp_path / "jobs",
                    state_dir=tmp_path / "worker",
                    cpu_cap=1.0,
                )
            )
            await worker.start()
            async with Client(leader.address, client_id="ann", timeout=60) as client:
                good = await (await client.submit("calcA", ["1", "0"])).result(60)
                bad = await (await client.submit("calcA", ["2", "3"])).result(60)
                lost = await (await client.submit("nothing")).result(60)
                many = client.map("calcA", [(str(n), "0") for n in range(5)])
                ends = [one.stdout async for one in many]
                with pytest.raises(RollqError) as caught:
                    await client.submit_array("calcA", 3)
            await worker.stop()
        assert (good.status, good.stdout) == ("OK", "got 1\n")
        assert (bad.status, bad.exit_code) == ("FAILED", 3)
        assert lost.status == "FAILED"
        assert "nothing" in lost.stderr
        assert sorted(ends) == [f"got {n}\n" for n in range(5)]
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        kinds = {kind: payload for kind, _, payload in leader.hellos}  # the last of each
        assert (kinds[HELLO_CLIENT]["Plain"], kinds[HELLO_WORKER]["Plain"]) == (True, True)
        assert max(leader.types_heard) <= 20

    play(story())
