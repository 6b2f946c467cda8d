"""Accounts and roles as the group agrees on them."""

from __future__ import annotations

import msgspec
import pytest

from rollq.base import limits
from rollq.base.access_rules import AccessRole, Account, Rule, TokenHash
from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, CacheEntry
from rollq.grid import access
from rollq.grid import commands as c
from rollq.grid.access_commands import (
    NoteAct,
    NoteRefusals,
    PutAccount,
    PutRole,
    Refusal,
    RemoveAccount,
    RemoveRole,
)
from rollq.grid.bounds import Bounds
from rollq.grid.effects import Done, Duplicate
from rollq.grid.events import AccessFact
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state_hash import hash_state
from tests.unit.grid.kit import Grid, job_id, kinds, refusal
from tests.unit.grid.staged import group

HASH, OTHER = b"h" * 32, b"o" * 32
SUBMIT = Rule("allow", "jobs.submit", "queue:q")
DENY = Rule("deny", "jobs.submit", "queue:q")
ANN = Account("ann", ("client",), tokens=(TokenHash("t1", HASH, 5_000_000),))
OLGA = Account("olga", ("admin",), tokens=(TokenHash("t", HASH),))


def with_olga() -> Grid:
    grid = Grid()
    assert grid.ask(PutAccount(OLGA)) == Done()
    return grid


def test_an_account_is_put_known_changed_and_removed() -> None:
    grid = Grid()
    applied = grid.apply(PutAccount(ANN, by="olga"))
    (event,) = applied.events
    assert event.kind == "account_put"
    assert event.access == AccessFact("olga", "ann")
    assert event.detail == "role client; 1 tokens; 0 keys"
    assert HASH.hex() not in repr(event)
    assert grid.state.access.version == applied.index
    assert grid.ask(PutAccount(ANN)) == Duplicate()
    assert grid.state.access.version == applied.index
    disabled = msgspec.structs.replace(ANN, is_disabled=True, rules=(SUBMIT,))
    (event,) = grid.apply(PutAccount(disabled)).events
    assert event.detail.endswith("allow jobs.submit queue:q; 1 tokens; 0 keys ; disabled")
    assert grid.state.access.version == applied.index + 2
    assert grid.state.access.account("ann") is None
    assert grid.state.access.rules_of("ann") == ()
    (event,) = grid.apply(RemoveAccount("ann", by="olga")).events
    assert (event.kind, event.access) == ("account_remove", AccessFact("olga", "ann"))
    assert not grid.state.access.accounts
    assert refusal(grid.ask(RemoveAccount("ann"))) == ErrorCode.UNKNOWN_ACCOUNT


def test_a_token_without_a_hash_is_the_one_that_is_stored() -> None:
    grid = Grid()
    grid.apply(PutAccount(ANN))
    shown = (TokenHash("t1", b"", 7_000_000), TokenHash("t2", OTHER))
    assert grid.ask(PutAccount(Account("ann", tokens=shown))) == Done()
    tokens = grid.state.access.accounts["ann"].tokens
    assert tokens == (TokenHash("t1", HASH, 7_000_000), TokenHash("t2", OTHER))
    unknown = Account("ann", tokens=(TokenHash("t3", b""),))
    assert refusal(grid.ask(PutAccount(unknown))) == ErrorCode.BAD_ACCESS


def test_two_who_change_at_once_lose_nothing() -> None:
    grid = Grid()
    seen = grid.apply(PutAccount(ANN)).index
    grid.apply(PutRole(AccessRole("nights", (SUBMIT,)), seen))
    changed = msgspec.structs.replace(ANN, roles=())
    assert refusal(grid.ask(PutAccount(changed, seen))) == ErrorCode.WRONG_STATE
    stale = PutRole(AccessRole("nights", ()), seen)
    assert refusal(grid.ask(stale)) == ErrorCode.WRONG_STATE
    assert grid.ask(PutAccount(changed, grid.state.access.version)) == Done()


def test_a_role_that_an_account_has_is_there() -> None:
    grid = Grid()
    wanted = Account("ann", ("nights",))
    assert refusal(grid.ask(PutAccount(wanted))) == ErrorCode.UNKNOWN_ROLE
    applied = grid.apply(PutRole(AccessRole("nights", (SUBMIT,)), by="olga"), PutAccount(wanted))
    assert kinds(applied) == ["role_put", "account_put"]
    assert grid.state.access.rules_of("ann") == (SUBMIT,)
    assert refusal(grid.ask(RemoveRole("nights"))) == ErrorCode.BAD_ACCESS
    grid.apply(PutRole(AccessRole("nights", (DENY,))))
    assert grid.state.access.rules_of("ann") == (DENY,)
    assert kinds(grid.apply(RemoveAccount("ann"), RemoveRole("nights"))) == [
        "account_remove",
        "role_remove",
    ]
    assert refusal(grid.ask(RemoveRole("nights"))) == ErrorCode.UNKNOWN_ROLE


