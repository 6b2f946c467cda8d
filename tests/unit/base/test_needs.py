"""What jobs need and workers have, as people write it and as it is stored."""

from __future__ import annotations

import pytest

from rollq.base import needs
from rollq.base.errors import LocalError
from rollq.base.need_limits import AMOUNT_MAX, LABELS_MAX, RESOURCES_MAX, TOKENS_MAX


@pytest.mark.parametrize(
    ("name", "said", "amount", "shown"),
    [
        ("cpu", 1.5, 1_500, "1.5"),
        ("cpu", "0.125", 125, "0.125"),
        ("gpu", 2, 2_000, "2"),
        ("gpu", 2.0, 2_000, "2"),
        ("memory", "2G", 2 * 1024**3 * 1_000, "2G"),
        ("memory", "1.5G", 3 * 1024**3 * 500, "1536M"),
        ("memory", 4096, 4_096_000, "4K"),
        ("memory", "1001", 1_001_000, "1001"),
        ("memory", "0.5", 500, "0.5"),
    ],
)
def test_an_amount_is_read_and_shown(name: str, said: str | float, amount: int, shown: str) -> None:
    assert needs.amount_of(name, said) == amount
    assert needs.amount_text(name, amount) == shown
    assert needs.amount_of(name, shown) == amount


@pytest.mark.parametrize(
    ("name", "said"),
    [("cpu", "2G"), ("cpu", "1.2345"), ("cpu", "-1"), ("memory", "2g"), ("cpu", ""), ("gpu", True)],
)
def test_what_is_no_amount_is_refused(name: str, said: str | float) -> None:
    with pytest.raises(LocalError, match=f"amount of {name}"):
        needs.amount_of(name, said)


def test_the_same_needs_are_equal() -> None:
    one = needs.resources_of({"memory": "1G", "cpu": 2})
    assert one == needs.resources_of({"cpu": "2", "memory": "1024M"})
    assert one == (("cpu", 2_000), ("memory", 1024**3 * 1_000))
    assert needs.resource_texts(one) == {"cpu": "2", "memory": "1G"}
    assert needs.requirements_of(["zone=a", "!spot", "zone=a"]) == ("!spot", "zone=a")


@pytest.mark.parametrize(
    "resources",
    [
        (("", 1),),
        (("a b", 1),),
        (("cpu", 0),),
        (("cpu", AMOUNT_MAX + 1),),
        (("cpu", 1), ("cpu", 2)),
        tuple((f"r{number}", 1) for number in range(RESOURCES_MAX + 1)),
    ],
)
def test_resources_that_cannot_be(resources: needs.Amounts) -> None:
    assert needs.why_bad_resources(resources)


def test_what_cannot_be_needed_is_told_with_what_can() -> None:
    with pytest.raises(LocalError, match="cpu is 0, and must be above 0 and at most ") as refused:
        needs.resources_of({"cpu": 0})
    assert refused.value.hint == "give amounts: cpu=0.5, memory=2G, gpu=1"
    with pytest.raises(LocalError, match="no resource can be called '日本': a name has") as refused:
        needs.resources_of({"日本": 1})
    with pytest.raises(LocalError, match="1 to 1000000 tokens of a limit, not 0 of db") as refused:
        needs.tokens_of(["db=0"])
    assert "db=2" in refused.value.hint


@pytest.mark.parametrize("said", ["", "=", "a=", "!a=b", "a!=", "!", "a=b=c", "ä", "a b", "a=!b"])
def test_requirements_that_cannot_be(said: str) -> None:
    with pytest.raises(LocalError, match="a-z, A-Z, 0-9"):
        needs.requirements_of([said])


@pytest.mark.parametrize("said", ["!gpu", "zone!=a"])
def test_a_worker_has_labels_and_requires_none(said: str) -> None:
    with pytest.raises(LocalError):
        needs.labels_of([said])


def test_labels_are_few() -> None:
    assert needs.why_bad_labels(tuple(f"l{number}" for number in range(LABELS_MAX + 1)))


@pytest.mark.parametrize(
    ("required", "labels", "fits"),
    [
        ((), (), True),
        (("gpu",), ("gpu",), True),
        (("gpu",), ("gpu=a100",), True),
        (("gpu",), ("gpus",), False),
        (("!gpu",), ("gpu=a100",), False),
        (("!gpu",), ("zone=a",), True),
        (("zone=a",), ("zone=a", "gpu"), True),
        (("zone=a",), ("zone=b",), False),
        (("zone=a",), ("zone",), False),
        (("zone!=a",), ("zone=a",), False),
        (("zone!=a",), ("zone=b",), True),
        (("zone!=a",), (), True),
        (("zone=a", "!spot"), ("spot", "zone=a"), False),
    ],
)
def test_labels_match(required: tuple[str, ...], labels: tuple[str, ...], fits: bool) -> None:
    assert needs.labels_match(required, labels) is fits


def test_tokens_are_named_with_their_count_or_without() -> None:
    tokens = needs.tokens_of(["matlab", "db=2", ("disk", 3)])
    assert tokens == (("db", 2), ("disk", 3), ("matlab", 1))
    assert needs.token_texts(tokens) == ["db=2", "disk=3", "matlab"]


@pytest.mark.parametrize("said", ["", "db=", "db=x", "db=0", "a b", f"db={TOKENS_MAX + 1}"])
def test_tokens_that_cannot_be(said: str) -> None:
    with pytest.raises(LocalError):
        needs.tokens_of([said])
    with pytest.raises(LocalError, match="twice"):
        needs.tokens_of(["db", "db=2"])


@pytest.mark.parametrize(
    ("said", "rate", "shown"),
    [
        ("3/s", 259_200, "3/s"),
        ("3", 259_200, "3/s"),
        ("0.5/s", 43_200, "30/min"),
        ("90/min", 129_600, "1.5/s"),
        ("10/h", 240, "10/h"),
        ("1.999/d", 1, "1/d"),
        ("100000/s", 8_640_000_000, "100000/s"),
    ],
)
def test_a_rate_is_never_more_than_was_said(said: str, rate: int, shown: str) -> None:
    assert needs.rate_of(said) == rate
    assert needs.rate_text(rate) == shown


@pytest.mark.parametrize("said", ["", "0/s", "3/w", "-1/s", "0.999/d", "100001/s"])
def test_rates_that_cannot_be(said: str) -> None:
    with pytest.raises(LocalError):
        needs.rate_of(said)
