"""The tables of admin verbs and of views: complete, and as the protocol page has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollq.base.access import Action
from rollq.grid.batches import BatchFilter
from rollq.grid.matching import JobFilter
from rollq.roles.member import query_keys
from rollq.roles.member.leader.admin import CHECKS, VERBS, Verb
from rollq.roles.member.queries import VIEWS, ViewRow
from rollq.wire.messages import Query
from rollq.wire.registry import ROWS
from tests.unit.wire.samples import JOB

PAGE = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
KEYS: dict[Callable[[bytes], Any], str] = {
    query_keys.no_key: "",
    query_keys.some_id: "id",
    query_keys.name_key: "name",
    query_keys.place_key: "place",
    query_keys.job_filter: "filter",
    query_keys.id_filter: "filter",
    query_keys.job_place: "id and place",
    query_keys.batch_name: "client and key",
    query_keys.batch_filter: "filter",
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_a_verb_has_bounds_and_a_resource(verb: Verb) -> None:
    assert verb.arguments in CHECKS
    assert not verb.arguments.__struct_config__.array_like  # they come as a map
    first = verb.resource.field.partition(".")[0]
    assert not first or first in verb.arguments.__struct_fields__
    assert first or verb.action is Action.SETTINGS_WRITE  # what counts for all


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_a_view_names_its_resource_by_its_key(view: ViewRow) -> None:
    resources = (view.resource, *view.also)
    if KEYS[view.key] == "filter":  # its fields, or all there is
        names = {*JobFilter.__struct_fields__, *BatchFilter.__struct_fields__}
        assert all(not one.field or one.field in names for one in resources)
        return
    if KEYS[view.key] == "id and place":
        assert [one.names_in(view.key(JOB + b"\7")) for one in resources] == [(JOB,)]
        return
    if KEYS[view.key] == "client and key":
        name = view.key(msgspec.msgpack.encode(("ann", "load-7")))
        assert [one.names_in(name) for one in resources] == [("ann",), ()]
        return
    query = Query(JOB, "a view", b"key")
    assert all(one.names_in(query) in ((), (b"key",)) for one in resources)
    assert not view.resource.field or KEYS[view.key] in ("id", "name")


def test_every_action_is_asked_for_somewhere() -> None:
    asked = {row.action for row in ROWS}
    asked |= {one.action for row in ROWS for one in row.resources if one.action is not None}
    asked |= {verb.action for verb in VERBS.values()} | {view.action for view in VIEWS.values()}
    assert asked == set(Action)


def test_the_page_says_which_views_the_leader_alone_can_answer() -> None:
    (listed,) = re.findall(r"NOT_LEADER, are the views ([^.]*)\.", PAGE)
    named = re.findall(r"`(\w+)`", listed)
    assert named == [name for name, view in VIEWS.items() if view.of_leader]


def test_the_page_lists_verbs_and_views() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]*?) ?\| `([\w.]+)` \|$", PAGE, re.MULTILINE)
    assert rows == [
        *(
            (name, ", ".join(verb.arguments.__struct_fields__), verb.action.value)
            for name, verb in VERBS.items()
        ),
        *((name, KEYS[view.key], view.action.value) for name, view in VIEWS.items()),
    ]
