"""Where the bodies of jobs are, as the grid sees it.

A record holds a token. Bytes are a token of their own: a body in memory. A number is somebody
else's: a body that a `Bodies` of the shell has put away. The grid never looks into a number, and
nothing that it decides, writes or hashes depends on which of the two a token is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol, TypeAlias

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.sealed import seal, sealed_bytes

Token: TypeAlias = bytes | int
# Tokens for bodies of these lengths, which stand one behind another, each with its checksum
# (`rollq.base.sealed`), from this offset on in the snapshot that is being read.
Adopt: TypeAlias = Callable[[int, list[int]], list[Token]]


class Bodies(Protocol):
    """Keeps bodies. What `keep` gave is dropped once, or goes with the whole state. Bytes that it
    did not give (the body of an array) may be loaded too, and are never dropped."""

    def entering(self, index: int, data: bytes) -> None:
        """The bodies that are kept next came with this entry of the log."""

    def keep(self, body: bytes) -> Token:
        """Take a body; what comes back stands for it."""

    def keep_all(self, bodies: Sequence[bytes]) -> Sequence[Token]:
        """Take several bodies."""

    def load(self, token: Token) -> bytes:
        """The body again."""

    def load_all(self, tokens: Sequence[Token]) -> Sequence[bytes]:
        """Several bodies again."""

    def sealed(self, tokens: Sequence[Token]) -> Iterator[bytes]:
        """Many bodies, each with its checksum, one behind another, in pieces of any length."""

    def size(self, token: Token) -> int:
        """Its length, without loading it."""

    def drop(self, token: Token) -> None:
        """Nobody will ask for this body again."""


class MemoryBodies:
    """Everything stays in memory: for tests, for the simulator and for copies of a state."""

    __slots__ = ()

    def entering(self, index: int, data: bytes) -> None:
        """It does not matter where they came from."""

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

    def drop(self, token: Token) -> None:
        """Nothing to do."""


def slices_of(data: bytes) -> Adopt:
    """For a snapshot that is in memory as a whole.

    What it gives raises ValueError if the snapshot is too short for its bodies.
    """

    def adopt(offset: int, sizes: list[int]) -> list[Token]:
        places = list(accumulate(map(sealed_bytes, sizes), initial=offset))
        if places[-1] > len(data):
            raise ValueError("the snapshot ends before its bodies do")
        return [data[at : at + size] for at, size in zip(places, sizes, strict=False)]

    return adopt
