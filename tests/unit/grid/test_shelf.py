import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.grid.shelf import Shelf

Step = tuple[str, int]


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "oldest"]), st.integers(0, 400))))
def test_a_shelf_is_a_sorted_dict(steps: list[Step]) -> None:
    shelf: Shelf[str] = Shelf()
    model: dict[int, str] = {}
    last = 0
    for word, number in steps:
        if word == "add":
            last += 1 + number % 3
            shelf.add(last, str(last))
            model[last] = str(last)
        elif word == "remove" and model:
            seq = list(model)[number % len(model)]
            shelf.remove(seq)
            del model[seq]
        elif word == "oldest" and model:
            oldest = min(model)
            assert shelf.oldest() == model.pop(oldest)
            shelf.remove(oldest)
        later = [(seq, key) for seq, key in model.items() if seq > number]
        assert shelf.page(number, 3) == later[:3]
        assert len(shelf) == len(model)
    assert list(shelf) == list(model.values())
    assert list(shelf.items()) == list(model.items())
    assert shelf.oldest() == (model[min(model)] if model else None)


def test_removed_places_do_not_pile_up() -> None:
    shelf: Shelf[int] = Shelf()
    for seq in range(1, 10_001):
        shelf.add(seq, seq)
        if seq > 10:
            shelf.remove(seq - 10)
            assert shelf.oldest() == seq - 9
    assert len(shelf._order) <= 2 * 10 + 65


def test_what_is_not_there_cannot_be_removed() -> None:
    shelf: Shelf[int] = Shelf()
    with pytest.raises(KeyError):
        shelf.remove(1)
