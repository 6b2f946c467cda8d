"""Every seed, cut short, with bits turned and with bytes put in, by every target: what `make fuzz`
looks for at length, in a moment."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.fuzz.seeds import CORPUS, seeds_of
from tests.fuzz.targets import TARGETS

INPUTS = 3_000  # of one target


def damaged(seeds: list[bytes], chance: random.Random) -> Iterator[bytes]:
    """Seeds as they are, and then damages of them without end."""
    yield from seeds
    while True:
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data) + 1)
            kind = chance.randrange(4)
            if kind == 0:
                del data[at:]
            elif kind == 1 and at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            elif kind == 2:
                data[at:at] = chance.randbytes(chance.randint(1, 8))
            else:
                data[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", bytes(4), b"\x7f\0\0\0"))
        yield bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_seeds(name: str) -> None:
    target = TARGETS[name]
    seeds = seeds_of(name)
    assert seeds, "a search begins somewhere"
    inputs = damaged([b"", *seeds], random.Random(name))
    for _ in range(INPUTS):
        data = next(inputs)
        try:
            target(data)
        except Exception as error:
            raise AssertionError(f"{name}({data!r})") from error


def test_what_was_found_belongs_to_a_target() -> None:
    assert {path.name for path in CORPUS.glob("[!.]*")} <= set(TARGETS)
