"""Jobs that follow others, before they are submitted."""

from __future__ import annotations

import asyncio

import pytest

from rollq.base.edges import CONDITION_WORDS
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import guid_to_text
from rollq.base.jobs import Condition
from rollq.base.webhooks import WEBHOOK_EXEC
from rollq.roles.client.calls.followers import Webhook, followers_of, following
from rollq.roles.client.engine.one_group import GroupEngine
from rollq.roles.client.jobs.options import job_options
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.several_groups.client import MultiClient

URL = "https://hooks.example.com/rollq"
ONE, OTHER = bytes(range(16)), bytes(range(1, 17))


def test_a_webhook_is_a_job() -> None:
    spec = Webhook(URL, "hook-key", "nightly", {"max_attempts": 3}).after(ONE, OTHER)
    assert (spec.exec_name, spec.args) == (WEBHOOK_EXEC, (URL, "nightly"))
    made = job_options(spec.options)
    assert made is not None
    assert [CONDITION_WORDS[one.condition] for one in made.after] == ["ended", "ended"]
    assert [one.job_id for one in made.after] == [ONE, OTHER]
    assert (made.max_attempts, made.retry_exit_codes) == (3, (75,))
    assert [(one.variable, one.name) for one in made.secrets] == [("WEBHOOK_KEY", "hook-key")]


def test_a_url_may_be_a_secret() -> None:
    spec = Webhook("secret:chat").spec()
    assert spec.args == ("secret:chat",)
    assert spec.options["secrets"] == {"WEBHOOK_URL": "chat"}


@pytest.mark.parametrize("url", ["", "ftp://a/b", "hooks.example.com", "http://me:pw@a/x"])
def test_what_is_no_url_is_not_told(url: str) -> None:
    """It may be one with a password."""
    with pytest.raises(LocalError) as error:
        Webhook(url).spec()
    assert error.value.code is ErrorCode.BAD_OPTIONS
    assert error.value.message == "notify is no URL that is posted to"


def test_followers_wait_and_have_ids_of_their_own() -> None:
    engine = GroupEngine("127.0.0.1:1", "me")
    last = JobSpec("mail", ["ops"], options={"after": [(OTHER, "ok")], "priority": 3})
    specs = followers_of(engine, last, [URL, Webhook(URL)])
    assert [one.exec_name for one in specs] == ["mail", WEBHOOK_EXEC, WEBHOOK_EXEC]
    made = following(specs, (ONE,))
    options = job_options(made[0].options)
    assert options is not None
    assert options.priority == 3
    conditions = {one.job_id: one.condition for one in options.after}
    assert conditions == {OTHER: Condition.OK, ONE: Condition.ENDED}
    assert len({one.job_id for one in made} | {ONE}) == 4
    assert [one.job_id for one in following(specs, (ONE,))] == [one.job_id for one in made]
    assert followers_of(engine, (), ()) == []


def test_a_client_of_several_groups_has_no_followers() -> None:
    client = MultiClient(["127.0.0.1:1"])
    for call in (client.submit("x", notify=URL), client.submit_array("x", 2, then=JobSpec("y"))):
        with pytest.raises(LocalError, match="a client of several groups"):
            asyncio.run(call)


def test_so_many_can_be_followed_by_one() -> None:
    ids = [number.to_bytes(16, "big") for number in range(1, 1_002)]
    assert following([JobSpec("mail")], ids[:1_000])
    with pytest.raises(LocalError, match="1001 jobs are to be followed by one"):
        following([JobSpec("mail")], ids)
    with pytest.raises(LocalError, match="1001 jobs"):
        Webhook(URL).after(*map(guid_to_text, ids))
