"""The trie: order, removal, pruning, refusal. That it matches rightly is a property test."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.subjects.trie import Trie


def trie_of(*pairs: tuple[str, str]) -> Trie[str]:
    trie: Trie[str] = Trie()
    for pattern, value in pairs:
        assert trie.insert(pattern, value)
    return trie


def test_an_empty_trie_matches_nothing() -> None:
    trie = trie_of()
    assert trie.match("a.b") == []
    assert len(trie) == 0
    assert not trie.remove("a.b", "x")


def test_values_come_in_the_order_of_their_insertion() -> None:
    names = [f"w{number}" for number in (5, 3, 9, 1, 7)]
    trie = trie_of(*(("job.assign.a", name) for name in names))
    assert trie.match("job.assign.a") == names
    assert trie.remove("job.assign.a", "w3")
    assert trie.insert("job.assign.a", "w3")
    assert trie.match("job.assign.a") == ["w5", "w9", "w1", "w7", "w3"]


def test_a_value_with_several_matching_patterns_comes_once() -> None:
    trie = trie_of(("a.b", "x"), ("a.*", "x"), ("a.>", "x"), (">", "x"), ("a.b.>", "y"))
    assert trie.match("a.b") == ["x", "y"]
    assert len(trie) == 5


def test_the_same_pair_in_other_words_is_the_same_pair() -> None:
    trie = trie_of(("Job.Assign.A", "x"))
    assert not trie.insert("job..assign.a.", "x")
    assert len(trie) == 1
    assert trie.remove("JOB.ASSIGN.A", "x")
    assert len(trie) == 0


def test_removal_takes_only_what_was_named() -> None:
    trie = trie_of(("a.b", "x"), ("a.b", "y"), ("a.b.>", "x"), ("a.*", "x"), ("a.b.c", "z"))
    for pattern, value in [("a.b", "z"), ("a", "x"), ("a.b.*", "x"), ("q.>", "x"), ("a.>", "x")]:
        assert not trie.remove(pattern, value)
    assert len(trie) == 5
    assert trie.remove("a.b", "x")
    assert trie.match("a.b") == ["x", "y"]  # x still by `a.b.>` and `a.*`
    assert trie.remove("a.b.>", "x")
    assert trie.remove("a.*", "x")
    assert trie.match("a.b") == ["y"]
    assert trie.match("a.b.c") == ["z"]


def test_empty_nodes_are_pruned_and_full_ones_kept() -> None:
    trie = trie_of(("a.b.c", "x"), ("a.b", "x"), ("a.*.c", "x"), ("q.>", "x"), (">", "x"))
    assert trie.node_count() == 6
    assert trie.remove("a.b.c", "x")
    assert trie.node_count() == 5  # a, a.b, a.*, a.*.c, q
    assert trie.remove("a.*.c", "x")
    assert trie.node_count() == 3
    assert trie.remove("a.b", "x")
    assert trie.remove("q.>", "x")
    assert trie.node_count() == 0
    assert trie.match("any.thing") == ["x"]
    assert trie.remove(">", "x")
    assert trie.match("any.thing") == []


def test_a_node_with_children_survives_the_loss_of_its_own_values() -> None:
    trie = trie_of(("a", "x"), ("a.b", "y"), ("a.*", "z"))
    assert trie.remove("a", "x")
    assert trie.match("a") == []
    assert trie.match("a.b") == ["y", "z"]


@pytest.mark.parametrize("text", ["a b", "\x00", "a." * 40 + "a"])
def test_broken_text_is_refused_and_changes_nothing(text: str) -> None:
    trie = trie_of(("a", "x"))
    for change in (trie.insert, trie.remove):
        with pytest.raises(RemoteError) as caught:
            change(text, "y")
        assert caught.value.code is ErrorCode.BAD_SUBJECT
    with pytest.raises(RemoteError):
        trie.match(text)
    with pytest.raises(RemoteError):
        trie.match("a.*")
    assert len(trie) == 1
    assert trie.node_count() == 1


class CountedKey(str):
    """A token that counts how often a dict compares it."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedKey.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_match_looks_at_no_pattern_that_does_not_share_a_prefix() -> None:
    def nodes_seen(pattern_count: int) -> int:
        trie: Trie[int] = Trie()
        for number in range(pattern_count):
            trie.insert(f"job.assign.q{number}.*", number)
        level = trie._root.literals
        assert level is not None
        assign = level["job"].literals
        assert assign is not None
        queues = assign["assign"].literals
        assert queues is not None
        assign["assign"].literals = {CountedKey(name): node for name, node in queues.items()}
        CountedKey.compared = 0
        assert trie.match("job.assign.q7.x") == [7]
        return CountedKey.compared

    assert nodes_seen(10) <= 8
    assert nodes_seen(10_000) <= 8
