"""Queues: every way to say one, and who gets its jobs."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import QUEUE_NAME_BYTES_MAX
from rollq.subjects.grammar import parse_pattern
from rollq.subjects.matcher import matches
from rollq.subjects.queues import (
    QUEUE_TOKENS_MAX,
    assign_subject,
    queue_of,
    subject_for,
    worker_pattern,
)


@pytest.mark.parametrize(
    ("subject", "queue"),
    [
        ("", "default"),
        ("...", "default"),
        ("job.submit", "default"),
        ("job.assign.", "default"),
        ("groupA", "groupa"),
        ("job.submit.groupA", "groupa"),
        ("job.assign.groupA", "groupa"),
        ("JOB.Submit.GROUPA", "groupa"),
        ("job.assign.A.worker-1", "a.worker-1"),
        ("A.worker-1", "a.worker-1"),
        ("job", "job"),
        ("job.other.x", "job.other.x"),
        ("submit.x", "submit.x"),
        ("job.submit.job.assign.x", "x"),  # no queue may have a name that means another queue
    ],
)
def test_queue_of(subject: str, queue: str) -> None:
    assert queue_of(subject) == queue
    assert queue_of(queue) == queue
    assert queue_of(assign_subject(queue)) == queue


@pytest.mark.parametrize(
    "subject",
    [
        "job.submit.*",
        "job.assign.>",
        "a b",
        " ",
        "q" * (QUEUE_NAME_BYTES_MAX + 1),
        "é" * (QUEUE_NAME_BYTES_MAX // 2 + 1),
        ".".join("q" * (QUEUE_TOKENS_MAX + 1)),
    ],
)
def test_a_queue_needs_a_plain_name_of_bounded_length(subject: str) -> None:
    with pytest.raises(RemoteError) as caught:
        queue_of(subject)
    assert caught.value.code is ErrorCode.BAD_SUBJECT


def test_the_longest_queue_still_has_a_subject_and_a_named_worker() -> None:
    deepest = queue_of(".".join("q" * QUEUE_TOKENS_MAX))
    longest = queue_of("q" * QUEUE_NAME_BYTES_MAX)
    for queue in (deepest, longest):
        assert parse_pattern(assign_subject(queue) + ".worker-1")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("", "job.assign.>"),
        ("  ", "job.assign.>"),
        (".", "job.assign.>"),
        ("job.submit", "job.assign.>"),
        ("groupA", "job.assign.groupa"),
        ("A.worker-1", "job.assign.a.worker-1"),
        ("A.*", "job.assign.a.*"),
        ("*", "job.assign.*"),
        ("job.submit.A", "job.assign.a"),
        ("job.assign.A.*", "job.assign.a.*"),
        ("job.assign.B.>", "job.assign.b.>"),
        ("job.assign.common.>", "job.assign.common.>"),
        ("Job.Assign.A", "job.assign.a"),
        ("job.assign", "job.assign"),
        ("job.assign.>.x", "job.assign.>"),
        # Legacy peers match these with job.assign.<queue> as they stand.
        (">", ">"),
        ("job.>", "job.>"),
        ("job.*.A", "job.*.a"),
        ("*.assign.A", "*.assign.a"),
    ],
)
def test_worker_pattern(text: str, pattern: str) -> None:
    assert worker_pattern(text) == pattern
    assert worker_pattern(pattern) == pattern


def test_worker_pattern_refuses_broken_text() -> None:
    for text in ("a b", "q\x00", ".".join("q" * 31)):
        with pytest.raises(RemoteError) as caught:
            worker_pattern(text)
        assert caught.value.code is ErrorCode.BAD_SUBJECT


@pytest.mark.parametrize(
    ("worker_says", "client_says", "gets_it"),
    [
        ("groupA", "groupA", True),
        ("groupA", "job.submit.GROUPA", True),
        ("groupA", "groupB", False),
        ("groupA", "", False),
        ("", "", True),
        ("", "any.queue", True),
        ("default", "", True),
        ("job.assign.A.*", "job.assign.A.1", True),
        ("job.assign.A.*", "A", False),
        ("job.assign.A.>", "A", True),
        ("A.worker-1", "job.assign.A.worker-1", True),
        ("A.worker-2", "job.assign.A.worker-1", False),
    ],
)
def test_who_gets_the_job(worker_says: str, client_says: str, gets_it: bool) -> None:
    subject = assign_subject(queue_of(client_says))
    assert matches(worker_pattern(worker_says), subject) is gets_it


@pytest.mark.parametrize(
    ("exec_name", "queue"),
    [
        ("calcA", "calca"),
        ("render.py", "render_py"),
        ("a b*c>d", "a_b_c_d"),
        ("job", "job"),
        ("日本", "日本"),
        ("", "default"),
    ],
)
def test_a_program_has_a_queue_of_one_token(exec_name: str, queue: str) -> None:
    assert queue_of(subject_for(exec_name)) == queue