def test_built_in_roles_stay_what_they_are() -> None:
    grid = Grid()
    assert refusal(grid.ask(PutRole(AccessRole("admin", ())))) == ErrorCode.BAD_ACCESS
    assert refusal(grid.ask(RemoveRole("admin"))) == ErrorCode.UNKNOWN_ROLE
    assert refusal(grid.ask(PutAccount(Account("a*")))) == ErrorCode.BAD_ACCESS


@pytest.mark.parametrize(
    "change",
    [
        RemoveAccount("olga"),
        PutAccount(msgspec.structs.replace(OLGA, is_disabled=True)),
        PutAccount(msgspec.structs.replace(OLGA, roles=("operator",))),
        PutAccount(msgspec.structs.replace(OLGA, rules=(Rule("deny", "access.*", "*"),))),
        PutAccount(msgspec.structs.replace(OLGA, tokens=())),
        PutAccount(msgspec.structs.replace(OLGA, tokens=(TokenHash("t", HASH, 1),))),
    ],
)
def test_the_last_who_could_undo_it_stays(change: PutAccount | RemoveAccount) -> None:
    grid = with_olga()
    assert refusal(grid.ask(change)) == ErrorCode.BAD_ACCESS
    assert grid.ask(msgspec.structs.replace(change, may_lock_out=True)) == Done()
    grid = with_olga()
    key = Account("pia", ("admin",), public_keys=(HASH,))
    grid.apply(PutAccount(key))
    assert grid.ask(change) == Done()


def test_a_role_is_not_changed_under_the_last_who_could_undo_it() -> None:
    grid = Grid()
    chief = AccessRole("chief", (Rule("allow", "access.*", "*"),))
    grid.apply(PutRole(chief), PutAccount(msgspec.structs.replace(OLGA, roles=("chief",))))
    assert refusal(grid.ask(PutRole(AccessRole("chief", ())))) == ErrorCode.BAD_ACCESS
    assert grid.ask(PutRole(AccessRole("chief", (*chief.rules, SUBMIT)))) == Done()


def test_there_are_only_so_many() -> None:
    grid = with_olga()
    grid.state.bounds = Bounds(accounts=2, roles=1)
    grid.apply(PutAccount(ANN), PutRole(AccessRole("one")))
    assert refusal(grid.ask(PutAccount(Account("bob")))) == ErrorCode.GRID_FULL
    assert refusal(grid.ask(PutRole(AccessRole("two")))) == ErrorCode.GRID_FULL
    assert grid.ask(PutAccount(Account("ann"))) == Done()
    assert grid.ask(PutRole(AccessRole("one", (SUBMIT,)))) == Done()


def test_access_survives_a_snapshot_in_any_order() -> None:
    one, two = with_olga(), with_olga()
    one.apply(PutAccount(ANN), PutRole(AccessRole("nights", (DENY,))))
    two.apply(PutAccount(ANN), PutRole(AccessRole("nights", (DENY,))))
    copy = decode_snapshot(encode_snapshot(one.state)).access
    assert copy.accounts == one.state.access.accounts
    assert copy.roles == one.state.access.roles
    assert copy.version == one.state.access.version > 0
    # The log is hashed as well, so the same log is written down, and the table turned around.
    two.state.access.accounts = dict(reversed(two.state.access.accounts.items()))
    assert encode_snapshot(one.state) == encode_snapshot(two.state)


def test_members_with_other_accounts_have_other_hashes() -> None:
    hashes = []
    for account in (ANN, msgspec.structs.replace(ANN, tokens=(TokenHash("t1", OTHER, 5_000_000),))):
        grid = Grid()
        applied = grid.apply(PutAccount(account))
        hash_state(grid.state, applied)
        hashes.append(grid.state.state_hash)
    assert hashes[0] != hashes[1]


def test_refusals_become_facts_and_are_bounded() -> None:
    grid = Grid()
    ann = Refusal("ann", "jobs.read", "client:bob", "10.0.0.7:40112", 3)
    (event,) = grid.apply(NoteRefusals((ann,))).events
    assert (event.kind, event.count) == ("refused", 3)
    assert event.access == AccessFact(
        "ann", action="jobs.read", resource="client:bob", address="10.0.0.7:40112"
    )
    for bad in (
        msgspec.structs.replace(ann, account="x" * 257),
        msgspec.structs.replace(ann, action="x" * 65),
        msgspec.structs.replace(ann, resource="x" * 513),
        msgspec.structs.replace(ann, address="x" * 513),
        msgspec.structs.replace(ann, count=0),
    ):
        assert refusal(grid.ask(NoteRefusals((ann, bad)))) == ErrorCode.BAD_OPTIONS
    many = (ann,) * (limits.REFUSALS_PER_NOTE_MAX + 1)
    assert refusal(grid.ask(NoteRefusals(many))) == ErrorCode.BAD_OPTIONS


