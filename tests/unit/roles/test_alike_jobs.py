"""Jobs that are made as columns are the very jobs that are made one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.errors import LocalError
from rollq.base.limits import STAGE_CHUNK_BYTES
from rollq.base.staged import StagedGroup, ids_of
from rollq.roles.client.jobs.alike import AlikeJobs, alike_group
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.parts import PartBuilder
from rollq.roles.client.jobs.supply import SubmitMaker

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
OPTIONS: tuple[Options, ...] = ({}, {"priority": 3, "queue": "q", "retry_exit_codes": [75]})


def one_by_one(client_id: str, jobs: AlikeJobs) -> list[StagedGroup]:
    builder = PartBuilder(client_id, "key", "part")
    specs = [jobs.spec(number) for number in range(len(jobs.args))]
    messages = [*builder.messages(specs), *builder.rest()]
    return [group for message, _ in messages for group in message.groups]


@given(
    st.sampled_from(["spark", 'a"b\\', ',"Args":[]', "\u00e9"]),
    st.sampled_from(OPTIONS),
    st.lists(st.tuples(st.lists(TEXTS, max_size=3), KEYS.map(lambda key: key[:60])), min_size=1),
)
def test_they_are_the_same(
    client_id: str, options: Options, rows: list[tuple[list[str], str]]
) -> None:
    jobs = AlikeJobs("calc", options, [args for args, _ in rows], [key for _, key in rows])
    assert [alike_group(client_id, jobs, SubmitMaker(client_id))] == one_by_one(client_id, jobs)


def test_without_keys_each_has_an_id_of_its_own() -> None:
    jobs = AlikeJobs("calc", {}, [["1"], ["2"], ["3"]])
    group = alike_group("spark", jobs, SubmitMaker("spark"))
    assert group is not None
    assert len(set(ids_of(group.job_ids))) == 3
    assert group.keys == ""


def test_what_cannot_be_meant_is_told() -> None:
    with pytest.raises(LocalError, match="no worker can have a program"):
        alike_group("spark", AlikeJobs("a b", {}, [[]]), SubmitMaker("spark"))
    with pytest.raises(LocalError, match="priority"):
        alike_group("spark", AlikeJobs("calc", {"priority": 11}, [[]]), SubmitMaker("spark"))


def test_messages_keep_their_order_and_their_bounds() -> None:
    builder = PartBuilder("spark", "key", "part")
    long = "x" * 30_000
    large = AlikeJobs("calc", {}, [[long]] * 100, [f"l{n}" for n in range(100)])
    small = AlikeJobs("calc", {}, [["s"]], ["s"])
    messages = [message for message, _ in (*builder.alike(large), *builder.alike(small))]
    assert len(messages) > 2
    assert all(len(one.groups[0].bodies) < STAGE_CHUNK_BYTES + 65_536 for one in messages)
    keys = [key for one in messages for group in one.groups for key in group.keys.split("\0")]
    assert keys == [*large.keys, "s"]
    assert builder.staged.count == 101
