from __future__ import annotations

import threading
from functools import partial

import pytest

from rollq.roles.persist import PersistThread


def test_orders_are_done_in_order_on_one_thread_before_it_ends() -> None:
    persist = PersistThread("persist")
    done: list[tuple[int, int]] = []

    def note(number: int) -> None:
        done.append((number, threading.get_ident()))

    for number in range(5):
        persist.post(partial(note, number))
    persist.shutdown()
    persist.shutdown()
    assert [number for number, _ in done] == [0, 1, 2, 3, 4]
    assert {thread for _, thread in done} - {threading.get_ident()} == {done[0][1]}


def test_a_future_tells_what_became_of_an_order() -> None:
    persist = PersistThread("persist")
    assert persist.submit(int, "7", base=8).result(10) == 7
    failed = persist.submit(int, "seven")
    with pytest.raises(ValueError, match="seven"):
        failed.result(10)
    persist.shutdown()


def test_an_order_that_was_cancelled_in_time_is_not_done() -> None:
    persist = PersistThread("persist")
    gate = threading.Event()
    done: list[str] = []
    persist.submit(gate.wait, 10)
    cancelled = persist.submit(done.append, "cancelled")
    assert cancelled.cancel()
    gate.set()
    persist.shutdown()
    assert done == []