def test_a_long_list_is_cut_in_the_audit() -> None:
    grid = Grid()
    rules = tuple(Rule("allow", "jobs.read", f"client:{n}{'x' * 400}") for n in range(20))
    (event,) = grid.apply(PutRole(AccessRole("long", rules))).events
    assert len(event.detail) == limits.DETAIL_BYTES_MAX + 2


def test_views_show_no_hash_and_go_page_by_page() -> None:
    grid = with_olga()
    grid.apply(PutAccount(ANN), PutRole(AccessRole("nights", (DENY,))))
    view = access.account_view(grid.state, "ann")
    assert view is not None
    assert view.tokens == (access.TokenView("t1", 5_000_000),)
    assert view.version == grid.state.access.version
    assert HASH not in msgspec.msgpack.encode(view)
    assert access.account_view(grid.state, "bob") is None
    assert [one.name for one in access.account_page(grid.state, "", 1)] == ["ann"]
    assert [one.name for one in access.account_page(grid.state, "ann", 9)] == ["olga"]
    roles = access.role_page(grid.state, "", 9)
    assert [one.name for one in roles if not one.is_built_in] == ["nights"]
    assert [one.name for one in access.role_page(grid.state, "operator", 9)] == ["reader", "worker"]


def test_the_largest_page_fits_an_answer() -> None:
    rules = tuple(
        Rule("allow", "results.confirm", f"client:{n:02}" + "x" * 503)
        for n in range(limits.ACCESS_RULES_MAX)
    )
    roles = tuple(f"{n:x>64}" for n in range(limits.ACCOUNT_ROLES_MAX))
    tokens = tuple(TokenHash(f"{n:x>64}", HASH, 2**53) for n in range(16))
    keys = tuple(bytes([n]) * 32 for n in range(16))
    grid = Grid()
    for number in range(limits.ACCESS_PAGE_ROWS_MAX + 1):
        account = Account(f"{number:x>64}", roles, rules, tokens, keys)
        grid.state.access.accounts[account.name] = account
    page = access.account_page(grid.state, "", 1_000)
    assert len(page) == limits.ACCESS_PAGE_ROWS_MAX
    assert len(msgspec.msgpack.encode(page)) < limits.ANSWER_BYTES_MAX


def test_acts_that_are_no_commands_become_facts() -> None:
    grid = Grid()
    act = NoteAct("remove_member", "cluster.change", "member:7", "olga")
    (event,) = grid.apply(act).events
    assert (event.kind, event.detail) == ("act", "remove_member")
    assert event.access == AccessFact("olga", action="cluster.change", resource="member:7")
    for field, length in (("by", 257), ("verb", 65), ("action", 65), ("resource", 513)):
        long = msgspec.structs.replace(act, **{field: "x" * length})
        assert refusal(grid.ask(long)) == ErrorCode.BAD_OPTIONS


def test_every_act_names_who_asked() -> None:
    grid = Grid()
    grid.submit("a", "b", "dead", max_attempts=1)
    grid.submit_array("many", 3)
    grid.kill("dead")
    staged = c.StageJobs("ann", "key", "p", 0, (group("s"),))
    grid.apply(staged)
    entry = CacheEntry("f", BlobRef(b"b" * 32, 7))
    for act, kind in (
        (c.PauseQueue("q", "olga"), "queue_pause"),
        (c.ResumeQueue("q", "olga"), "queue_resume"),
        (c.SetSettings(c.Settings(), "olga"), "settings"),
        (c.SetHints((), "olga"), "hints"),
        (c.PutCache("data", (entry,), ">", "olga"), "cache_put"),
        (c.RemoveCache("data", "olga"), "cache_remove"),
        (c.DropBatches((c.BatchName("ann", "key"),), "olga"), "batch_drop"),
        (c.RedriveJobs((c.RedriveItem(job_id("dead")),), "olga"), "redrive"),
        (c.CancelJobs((job_id("a"), job_id("many")), "olga"), "cancel"),
    ):
        events = [event for event in grid.apply(act).events if event.kind == kind]
        assert events
        assert [event.access for event in events] == [AccessFact("olga")] * len(events), kind
    grid.start("c")
    (event,) = grid.apply(c.CancelJobs((job_id("c"),), "olga")).events
    assert (event.kind, event.access) == ("cancel_request", AccessFact("olga"))
    grid.kill("dead")
    (event,) = grid.apply(c.PurgeJobs((job_id("dead"),), "olga")).events
    assert (event.kind, event.access) == ("purge", AccessFact("olga"))
    (event,) = grid.apply(c.ExpireJobs((job_id("b"),))).events[:1]
    assert event.access is None
