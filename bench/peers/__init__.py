"""The systems that are measured, one file each, by name and mode."""

from __future__ import annotations

from collections.abc import Callable

from bench.peers.base import Peer


def make_peer(key: str) -> Peer:
    """The peer of a key `name:mode`. Only its own module is imported.

    Raises:
        KeyError: nobody has this name.
    """
    name, _, mode = key.partition(":")
    return _MAKERS[name](mode)


def _rollq(mode: str) -> Peer:
    from bench.peers.rollq import Rollq  # noqa: PLC0415 - the others' imports must not disturb

    return Rollq(members=3 if mode == "r3" else 1)


def _nats(mode: str) -> Peer:
    from bench.peers.nats import Nats  # noqa: PLC0415

    return Nats(mode)


def _nats_raw(mode: str) -> Peer:
    from bench.peers.nats import NatsRaw  # noqa: PLC0415

    return NatsRaw(mode)


def _local(mode: str) -> Peer:
    from bench.peers.local import Local  # noqa: PLC0415

    return Local(mode)


_MAKERS: dict[str, Callable[[str], Peer]] = {
    "rollq": _rollq,
    "nats": _nats,
    "nats-raw": _nats_raw,
    "local": _local,
}
