"""Which cases are run, and how often."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest

from bench import __main__ as main
from bench.figures import Outcome


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, case_s: float = 1.0) -> list[str]:
    """The cases that a command line runs, if each takes so long."""
    now = 0.0

    def in_folder(work: str, peer: str, _options: argparse.Namespace) -> Outcome:
        nonlocal now
        now += case_s
        return Outcome(work, peer, skipped="not here" if peer.startswith("etcd") else "")

    clock = SimpleNamespace(monotonic=lambda: now, strftime=lambda _form: "")
    monkeypatch.setattr(main, "time", clock)
    monkeypatch.setattr(main, "in_folder", in_folder)
    outcomes: list[Outcome] = []
    main.measure(main.parse(list(arguments)), outcomes)
    return [f"{one.work} {one.peer}" for one in outcomes]


def test_peers_take_turns_and_a_missing_one_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run(monkeypatch, "--only", "replicated,failover", "--peers", "rollq:,etcd", "--runs", "2")
    assert ran == [
        "replicated rollq:r3",
        "replicated etcd:r3",
        "failover rollq:r3",
        "failover etcd:r3",
        "replicated rollq:r3",
    ]


def test_a_slow_machine_has_fewer_runs_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wish = ("--only", "noop,execs", "--peers", "rollq:r1")
    whole_s = main.BUDGET_S
    assert len(run(monkeypatch, *wish, case_s=whole_s / 6)) == 6
    assert len(run(monkeypatch, *wish, case_s=whole_s / 5)) == 5
    assert len(run(monkeypatch, *wish, case_s=whole_s)) == 2
    assert len(run(monkeypatch, *wish, "--runs", "3", case_s=whole_s)) == 6


def test_the_window_can_be_chosen() -> None:
    assert main.parse(["--window", "64"]).scale.window == 64
    assert main.parse(["--quick"]).scale.window == 256


def test_how_long_and_on_which_loop_can_be_chosen() -> None:
    asked = main.parse(["--seconds", "90", "--sustained", "300", "--loop", "asyncio"]).scale
    assert (asked.noop_s, asked.sustained_s, asked.loop) == (90, 300, "asyncio")
    usual = main.parse([]).scale
    assert usual.noop_s >= 60
    assert usual.loop == "uvloop"


def test_what_is_missing_is_said_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = SimpleNamespace(available=lambda: "no etcd: apt-get install etcd-server")
    monkeypatch.setattr(main, "make_peer", lambda _key: absent)
    main.say_missing(main.parse(["--only", "submit,replicated", "--peers", "etcd:r1"]))
    said = " ".join(capsys.readouterr().err.split())
    assert said == "missing: etcd:r1: no etcd: apt-get install etcd-server"
