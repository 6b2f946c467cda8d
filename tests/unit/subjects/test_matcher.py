"""Known cases, typed in by hand: the legacy documents' own examples, and how we stand to NATS."""

from __future__ import annotations

import pytest

from rollq.subjects.matcher import matches
from rollq.subjects.trie import Trie

# (pattern, subject, matches): the legacy documents' examples under SubjectMatcher and in the prose.
LEGACY_EXAMPLES = [
    ("job.assign.A.*", "job.assign.A.1", True),
    ("job.assign.A.>", "job.assign.A.1.task", True),
    ("job.assign.A.B", "job.assign.A.B", True),
    ("job.assign.B.*", "job.assign.A.1", False),
    ("job.assign.B.>", "job.assign.A.1", False),
    ("job.assign.>", "job.assign.A", True),
    ("job.assign.common.>", "job.assign.common.x", True),
    ("job.assign.A.*", "job.assign.A", False),  # named as a trap: TryAssign builds this subject
    (">", "anything.at.all", True),
    (">", "", True),
]

# (pattern, subject, matches here, matches in NATS; None: NATS refuses the text).
NATS = [
    ("foo", "foo", True, True),
    ("foo", "bar", False, False),
    ("foo", "foo.bar", False, False),
    ("foo.bar", "foo", False, False),
    ("foo.*", "foo.bar", True, True),
    ("foo.*", "foo", False, False),
    ("foo.*", "foo.bar.baz", False, False),
    ("*", "foo", True, True),
    ("*", "foo.bar", False, False),
    ("*.bar", "foo.bar", True, True),
    ("*.*", "foo.bar", True, True),
    ("*.bar.*", "foo.bar.baz", True, True),
    ("*.bar.*", "foo.baz.baz", False, False),
    ("foo.*.>", "foo.bar.baz", True, True),
    ("foo.>", "foo.bar.baz.bat", True, True),
    ("foo.>", "bar.foo", False, False),
    (">", "foo.bar", True, True),
    ("*.>", "foo.bar", True, True),
    ("foo*", "foobar", False, False),  # a wildcard counts only as a whole token
    ("foo*", "foo*", True, True),
    ("foo>", "foo.bar", False, False),
    # Where we follow the legacy protocol and not NATS.
    ("foo.>", "foo", True, False),  # `>` also stands for nothing
    ("foo.*.>", "foo.bar", True, False),
    ("*.>", "foo", True, False),
    ("foo.*.>", "foo", False, False),
    ("FOO.bar", "foo.BAR", True, False),  # case is ignored
    ("foo..bar", "foo.bar", True, None),  # empty tokens are ignored
    ("foo.", "foo", True, None),
    (".foo", "foo", True, None),
    ("foo.bar", "foo..bar.", True, None),
    ("", "", True, None),
    ("", "foo", False, None),
    ("*", "", False, None),
    ("foo.>.bar", "foo.x.y", True, None),  # what follows `>` is never looked at
]


@pytest.mark.parametrize(("pattern", "subject", "expected"), LEGACY_EXAMPLES)
def test_legacy_examples(pattern: str, subject: str, expected: bool) -> None:
    assert matches(pattern, subject) is expected
    assert in_trie(pattern, subject) is expected


@pytest.mark.parametrize(("pattern", "subject", "here", "nats"), NATS)
def test_beside_nats(pattern: str, subject: str, here: bool, nats: bool | None) -> None:
    assert matches(pattern, subject) is here
    assert in_trie(pattern, subject) is here
    # Every difference is on our list of three: a tail of nothing, case, empty tokens or a
    # middle `>`. A new one must be understood before it is added to the table.
    if here is not nats:
        tail_of_nothing = pattern.endswith(">") and pattern.count(".") == subject.count(".") + 1
        case = pattern != pattern.lower() or subject != subject.lower()
        assert nats is None or tail_of_nothing or case


def test_the_reference_takes_any_text_and_reads_stars_of_a_subject_as_plain() -> None:
    assert matches("job.assign.*", "job.assign.*")
    assert not matches("job.assign.a", "job.assign.*")
    assert matches("a b", "A B")


def in_trie(pattern: str, subject: str) -> bool:
    trie: Trie[str] = Trie()
    trie.insert(pattern, "me")
    return trie.match(subject) == ["me"]
