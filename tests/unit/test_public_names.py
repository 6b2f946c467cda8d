from __future__ import annotations

import contextlib
import inspect
import runpy
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import rollq
from rollq.roles.client.blocking import bridge

ROOT = Path(__file__).parents[2]


def test_every_public_name_is_there_and_no_other() -> None:
    assert rollq.__all__ == sorted(rollq.__all__)
    for name in rollq.__all__:
        assert getattr(rollq, name).__module__.startswith("rollq.")
    with pytest.raises(AttributeError, match="Servant"):
        _ = rollq.Servant


PAIRS = (
    (rollq.Client, rollq.BlockingClient),
    (rollq.MultiClient, rollq.BlockingMultiClient),
    (rollq.Job, rollq.BlockingJob),
    (rollq.Batch, rollq.BlockingBatch),
    (rollq.KeyedRun, rollq.BlockingKeyedRun),
)


@pytest.mark.parametrize(("of", "made"), PAIRS)
def test_the_blocking_side_has_the_same_calls(of: type, made: type) -> None:
    def parameters(kind: type, name: str) -> list[inspect.Parameter] | None:
        call = getattr(kind, name, None)
        return list(inspect.signature(call).parameters.values()) if callable(call) else None

    calls = {name: parameters(of, name) for name in dir(of) if bridge.is_public(name)}
    assert {name: parameters(made, name) for name in calls} == calls
    named = [name for name in calls if calls[name] and not name.startswith("_")]
    assert all(inspect.getdoc(getattr(made, name)) for name in named)
    public = {*calls, *filter(bridge.is_public, inspect.get_annotations(of))}
    more = {"aget", "aresult"} if made is rollq.BlockingJob else set()  # for loops of others
    assert {name for name in dir(made) if bridge.is_public(name)} == public | more


def test_plumbing_is_not_public() -> None:
    for client in (rollq.Client, rollq.MultiClient):
        assert not {"ask", "enter", "fetch", "give_up", "loop", "settle"} & set(dir(client))


def test_type_checkers_see_the_blocking_clients_as_they_are() -> None:
    made = runpy.run_path(str(ROOT / "docs/make_blocking.py"))
    assert made["PATH"].read_text(encoding="utf-8") == made["stub"](), "run docs/make_blocking.py"


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
    for client in (rollq.Client, rollq.MultiClient, rollq.Job, rollq.Batch, rollq.Result):
        for name, member in inspect.getmembers(client):
            if bridge.is_public(name):
                function = member.fget if isinstance(member, property) else member
                with contextlib.suppress(TypeError):
                    handed_out |= named(get_type_hints(function).get("return"))
    assert {"Batch", "Result", "Job"} <= handed_out
    inner = {"StreamEnd"}  # of what the client itself calls
    assert handed_out - set(rollq.__all__) - inner == set()


def test_the_client_is_imported_only_by_those_who_use_it() -> None:
    code = "import rollq, sys; sys.exit('asyncio' in sys.modules or 'rollq.net' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
