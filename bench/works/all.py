"""Every work by its name, in the order in which they are done."""

from __future__ import annotations

from bench.works import Work, execs, noop, replicated, submit

WORKS: dict[str, Work] = {
    one.name: one
    for one in (
        noop.WORK,
        submit.WORK,
        replicated.WORK,
        execs.WORK,
    )
}
