"""Who was refused what on a real member, and who changed what: in its history."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode, RollqError
from rollq.roles.client.client import Client
from tests.integration.access_grid import access_grid
from tests.integration.patience import DEADLINE_S


async def audited(client: Client, *kinds: str) -> list[dict[str, Any]]:
    """Rows of the history."""
    answer = await client.query("history", (1).to_bytes(8, "big"))
    _, _, lines = msgspec.msgpack.decode(answer)
    rows = [msgspec.json.decode(line) for line in lines]
    return [row for row in rows if row["type"] in kinds]


def test_refusals_and_acts_are_in_the_history_with_their_accounts(tmp_path: Path) -> None:
    async def story() -> None:
        async with access_grid(tmp_path) as grid, grid.client("root") as root:
            await root.access.add("alice", roles=["client"])
            async with grid.client("alice") as alice:
                for _ in range(3):
                    with pytest.raises(RollqError) as refused:
                        await alice.pause("prod")
                    assert refused.value.code is ErrorCode.ACCESS_DENIED
            await root.pause("prod")  # is in the log behind the first refusal
            first = (await audited(root, "refused"))[0]
            named = {name: first[name] for name in ("by", "action", "resource", "address")}
            assert named == {
                "by": "alice",
                "action": "queues.pause",
                "resource": "queue:prod",
                "address": "127.0.0.1",
            }
            changed = await audited(root, "account_put", "queue_pause")
            assert [row["by"] for row in changed] == ["root", "root"]
            # Certificates of admins are there, so that no account has to be left.
            token = await root.access.new_token("alice")
            assert token.startswith("rollq_alice_")
            await root.access.add_roles("alice", "admin")
            await root.access.remove("alice")

    asyncio.run(asyncio.wait_for(story(), DEADLINE_S))
