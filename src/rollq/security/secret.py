"""A value that is never printed. Pure."""

from __future__ import annotations


class Secret:
    """Bytes that do not appear in `repr`, logs or errors. Compared by identity: a comparison of the
    values by `==` would not be in constant time."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The bytes themselves, for the call that needs them."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")
