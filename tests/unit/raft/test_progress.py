"""The automaton of one follower, apart from any node."""

from __future__ import annotations

from rollq.raft.progress import Progress, ProgressState
from rollq.raft.types import SnapshotMeta


def replicating(match: int = 5) -> Progress:
    progress = Progress(next=match + 1, inflight_max=2, inflight_bytes_max=100)
    progress.accept(match)
    progress.become_replicate()
    return progress


def test_the_window_opens_as_far_as_answers_reach() -> None:
    progress = replicating()
    blocked = []
    for count, size in ((1, 60), (3, 30)):
        progress.sent(count, size, 5)
        blocked.append(progress.blocked)
    assert (blocked, progress.next) == ([False, True], 10)
    assert progress.accept(6)
    progress.free(6)
    assert (len(progress.inflight), progress.inflight_bytes, progress.blocked) == (1, 30, False)


def test_the_window_is_full_by_bytes_too() -> None:
    progress = replicating()
    progress.sent(1, 100, 5)
    assert progress.full


def test_a_refusal_empties_the_window_and_probes_from_the_match() -> None:
    progress = replicating()
    progress.sent(2, 100, 7)
    assert progress.refuse(7, 6)
    assert (progress.state, progress.next, progress.match) == (ProgressState.PROBE, 6, 5)
    assert (len(progress.inflight), progress.inflight_bytes, progress.sent_commit) == (0, 0, 5)


def test_a_late_refusal_changes_nothing() -> None:
    progress = replicating()
    assert not progress.refuse(5, 3)
    progress.become_probe()
    assert not progress.refuse(9, 3)
    progress.become_snapshot(SnapshotMeta(index=9))
    assert not progress.refuse(9, 3)


def test_a_probe_goes_back_to_the_hint_but_not_before_the_match() -> None:
    progress = Progress(next=10, inflight_max=2, inflight_bytes_max=100)
    progress.sent(1, 10, 0)
    assert progress.blocked
    assert progress.refuse(9, 4)
    assert (progress.next, progress.blocked) == (5, False)
    assert progress.refuse(4, 0)
    assert progress.next == 1


def test_an_empty_probe_does_not_pause() -> None:
    progress = Progress(next=10, inflight_max=2, inflight_bytes_max=100)
    progress.sent(0, 0, 0)
    assert not progress.blocked


def test_an_answer_counts_once() -> None:
    progress = replicating()
    assert not progress.accept(5)
    assert progress.accept(8)
    assert progress.next == 9


def test_a_view_names_the_snapshot_under_way() -> None:
    progress = replicating()
    progress.become_snapshot(SnapshotMeta(index=9))
    view = progress.view()
    assert (view.state, view.snapshot_index, view.next, view.paused) == (
        ProgressState.SNAPSHOT,
        9,
        10,
        True,
    )


def test_a_refusal_of_what_matched_is_no_news_in_a_probe_either() -> None:
    """The follower lost what it had acknowledged. Answering it at once would go on for ever."""
    progress = replicating(match=5)
    progress.become_probe()
    assert not progress.refuse(5, 2)
    assert (progress.next, progress.match) == (6, 5)
