"""A case: what it says of a peer that is missing, does not start, or fails half way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench import case
from bench.figures import Sample
from bench.peers.base import Peer
from bench.works import FULL, QUICK, Scale
from bench.works.all import WORKS

Seen = tuple[str, str, tuple[Sample, ...]]  # missing, failed, measured
Run = Callable[[str, str], Seen]


class Sick:
    """A peer that breaks where it is told to."""

    def __init__(self, breaks_in: str) -> None:
        self._breaks_in = breaks_in

    def available(self) -> str:
        return "apt-get install health" if self._breaks_in == "available" else ""

    def version(self) -> str:
        return "sick 1"

    def start(self, _folder: Path) -> None:
        if self._breaks_in == "start":
            raise OSError("no port")

    def stop(self) -> None:
        raise RuntimeError("it does not even stop")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    def measure(_peer: Peer, _scale: Scale) -> Iterator[Sample]:
        yield Sample("jobs_per_s", 5)
        raise ValueError("half way")

    work = replace(WORKS["noop"], measure=measure)
    monkeypatch.setitem(WORKS, "noop", work)

    def measured(key: str, breaks_in: str) -> Seen:
        monkeypatch.setattr(case, "make_peer", lambda _key: Sick(breaks_in))
        outcome = case.measure("noop", key, tmp_path, QUICK)
        return outcome.skipped, outcome.failure, outcome.samples

    return measured


def test_a_peer_that_is_not_installed_or_does_not_start_is_missing(run: Run) -> None:
    assert run("nats:core", "available") == ("apt-get install health", "", ())
    assert run("nats:core", "start") == ("did not start: OSError: no port", "", ())


def test_that_rollq_does_not_start_is_a_failure(run: Run) -> None:
    assert run("rollq:r1", "start") == ("", "OSError: no port", ())


def test_what_was_measured_before_a_failure_is_kept(run: Run) -> None:
    samples = (Sample("jobs_per_s", 5),)
    assert run("nats:core", "nothing") == ("", "ValueError: half way", samples)


def test_rollq_sees_all_faults_and_its_peers_some() -> None:
    assert FULL.of("rollq:r3") == FULL
    assert (FULL.of("etcd:r3").kills, FULL.of("etcd:r3").stops) == (5, 2)
    assert FULL.of("rabbitmq:r3").stops == 0
    assert (QUICK.of("etcd:r3").kills, QUICK.of("etcd:r3").stops) == (2, 1)
    assert FULL.of("nats:core").noop_s == FULL.noop_s > FULL.of("celery:durable").noop_s
    assert msgspec.json.decode(msgspec.json.encode(FULL), type=Scale) == FULL
