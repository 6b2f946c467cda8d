"""The outcomes of the calls of a bundle, as one value: [values, failures]. A call that raised has
None among the values, and among the failures its place, the exception, and the function's
traceback.

A value is packed when its call returns, so that later calls cannot change it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
from msgspec.msgpack import Ext

from rollq.values.calls import PLAIN_OR_INT
from rollq.values.codec import (
    INT_MAX,
    INT_MIN,
    Buffer,
    Packer,
    Tag,
    encode,
    unpack,
)

AS_THEY_ARE: Final = PLAIN_OR_INT - {str, int}


class Failure(NamedTuple):
    """A call that raised."""

    place: int
    error: Exception
    trace: str


class OutcomePacker:
    """Collects the outcomes of calls in order.

    Attributes:
        failures: The calls that raised.
    """

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self._values: list[Any] = []

    def __len__(self) -> int:
        return len(self._values)

    def returned(self, value: Any) -> None:
        """A call returned.

        Raises:
            CannotTravelError: naming the type that cannot. The call is not counted then.
        """
        kind = type(value)
        if kind in AS_THEY_ARE or (kind is int and INT_MIN <= value <= INT_MAX):
            self._values.append(value)
            return
        packer = Packer()
        head = packer.head(value)
        packed = Ext(Tag.PACKED, b"".join(packer.parts(head))) if packer.buffers else None
        self._values.append(packed or msgspec.Raw(head))

    def raised(self, error: Exception, trace: str) -> None:
        """A call raised."""
        self.failures.append(Failure(len(self._values), error, trace))
        self._values.append(None)

    def parts(self) -> list[Buffer]:
        """The packed value, in parts."""
        packer = Packer()
        failures = packer.form([list(one) for one in self.failures])
        return packer.parts(encode([self._values, failures]))


def unpack_outcomes(packed: Buffer) -> tuple[list[Any], list[Failure]]:
    """The returned values, and the failures.

    Raises:
        ValueError: it is damaged, or of a class or library that is not available.
    """
    try:
        values, failures = unpack(packed)
        return values, [Failure(*one) for one in failures]
    except TypeError:
        raise ValueError("damaged: these are not the ends of calls") from None
