"""A value that never shows itself. Pure."""

from __future__ import annotations


class Secret:
    """Bytes that are not shown: not in `repr`, not in a log, not in an error. Compared by
    identity, so that nobody compares one with `==` in variable time."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The bytes themselves, for the one call that needs them."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")
