"""Whatever is asked of accounts and roles: none dangles, a deny wins through any role, a snapshot
brings all of it back, and somebody who could change accounts is left."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.access_roles import BUILT_IN
from rollq.base.access_rules import AccessRole, Account, Rule, TokenHash, decide
from rollq.grid.access_commands import PutAccount, PutRole, RemoveAccount, RemoveRole
from rollq.grid.commands import Command
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from tests.unit.grid.kit import Grid

names = st.sampled_from(["ann", "bob", "a*"])
roles = st.sampled_from(["days", "nights"])
actions = st.sampled_from(["jobs.submit", "jobs.*", "*", "access.write", "no.such"])
resources = st.sampled_from(["queue:q", "queue:*", "*", "client:{account}", "account:*"])
rules = st.builds(Rule, st.sampled_from(["allow", "deny"]), actions, resources)
lists = st.lists(rules, max_size=3, unique=True).map(tuple)
tokens = st.sampled_from([(), (TokenHash("t", b"h" * 32),), (TokenHash("t", b""),)])
accounts = st.builds(
    Account,
    names,
    st.lists(roles | st.sampled_from(sorted(BUILT_IN)), max_size=2).map(tuple),
    lists,
    tokens,
    st.just(()),
    st.booleans(),
)
versions = st.sampled_from([0, 0, 0, 2, 5])
commands = st.one_of(
    st.builds(PutAccount, accounts, versions, by=st.just("x")),
    st.builds(PutRole, st.builds(AccessRole, roles | st.just("admin"), lists), versions),
    st.builds(RemoveAccount, names),
    st.builds(RemoveRole, roles),
)


@settings(deadline=None)
@given(st.lists(commands, max_size=20))
def test_every_state_of_the_access_lists_is_sound(asked: list[Command]) -> None:
    grid = Grid()  # which checks all laws after every command
    table = grid.state.access
    for command in asked:
        could, version = table.can_be_changed(grid.stamp_ms), table.version
        applied = grid.apply(command)
        assert table.can_be_changed(grid.stamp_ms) or not could
        assert table.version == (applied.index if applied.events else version)
        if isinstance(command, PutAccount | PutRole) and applied.events:
            assert command.version in (0, version)
    copy = decode_snapshot(encode_snapshot(grid.state)).access
    assert (copy.accounts, copy.roles, copy.version) == (table.accounts, table.roles, table.version)
    for account in table.listed_accounts():
        held = [rule for role in account.roles for rule in copy.rules_of_role(role)]
        held += account.rules
        name = account.name
        assert copy.rules_of(name) == (() if account.is_disabled else tuple(held))
        for resource in ("queue:q", "client:ann"):
            if decide(copy.rules_of(name), name, "jobs.submit", [resource]):
                denies = [rule for rule in held if rule.effect == "deny"]
                undone = [Rule("allow", rule.action, rule.resource) for rule in denies]
                assert not decide(undone, name, "jobs.submit", [resource])
