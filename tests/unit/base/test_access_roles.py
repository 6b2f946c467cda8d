"""The built-in roles: what each may and may not do, action by action."""

from __future__ import annotations

import pytest

from rollq.base.access import Action, ResourceKind
from rollq.base.access_checks import why_bad_rules
from rollq.base.access_roles import BUILT_IN
from rollq.base.access_rules import decide
from rollq.base.limits import ACCESS_RULES_MAX

A = Action
# What only comes from members, or is another action in truth (that of its verb or view), or comes
# before anybody is known, or with what was let in.
NOT_ASKED = {
    *(A.ANSWER, A.JOBS_ASSIGN, A.ADMIN, A.QUERY, A.GROUP_JOIN, A.GROUP_REPLICATE),
    *(A.SESSION_LOGIN, A.SESSION_PING, A.BLOBS_TRANSFER, A.SUBJECTS_HOLD),
}
OWN_JOB = ("client:ann/7", "queue:render.4k")
OTHER_JOB = ("client:bob/1", "queue:render.4k")
EVERYTHING = tuple(f"{kind}:*" for kind in ResourceKind)


def may(role: str, action: str, *resources: str) -> bool:
    return decide(BUILT_IN[role].rules, "ann", action, resources)


def test_the_roles_are_those_of_the_decision_and_sound() -> None:
    assert set(BUILT_IN) == {"admin", "operator", "client", "worker", "reader"}
    for role in BUILT_IN.values():
        assert len(role.rules) == len(set(role.rules))
        assert all(not why_bad_rules([rule]) for rule in role.rules)
        assert all(rule.effect == "allow" for rule in role.rules)
    assert len(BUILT_IN["client"].rules) <= ACCESS_RULES_MAX


@pytest.mark.parametrize("action", Action)
def test_an_admin_may_do_everything(action: Action) -> None:
    assert may("admin", action, *EVERYTHING)


@pytest.mark.parametrize("action", sorted(set(Action) - NOT_ASKED))
def test_every_action_belongs_to_somebody_but_admins(action: Action) -> None:
    holders = {
        name
        for name, role in BUILT_IN.items()
        if name != "admin" and any(rule.action == action for rule in role.rules)
    }
    of_admins = (A.ACCESS_WRITE, A.CLUSTER_CHANGE, A.CLUSTER_BACKUP, A.SECRETS_USE)
    assert bool(holders) == (action not in of_admins)


@pytest.mark.parametrize("action", sorted(NOT_ASKED))
def test_nobody_but_members_speaks_as_a_member(action: Action) -> None:
    for name in ("operator", "client", "worker", "reader"):
        assert not may(name, action, "group:*")


ON_JOBS = (
    *(A.JOBS_READ, A.JOBS_CANCEL, A.JOBS_REDRIVE, A.JOBS_PURGE),
    *(A.RESULTS_READ, A.RESULTS_CONFIRM, A.OUTPUT_READ),
)


@pytest.mark.parametrize("action", ON_JOBS)
def test_a_client_does_what_it_likes_with_its_own_jobs_alone(action: Action) -> None:
    assert may("client", action, *OWN_JOB)
    assert not may("client", action, *OTHER_JOB)
    assert not may("client", action, "client:*", "queue:*")
    assert not may("client", action, "client:anna", "queue:q")
    assert may("operator", action, *OTHER_JOB)
    assert not may("worker", action, *OWN_JOB)


def test_a_client_submits_under_its_own_ids_to_any_queue() -> None:
    assert may("client", A.JOBS_SUBMIT, "queue:q", "exec:calc")
    assert may("client", A.JOBS_SUBMIT, "client:ann/etl", "queue:q", "exec:calc")
    assert not may("client", A.JOBS_SUBMIT, "client:bob", "queue:q", "exec:calc")
    assert may("client", A.CLIENT_CONNECT, "client:ann")
    assert may("client", A.CLIENT_CONNECT, "client:ann/7")
    assert not may("client", A.CLIENT_CONNECT, "client:bob")
    assert not may("client", A.CLIENT_CONNECT, "client:*")


def test_a_client_has_its_own_files_and_caches() -> None:
    assert may("client", A.BLOBS_READ, "client:ann/7")
    assert not may("client", A.BLOBS_READ, "client:bob")
    assert not may("client", A.BLOBS_READ, "blob:00ff")
    assert may("client", A.CACHES_READ, "cache:models")
    assert may("client", A.CACHES_WRITE, "cache:ann/models")
    assert not may("client", A.CACHES_WRITE, "cache:models")


@pytest.mark.parametrize(
    "action",
    [
        *(A.QUEUES_PAUSE, A.WORKERS_DISMISS, A.SETTINGS_WRITE, A.CLUSTER_CHANGE),
        *(A.ACCESS_WRITE, A.HISTORY_READ, A.TABLES_READ, A.HISTORY_HOLD, A.WORKER_CONNECT),
        A.JOBS_RUN,
    ],
)
def test_a_client_does_not_run_the_grid(action: Action) -> None:
    assert not any(may("client", action, one) for one in EVERYTHING)


def test_a_worker_runs_jobs_and_asks_for_nothing_else() -> None:
    assert may("worker", A.WORKER_CONNECT, "worker:0a", "pattern:>")
    assert may("worker", A.JOBS_RUN, *OTHER_JOB)
    assert may("worker", A.BLOBS_READ, "client:bob")
    assert not may("worker", A.CLIENT_CONNECT, "client:ann")
    assert not may("worker", A.JOBS_SUBMIT, "queue:q", "exec:calc")


CHANGES = [
    *(A.JOBS_SUBMIT, A.JOBS_CANCEL, A.JOBS_REDRIVE, A.JOBS_PURGE, A.RESULTS_CONFIRM),
    *(A.BLOBS_WRITE, A.CACHES_WRITE, A.QUEUES_PAUSE, A.WORKERS_DISMISS, A.SETTINGS_WRITE),
    *(A.CLUSTER_CHANGE, A.ACCESS_WRITE, A.WORKER_CONNECT, A.JOBS_RUN),
]


@pytest.mark.parametrize("action", CHANGES)
def test_a_reader_changes_nothing(action: Action) -> None:
    assert not any(may("reader", action, one) for one in (*EVERYTHING, "client:ann", "cache:ann/x"))


def test_a_reader_sees_all_but_the_access_lists() -> None:
    for action in (A.HISTORY_READ, A.TABLES_READ, A.RESULTS_READ, A.JOBS_READ, A.WORKERS_READ):
        assert may("reader", action, *EVERYTHING)
    assert may("reader", A.ACCESS_READ, "account:ann")
    assert not may("reader", A.ACCESS_READ, "account:bob")
    assert may("operator", A.ACCESS_READ, "account:*")


def test_an_operator_changes_neither_members_nor_rights() -> None:
    for action in (A.QUEUES_PAUSE, A.WORKERS_DISMISS, A.SETTINGS_WRITE, A.CACHES_WRITE):
        assert may("operator", action, *EVERYTHING)
    assert not may("operator", A.CLUSTER_CHANGE, "member:7")
    assert not may("operator", A.ACCESS_WRITE, "account:ann")
    assert not may("operator", A.JOBS_SUBMIT, "client:bob", "queue:q", "exec:calc")
