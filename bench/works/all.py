"""Every work by its name, in the order in which they are done."""

from __future__ import annotations

from bench.works import (
    Work,
    backlog,
    beside,
    execs,
    failover,
    growth,
    large,
    latency,
    noop,
    replicated,
    submit,
    sustained,
)

WORKS: dict[str, Work] = {
    one.name: one
    for one in (
        noop.WORK,
        noop.WIDE_WORK,
        sustained.WORK,
        submit.WORK,
        large.WORK,
        replicated.WORK,
        latency.WORK,
        beside.WORK,
        growth.WORK,
        failover.WORK,
        execs.WORK,
        backlog.WORK,
    )
}
