from __future__ import annotations

from rollq.base.limits import UNCLAIMED_BYTES_MAX, UNCLAIMED_RESULT_BYTES
from rollq.roles.client.engine.one_group import GroupEngine
from rollq.wire import messages as wire


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_results_that_nobody_asked_for_are_bounded_however_small_they_are() -> None:
    client = GroupEngine("127.0.0.1:1", "")
    most = UNCLAIMED_BYTES_MAX // UNCLAIMED_RESULT_BYTES
    client.take_results([wire.Result(job(number), "done") for number in range(1, most + 100)])
    assert len(client.unclaimed) == most
    assert job(1) not in client.unclaimed


def test_a_result_that_comes_again_takes_no_more_room() -> None:
    client = GroupEngine("127.0.0.1:1", "")
    for _ in range(3):
        client.take_results([wire.Result(job(1), "done", 0, bytes(1_000))])
    assert client.unclaimed_bytes == 1_000 + UNCLAIMED_RESULT_BYTES
