"""The systems that are measured, one file each, by name and mode."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from bench.peers.base import Peer

# Module and class by name. Imported when it is needed: the others' libraries must not disturb.
CLASSES: Final = {
    "rollq": ("rollq", "Rollq"),
    "rollq-raw": ("rollq", "RollqRaw"),
    "nats": ("nats", "Nats"),
    "nats-raw": ("nats", "NatsRaw"),
    "local": ("local", "Local"),
    "dask": ("dask", "Dask"),
    "ray": ("ray", "Ray"),
    "redis-list": ("redis_queues", "RedisList"),
    "celery": ("redis_queues", "Celery"),
    "rq": ("redis_queues", "Rq"),
    "dramatiq": ("redis_queues", "Dramatiq"),
    "etcd": ("etcd", "Etcd"),
    "rabbitmq": ("rabbitmq", "Rabbitmq"),
    "rabbitmq-raw": ("rabbitmq", "RabbitmqRaw"),
}


def make_peer(key: str) -> Peer:
    """The peer of a key `name:mode`.

    Raises:
        KeyError: nobody has this name.
    """
    name, _, mode = key.partition(":")
    module, kind = CLASSES[name]
    return cast(Peer, getattr(import_module(f"bench.peers.{module}"), kind)(mode))
