"""Situations in which a rule of operators, a need of the job or another job keeps it waiting; what
is told."""

from __future__ import annotations

from rollq.base.ids import guid_to_text
from rollq.base.jobs import Condition, ParentRef
from rollq.base.reasons import Reason
from rollq.grid import commands as c
from rollq.grid.rule_commands import PutPolicy
from tests.unit.grid.kit import job_id
from tests.unit.policy.kit import NOTHING, Desk
from tests.unit.policy.scripts import Script
from tests.unit.policy.situations import A, Asked, row, situation

PARENT = guid_to_text(job_id("b"))


def limited(text: str) -> Asked:
    """Something happened, and `a` waits for a limit."""
    script = Script()
    script.play(text)
    return script, A, NOTHING


@situation
def limit_that_is_full() -> Asked:
    return limited("""
        limit key:licence running=3
        open w=9
        submit x keys=licence:2
        gives x@w
        submit a b keys=licence:2
        gives
    """)


@situation
def limit_of_a_program_that_is_full() -> Asked:
    return limited("""
        limit exec:exe running=1
        open w=9
        submit x
        gives x@w
        submit a
        gives
    """)


@situation
def limit_that_is_too_small() -> Asked:
    return limited("""
        limit key:licence running=3
        open w=9
        submit a keys=licence:4
        gives
    """)


@situation
def turn_at_a_limit() -> Asked:
    return limited("""
        limit key:licence running=3
        open w=9
        submit x keys=licence:2
        gives x@w
        submit b keys=licence:2
        submit a keys=licence
        gives
    """)


@situation
def rate_that_is_used_up() -> Asked:
    return limited("""
        limit client:ann rate=30/min burst=2
        open w=9
        submit x y a
        gives x@w y@w
        wait 300
        wakes 1700
    """)


@situation
def labels_that_nobody_has() -> Asked:
    desk = Desk()
    desk.worker("v", 1, labels=("zone=a",))
    desk.worker("w", 1)
    desk.submit("a", labels=("!spot", "zone=b"))
    desk.run()
    return desk, A, NOTHING


@situation
def resources_that_nobody_has() -> Asked:
    desk = Desk()
    desk.worker("v", 1, labels=("zone=a",), resources=(("cpu", 4_000), ("gpu", 1_000)))
    desk.worker("w", 1, resources=(("gpu", 8_000),))
    desk.submit("a", labels=("zone=a",), resources=(("cpu", 1_500), ("gpu", 2_000)))
    desk.run()
    return desk, A, NOTHING


@situation
def resources_that_others_hold() -> Asked:
    desk = Desk()
    desk.worker("w", 5, resources=(("gpu", 2_000),))
    desk.submit("x", resources=(("gpu", 1_500),))
    assert desk.run() == ["x@w"]
    desk.submit("a", resources=(("gpu", 1_000),))
    desk.run()
    return desk, A, NOTHING


@situation
def turns_by_weight() -> Asked:
    script = Script()
    script.play("""
        weigh ann=3
        open w=1
        submit x a
        submit y client=bob
    """)
    return script, A, NOTHING


@situation
def queue_with_a_policy() -> Asked:
    desk = Desk()
    desk.apply(PutPolicy("q", "sticky"))
    desk.submit("a")
    desk.worker("w", 1)
    return desk, A, NOTHING


@situation
def blocked() -> Asked:
    desk = Desk()
    desk.submit("b", "c")
    after = ParentRef(job_id("b")), ParentRef(job_id("c"), Condition.ENDED)
    desk.submit("a", after=after)
    return desk, A, NOTHING


@situation
def cancelled_with_its_parent() -> Asked:
    desk = Desk()
    desk.submit("b")
    desk.submit("a", after=(ParentRef(job_id("b")),))
    desk.apply(c.CancelJobs((job_id("b"),)))
    return desk, A, NOTHING


RULE_ROWS = [
    row(
        "limit_that_is_full",
        "waiting",
        Reason.LIMIT,
        "limit key:licence has 2 of 3 in use, and it needs 2; waiting for it: 2",
        "rollq limit set key:licence --running 6",
    ),
    row(
        "limit_of_a_program_that_is_full",
        "waiting",
        Reason.LIMIT,
        "limit exec:exe has 1 of 1 in use",
        "rollq limit set exec:exe --running 2",
    ),
    row(
        "limit_that_is_too_small",
        "waiting",
        Reason.LIMIT,
        "it needs 4 tokens of limit key:licence, which has 3 in all",
        "rollq limit set key:licence --running 4",
    ),
    row(
        "turn_at_a_limit",
        "waiting",
        Reason.LIMIT,
        "it waits for its turn at limit key:licence; waiting for it: 2",
        "rollq limit list",
    ),
    row(
        "rate_that_is_used_up",
        "waiting",
        Reason.RATE,
        "limit client:ann allows 30/min, in bursts of up to 2; next start in 1.7 s",
        "rollq limit set client:ann --rate 1/s --burst 2",
    ),
    row(
        "labels_that_nobody_has",
        "waiting",
        Reason.LABELS,
        "it needs !spot, zone=b; for queue q, 2 workers lack label zone=b",
        "rollq worker 10.0.0.1 5000 q --label zone=b",
    ),
    row(
        "resources_that_nobody_has",
        "waiting",
        Reason.RESOURCES,
        "it needs zone=a, cpu 1.5, gpu 2; for queue q, 1 worker lacks label zone=a; 1 worker has 1 "
        "gpu, 2 needed",
        "rollq worker 10.0.0.1 5000 q --label zone=a --resource cpu=1.5 --resource gpu=2",
    ),
    row(
        "resources_that_others_hold",
        "waiting",
        Reason.RESOURCES_BUSY,
        "it needs gpu 1; for queue q, 1 worker has 0.5 gpu free of 2, 1 needed",
        "rollq worker 10.0.0.1 5000 q --resource gpu=1",
    ),
    row(
        "turns_by_weight",
        "waiting",
        Reason.BEHIND,
        "waiting behind other jobs of queue q: 1 of client ann, which come first, and 1 more, "
        "which take turns with it by priority and client; ann has weight 3: 3 turns per turn of a "
        "client of weight 1",
        "rollq queue list",
        "rollq weight list",
    ),
    row(
        "queue_with_a_policy",
        "waiting",
        Reason.BEHIND,
        "it is the next of queue q; the queue chooses workers by sticky",
        "rollq queue list",
    ),
    row(
        "blocked",
        "blocked",
        Reason.BLOCKED,
        f"it waits for job {PARENT} to end ok, and for 1 more job",
        f"rollq explain {PARENT}",
    ),
    row(
        "cancelled_with_its_parent",
        "cancelled",
        Reason.PARENT,
        f"cancelled, because job {PARENT} was cancelled",
        f"rollq explain {PARENT}",
    ),
]
