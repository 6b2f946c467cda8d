"""The algebra of rules: a deny wins wherever it stands, and nothing is allowed by absence."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.access_rules import Rule, decide, matches

names = st.text(alphabet="ab/*.", max_size=8)
actions = st.sampled_from(["jobs.submit", "jobs.cancel", "results.read"])
action_patterns = st.sampled_from(["*", "jobs.*", "jobs.submit", "results.read", "nothing"])
resources = st.builds("{}:{}".format, st.sampled_from(["queue", "client"]), names)
patterns = st.one_of(st.just("*"), resources, st.just("client:{account}/*"))
rules = st.builds(Rule, st.sampled_from(["allow", "deny"]), action_patterns, patterns)
lists = st.lists(rules, max_size=8)
wanted = st.lists(resources, min_size=1, max_size=4)


@given(names, names)
def test_a_pattern_matches_as_a_regular_expression_would(pattern: str, text: str) -> None:
    twin = ".*".join(map(re.escape, pattern.split("*")))
    assert matches(pattern, text) == bool(re.fullmatch(twin, text, re.DOTALL))


@given(lists, lists, actions, wanted)
def test_the_order_of_rules_does_not_matter(
    one: list[Rule], two: list[Rule], action: str, resources: list[str]
) -> None:
    assert decide(one + two, "a", action, resources) == decide(two + one, "a", action, resources)


@given(lists, st.builds(Rule, st.just("deny"), action_patterns, patterns), actions, wanted)
def test_a_deny_never_gives_and_always_wins(
    one: list[Rule], deny: Rule, action: str, resources: list[str]
) -> None:
    after = decide([*one, deny], "a", action, resources)
    assert after <= decide(one, "a", action, resources)
    alone = Rule("allow", deny.action, deny.resource)
    if any(decide([alone], "a", action, [resource]) for resource in resources):
        assert not after


@given(lists, actions, wanted)
def test_all_resources_need_an_allow_of_their_own(
    one: list[Rule], action: str, resources: list[str]
) -> None:
    each = [decide(one, "a", action, [resource]) for resource in resources]
    assert decide(one, "a", action, resources) == all(each)


@given(lists, actions)
def test_nothing_is_allowed_without_a_rule_or_a_resource(one: list[Rule], action: str) -> None:
    assert not decide(one, "a", action, [])
    assert not decide([], "a", action, ["queue:a"])


def test_own_is_the_account_that_asks() -> None:
    own = [Rule("allow", "jobs.read", "client:{account}/*")]
    assert decide(own, "alice", "jobs.read", ["client:alice/7"])
    assert not decide(own, "bob", "jobs.read", ["client:alice/7"])
    assert not decide(own, "alice", "jobs.read", ["client:*"])


@given(lists, st.sampled_from(["queue", "client"]), names, actions)
def test_who_is_denied_one_of_a_kind_is_denied_all_of_it(
    one: list[Rule], kind: str, name: str, action: str
) -> None:
    deny = Rule("deny", action, f"{kind}:{name}")
    assert not decide([*one, deny], "a", action, [f"{kind}:*"])
