from __future__ import annotations

import contextlib
import inspect
import subprocess
import sys
from typing import get_args, get_type_hints

import pytest

import rollq


def test_every_public_name_is_there_and_no_other() -> None:
    assert rollq.__all__ == sorted(rollq.__all__)
    for name in rollq.__all__:
        assert getattr(rollq, name).__module__.startswith("rollq.")
    with pytest.raises(AttributeError, match="Servant"):
        _ = rollq.Servant


def test_the_blocking_client_has_the_same_calls() -> None:
    calls = {name for name in dir(rollq.Client) if not name.startswith("_")}
    inner = {  # for those who submit without a coroutine a job, and for the client itself
        *(
            "ask",
            "change",
            "drop",
            "enter",
            "expect",
            "fetch",
            "give_up",
            "is_array_over",
            "job_view",
        ),
        "leave",
        *("loop", "map_run", "overdue", "settle", "settle_all", "stage_run", "takes_bulks"),
        *("uploaded", "uploaded_at"),
    }
    assert calls - inner - set(dir(rollq.BlockingClient)) == set()


def test_completion_offers_the_public_names() -> None:
    assert set(rollq.__all__) <= set(dir(rollq))
    assert "TYPE_CHECKING" not in dir(rollq)


def test_whatever_the_clients_hand_out_can_be_named() -> None:
    def named(hint: object) -> set[str]:
        found = {found for arg in get_args(hint) for found in named(arg)}
        home = getattr(hint, "__module__", "")
        return found | (
            {hint.__name__} if isinstance(hint, type) and home[:6] == "rollq." else set()
        )

    handed_out: set[str] = set()
    for client in (rollq.Client, rollq.BlockingClient, rollq.Job, rollq.Batch, rollq.Result):
        for name, member in inspect.getmembers(client):
            if not name.startswith("_"):
                function = member.fget if isinstance(member, property) else member
                with contextlib.suppress(TypeError):
                    handed_out |= named(get_type_hints(function).get("return"))
    assert {"Batch", "Result", "Job"} <= handed_out
    inner = {
        "Fetcher",
        "MapRun",
        "StageRun",
        "StreamEnd",
        "Supply",
    }  # of what the client itself calls
    assert handed_out - set(rollq.__all__) - inner == set()


def test_the_client_is_imported_only_by_those_who_use_it() -> None:
    code = "import rollq, sys; sys.exit('asyncio' in sys.modules or 'rollq.net' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
