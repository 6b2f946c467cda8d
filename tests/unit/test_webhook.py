"""What a webhook posts, where, and what it takes an answer for."""

from __future__ import annotations

import hashlib
import hmac
import json
from http.client import RemoteDisconnected
from typing import Any

import pytest

from rollq import webhook
from rollq.base.ids import guid_to_text
from rollq.base.jobs import Cause, ParentEnd
from rollq.base.parents import Parent, parent_lines, parents_in
from rollq.base.webhooks import KEY_VARIABLE, URL_VARIABLE, Target, target_of
from rollq.tasks import RETRY_EXIT_CODE, Context
from rollq.webhook import NeverError, NotNowError, body_of, counts_of, document_of, state_of_all

URL = "https://hooks.example.com/rollq?room=7"
JOB = guid_to_text(bytes(range(16)))


def parent(state: str, **fields: Any) -> Parent:
    return Parent(id=JOB, state=state, **fields)


class Receiver:
    """Answers in the place of a socket."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *parents: Parent, status: int = 204
    ) -> None:
        self.posted: list[tuple[Target, bytes, dict[str, str]]] = []
        self._status = status
        monkeypatch.setattr(webhook, "context", lambda: Context(JOB, 3, parents))
        monkeypatch.setattr(webhook, "_send", self._send)

    def _send(self, target: Target, body: bytes, headers: dict[str, str]) -> int:
        self.posted.append((target, body, headers))
        return self._status


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://a.b", Target(False, "a.b", 80, "/")),
        ("HTTPS://A.b:8443/x?y=z", Target(True, "A.b", 8443, "/x?y=z")),
        ("http://a?q", Target(False, "a", 80, "/?q")),
        ("http://[::1]:81/x", Target(False, "::1", 81, "/x")),
        *((bad, None) for bad in ("", "a.b/x", "ftp://a/x", "file:///etc/passwd", "http://")),
        *(
            (bad, None)
            for bad in ("http://me:pw@a/x", "http://a/x#y", "http://a/x y", "http://a\n")
        ),
        *((bad, None) for bad in ("http://a:0/", "http://a:99999/", "http://a/\r\nX: y")),
    ],
)
def test_where_is_posted_to(url: str, target: Target | None) -> None:
    assert target_of(url) == target


def test_what_a_job_is_told_of_its_parents_is_a_line_each() -> None:
    ends = (
        ParentEnd(bytes(range(16)), "failed", "calc", "q", "k", 3, 0, 5, 2, 0, 1_000),
        ParentEnd(bytes(range(16)), "cancelled"),
        ParentEnd(bytes(range(16)), "dead", cause=Cause.LEASE_LOST, attempts=5),
        ParentEnd(bytes(range(16)), "failed", signal=9, run_ms=7),
        ParentEnd(bytes(range(16)), "failed", tasks=(8, 1, 0, 0)),
    )
    lines = parent_lines(ends)
    assert lines.count(b"\n") == len(ends)
    failed, cancelled, dead, killed, array = parents_in(lines)
    assert json.loads(lines.splitlines()[0]) == {
        **{"id": JOB, "state": "failed", "exec": "calc", "queue": "q", "key": "k"},
        **{"exit_code": 3, "signal": 0, "cause": "", "attempts": 2, "run_ms": 5},
        **{"ended_ms": 1_000, "tasks": None},
    }
    assert failed == Parent.of(ends[0])
    assert cancelled.exit_code is None
    assert (dead.exit_code, dead.cause, dead.attempts) == (None, "lease_lost", 5)
    assert (killed.exit_code, killed.signal) == (137, 9)
    assert array.tasks == {"ok": 8, "failed": 1, "dead": 0, "cancelled": 0}
    assert array.exit_code is None


def test_what_a_newer_member_tells_is_passed_on() -> None:
    told = Parent.of(ParentEnd(bytes(range(16)), "dead", cause=99, tasks=(1, 2, 3, 4, 5)))
    assert told.cause == "cause 99"
    assert told.tasks == {"ok": 1, "failed": 2, "dead": 3, "cancelled": 4}


def test_the_document() -> None:
    tasks = {"ok": 8, "failed": 1, "dead": 0, "cancelled": 2}
    parents = (parent("ok"), parent("dead"), parent("failed", tasks=tasks), parent("ok"))
    told = document_of("nightly", Context(JOB, 1, parents))
    assert told["counts"] == {"ok": 10, "dead": 1, "failed": 1, "cancelled": 2}
    assert told["job_count"] == len(parents)
    assert [one.state for one in told["jobs"]] == ["dead", "failed", "ok", "ok"]
    assert (told["id"], told["name"], told["state"]) == (JOB, "nightly", "failed")
    with pytest.raises(NeverError, match="no parent to report"):
        document_of("", Context(JOB, 1))


@pytest.mark.parametrize(
    ("states", "word"),
    [
        *(([one], one) for one in ("ok", "failed", "dead", "cancelled", "unknown", "waiting")),
        (["ok", "ok"], "ok"),
        (["ok", "cancelled", "dead"], "failed"),
        (["ok", "cancelled", "unknown"], "cancelled"),
        (["ok", "unknown"], "unknown"),
    ],
)
def test_how_they_ended_in_a_word(states: list[str], word: str) -> None:
    assert state_of_all([parent(one) for one in states]) == word
    assert sum(counts_of([parent(one) for one in states]).values()) == len(states)


def test_a_document_is_bounded() -> None:
    parents = tuple(parent("ok", key="\0" * 256, queue="q" * 1024) for _ in range(1_000))
    body = body_of(document_of("", Context(JOB, 1, parents)))
    assert len(body) <= webhook.BODY_BYTES_MAX
    told = json.loads(body)
    assert told["job_count"] == 1_000
    assert 10 < len(told["jobs"]) < 100


def test_it_is_posted_with_a_key_that_tells_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Receiver(monkeypatch, parent("ok"))
    assert webhook.post(URL, "n") == "hooks.example.com answered 204"
    ((target, body, headers),) = receiver.posted
    assert target == Target(True, "hooks.example.com", 443, "/rollq?room=7")
    assert json.loads(body)["attempt"] == 3
    assert headers["Idempotency-Key"] == JOB
    assert "X-Rollq-Signature" not in headers


def test_secrets_are_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Receiver(monkeypatch, parent("ok"))
    monkeypatch.setenv(URL_VARIABLE, "http://chat.example.com/T0KEN")
    monkeypatch.setenv(KEY_VARIABLE, "k3y")
    webhook.post("secret:chat")
    ((target, body, headers),) = receiver.posted
    assert (target.host, target.path) == ("chat.example.com", "/T0KEN")
    made = hmac.new(b"k3y", body, hashlib.sha256).hexdigest()
    assert headers["X-Rollq-Signature"] == f"sha256={made}"
    monkeypatch.delenv(URL_VARIABLE)
    with pytest.raises(NeverError):
        webhook.post("secret:chat")


def test_a_worker_may_name_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Receiver(monkeypatch, parent("ok"))
    monkeypatch.setattr(webhook, "HOSTS", ("*.example.com", "here"))
    webhook.post(URL)
    webhook.post("http://HERE/")
    for url in ("http://example.com/", "http://here.example.org/", "http://169.254.169.254/"):
        with pytest.raises(NeverError, match="does not post to"):
            webhook.post(url)
    assert len(receiver.posted) == 2


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((one, None) for one in (200, 201, 202, 204)),
        *((one, NotNowError) for one in (408, 425, 429, 500, 502, 503, 504)),
        *((one, NeverError) for one in (301, 302, 307, 308, 400, 401, 403, 404, 410, 413)),
    ],
)
def test_what_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception] | None
) -> None:
    Receiver(monkeypatch, parent("ok"), status=status)
    if error is None:
        webhook.post(URL)
        return
    with pytest.raises(error, match=f"answered {status}") as raised:
        webhook.post(URL)
    is_retried = webhook.post.exit_code_of(raised.value) == RETRY_EXIT_CODE
    assert is_retried is (error is NotNowError)


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(), TimeoutError(), RemoteDisconnected("")]
)
def test_who_does_not_answer_is_asked_again(error: Exception) -> None:
    assert webhook.post.exit_code_of(error) == RETRY_EXIT_CODE
