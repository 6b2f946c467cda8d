"""The page about access lists what every message, verb and view asks for, as the tables have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rollq.base.access import Action, LinkRole, Resource
from rollq.base.access import ResourceKind as K
from rollq.roles.access import PERMITTED
from rollq.roles.member.guard.names import FREE
from rollq.roles.member.leader.admin import VERBS
from rollq.roles.member.queries import VIEWS
from rollq.wire.messages import CachePut, HelloWorker
from rollq.wire.reader_messages import PartAsk
from rollq.wire.registry import ROWS

PAGE = (Path(__file__).parents[3] / "docs" / "access.md").read_text(encoding="utf-8")
# How a kind is asked for, if that is not by its own name.
ASKED_AS = {
    K.SESSION: ("its own `client` or `worker`",),
    K.JOB: ("`client` and `queue` of the job",),
    K.BLOB: ("a `client` or `cache` that has the file",),
    K.PATTERN: ("`queue`",),
}
BY_CONTENT = (CachePut, PartAsk)  # what they are on is found in them, though no field names it


def table() -> Iterator[str]:
    """The lines, in the order of the tables."""
    heard = {one for role in LinkRole if role is not LinkRole.MEMBER for one in PERMITTED[role]}
    for row in ROWS:
        is_other = row.action in FREE or row.action in (Action.ADMIN, Action.QUERY)
        if row.struct in heard and not is_other:
            named = row.struct in BY_CONTENT
            yield line(f"`{row.name}`", row.action, row.resources, is_named=named)
    for name, verb in VERBS.items():
        yield line(f"verb `{name}`", verb.action, (verb.resource, *verb.also))
    for name, view in VIEWS.items():
        yield line(f"view `{name}`", view.action, (view.resource, *view.also))


def line(
    name: str, action: Action, resources: Iterable[Resource], *, is_named: bool = False
) -> str:
    """One of them."""
    asked: dict[Action, dict[str, None]] = {}
    for resource in resources:
        words = asked.setdefault(resource.action or action, {})
        words.update(dict.fromkeys(words_of(resource, is_named=is_named)))
    said = "; ".join(f"`{one}` on {', '.join(words)}" for one, words in asked.items())
    return f"| {name} | {said} |"


def words_of(resource: Resource, *, is_named: bool) -> tuple[str, ...]:
    """The resources that a row asks for, as the page calls them."""
    kind = resource.kind
    if kind is K.JOB and not resource.field:
        return ("`client:*`", "`queue:*`")
    if kind in ASKED_AS:
        return ASKED_AS[kind]
    is_all = kind in (K.GROUP, K.GRID) or not (resource.field or is_named)
    return (f"`{kind}:*`" if is_all else f"`{kind}`",)


def test_the_page_says_what_everything_asks_for() -> None:
    wanted = list(table())
    found = [text for text in PAGE.splitlines() if text in set(wanted)]
    assert found == wanted, "\n".join(["docs/access.md should have:", *wanted])
    assert HelloWorker.__name__ in "".join(wanted)
