"""Storage of job bodies, as the grid sees it.

A record holds a token: either the bytes of a body in memory, or a number that a `Bodies` of the
shell assigned to a body it stores elsewhere. The grid never interprets a number, and no decision,
output or hash depends on which of the two a token is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol, TypeAlias

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.sealed import seal, sealed_bytes

Token: TypeAlias = bytes | int
# Tokens for bodies of these lengths, which are contiguous, each with its checksum
# (`rollq.base.sealed`), from this offset on in the snapshot that is being read.
Adopt: TypeAlias = Callable[[int, list[int]], list[Token]]


class Bodies(Protocol):
    """A store of bodies. A token of `keep` is dropped once, or with the whole state. Bytes that it
    did not return (the body of an array) may be loaded too, and are never dropped."""

    def entering(self, index: int, data: bytes) -> None:
        """The bodies that are kept next came with this entry of the log."""

    def keep(self, body: bytes) -> Token:
        """Store a body and return its token."""

    def keep_all(self, bodies: Sequence[bytes]) -> Sequence[Token]:
        """Store several bodies."""

    def load(self, token: Token) -> bytes:
        """Load a body."""

    def load_all(self, tokens: Sequence[Token]) -> Sequence[bytes]:
        """Load several bodies."""

    def sealed(self, tokens: Sequence[Token]) -> Iterator[bytes]:
        """Bodies in order, each with its checksum, as pieces of any length."""

    def size(self, token: Token) -> int:
        """The length of a body, without loading it."""

    def drop_all(self, tokens: Sequence[Token]) -> None:
        """Delete several bodies."""


class MemoryBodies:
    """All bodies in memory: for tests, the simulator and copies of a state."""

    __slots__ = ()

    def entering(self, index: int, data: bytes) -> None:
        """Ignored."""

    def keep(self, body: bytes) -> Token:
        """The body itself."""
        return body

    def keep_all(self, bodies: Sequence[bytes]) -> Sequence[Token]:
        """The bodies themselves."""
        return bodies

    def load_all(self, tokens: Sequence[Token]) -> Sequence[bytes]:
        """The tokens themselves."""
        return [token if isinstance(token, bytes) else self.load(token) for token in tokens]

    def load(self, token: Token) -> bytes:
        """The token itself."""
        if isinstance(token, bytes):
            return token
        raise LocalError(ErrorCode.BUG, f"body {token} is not in memory")

    def sealed(self, tokens: Sequence[Token]) -> Iterator[bytes]:
        """Each as a piece."""
        return map(seal, map(self.load, tokens))

    def size(self, token: Token) -> int:
        """Its length."""
        return len(self.load(token))

    def drop_all(self, tokens: Sequence[Token]) -> None:
        """Nothing to do."""


def slices_of(data: bytes) -> Adopt:
    """For a snapshot that is completely in memory.

    The tokens raise ValueError if the snapshot is too short for its bodies.
    """

    def adopt(offset: int, sizes: list[int]) -> list[Token]:
        places = list(accumulate(map(sealed_bytes, sizes), initial=offset))
        if places[-1] > len(data):
            raise ValueError("the snapshot ends before its bodies do")
        return [data[at : at + size] for at, size in zip(places, sizes, strict=False)]

    return adopt
