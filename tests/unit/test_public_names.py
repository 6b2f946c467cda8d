from __future__ import annotations

import subprocess
import sys

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
        *("ask", "change", "drop", "enter", "expect", "fetch", "give_up", "is_array_over", "leave"),
        *("loop", "map_run", "overdue", "settle", "settle_all", "stage_run", "takes_bulks"),
        *("uploaded", "uploaded_at"),
    }
    assert calls - inner - set(dir(rollq.BlockingClient)) == set()


def test_completion_offers_the_public_names() -> None:
    assert set(rollq.__all__) <= set(dir(rollq))
    assert "TYPE_CHECKING" not in dir(rollq)


def test_the_client_is_imported_only_by_those_who_use_it() -> None:
    code = "import rollq, sys; sys.exit('asyncio' in sys.modules or 'rollq.net' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
