"""Every work by its name, in the order in which they are done."""

from __future__ import annotations

from bench.works import Work, backlog, execs, failover, noop, replicated, submit

WORKS: dict[str, Work] = {
    one.name: one
    for one in (
        noop.WORK,
        submit.WORK,
        replicated.WORK,
        failover.WORK,
        execs.WORK,
        backlog.WORK,
    )
}
