import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.grid.seq_index import SeqIndex

Step = tuple[str, int]


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "oldest"]), st.integers(0, 400))))
def test_an_index_by_seq_is_a_sorted_dict(steps: list[Step]) -> None:
    index: SeqIndex[str] = SeqIndex()
    model: dict[int, str] = {}
    last = 0
    for word, number in steps:
        if word == "add":
            last += 1 + number % 3
            index.add(last, str(last))
            model[last] = str(last)
        elif word == "remove" and model:
            seq = list(model)[number % len(model)]
            index.remove(seq)
            del model[seq]
        elif word == "oldest" and model:
            oldest = min(model)
            assert index.oldest() == model.pop(oldest)
            index.remove(oldest)
        later = [(seq, key) for seq, key in model.items() if seq > number]
        assert index.page(number, 3) == later[:3]
        assert index.first(number % 5) == list(model.values())[: number % 5]
        assert len(index) == len(model)
    assert list(index) == list(model.values())
    assert list(index.items()) == list(model.items())
    assert index.oldest() == (model[min(model)] if model else None)


def test_removed_places_do_not_pile_up() -> None:
    index: SeqIndex[int] = SeqIndex()
    for seq in range(1, 10_001):
        index.add(seq, seq)
        if seq > 10:
            index.remove(seq - 10)
            assert index.oldest() == seq - 9
    assert len(index._order) <= 2 * 10 + 65


def test_what_is_not_there_cannot_be_removed() -> None:
    index: SeqIndex[int] = SeqIndex()
    with pytest.raises(KeyError):
        index.remove(1)
