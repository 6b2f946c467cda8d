"""The addresses of a group, as an application gives them."""

from __future__ import annotations

from rollq.base.errors import ErrorCode, LocalError
from rollq.net.dialer import split_address
from rollq.roles.client.answers import ArgumentTypeError


def as_addresses(text: str) -> tuple[str, ...]:
    """Split `host:port,host:port…`.

    Raises:
        LocalError: BAD_ADDRESS.
        ArgumentTypeError: BAD_ADDRESS, if it is not a string.
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(
            ErrorCode.BAD_ADDRESS,
            f"addresses is {type(text).__name__}",
            'give a string with the members of the group: "host:port,host:port"',
        )
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    if not addresses:
        raise LocalError(ErrorCode.BAD_ADDRESS, "no address", "give host:port, or several with ,")
    for address in addresses:
        split_address(address)
    return addresses
