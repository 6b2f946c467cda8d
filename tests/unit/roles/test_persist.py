from __future__ import annotations

import threading
from functools import partial

import pytest

from rollq.base.limits import QUICK_SYNC_MS_MAX, SYNCS_AVERAGED
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


def test_a_quick_disk_is_not_worth_a_thread_and_one_that_gets_slow_is() -> None:
    persist = PersistThread("persist")
    assert not persist.may_stay()  # it is not known yet
    for _ in range(SYNCS_AVERAGED):
        persist.synced(0.000_1)
    assert persist.may_stay()
    persist.synced(QUICK_SYNC_MS_MAX * 2 / 1000)  # now and then one takes longer
    assert persist.may_stay()
    for _ in range(SYNCS_AVERAGED):
        persist.synced(QUICK_SYNC_MS_MAX * 2 / 1000)
    assert not persist.may_stay()
    persist.shutdown()


def test_nothing_comes_before_what_the_thread_was_given() -> None:
    persist = PersistThread("persist")
    for _ in range(SYNCS_AVERAGED):
        persist.synced(0)
    gate = threading.Event()
    persist.submit(gate.wait, 10)
    assert not persist.may_stay()
    gate.set()
    persist.submit(int).result(10)
    persist.shutdown()
    assert persist.may_stay()
