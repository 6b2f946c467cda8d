"""Durable submits to three servers on this machine, acknowledged by a majority."""

from __future__ import annotations

from bench.works import Work
from bench.works.submit import COLUMNS, measure

WORK = Work(
    "replicated",
    "Submits to three members, majority on disk, 200 B",
    (
        "rollq:r3",
        "rollq-raw:r3",
        "nats:r3",
        "nats:r3-durable",
        "nats-raw:r3-durable",
        "etcd:r3",
        "rabbitmq-raw:r3",
    ),
    measure,
    case_s_max=180,
    columns=COLUMNS,
)
