"""Matcher, trie and overlap as tests of each other."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from rollq.subjects.grammar import parse_pattern, parse_subject
from rollq.subjects.matcher import matches
from rollq.subjects.overlap import covers, overlaps
from rollq.subjects.queues import assign_subject, queue_of, worker_pattern
from rollq.subjects.trie import Trie

# Few words, so that things do match; odd spellings, so that texts differ and meanings do not.
WORDS = ["a", "A", "b", "job", "assign", "submit", "Σ", "ς", "a*", "日本", ""]

subjects = st.lists(st.sampled_from(WORDS), max_size=6).map(".".join)
patterns = st.lists(st.sampled_from([*WORDS, "*", "*", ">"]), max_size=6).map(".".join)

# Every pattern of up to three tokens over two words, and every subject of up to four over three:
# one word more than the patterns name, and one token more than they have.
SMALL_PATTERNS = [
    ".".join(tokens)
    for length in range(4)
    for tokens in itertools.product(("a", "b", "*", ">"), repeat=length)
]
SMALL_SUBJECTS = [
    ".".join(tokens)
    for length in range(5)
    for tokens in itertools.product(("a", "b", "c"), repeat=length)
]


@given(st.lists(patterns, max_size=12), subjects)
def test_trie_agrees_with_the_matcher(asked: list[str], subject: str) -> None:
    trie: Trie[int] = Trie()
    for number, pattern in enumerate(asked):
        assert trie.insert(pattern, number)
    wanted = [number for number, pattern in enumerate(asked) if matches(pattern, subject)]
    found = trie.match(subject)
    assert sorted(found) == wanted
    assert len(trie) == len(asked)


@given(patterns, subjects)
def test_canonical_forms_mean_the_same(pattern: str, subject: str) -> None:
    plain_pattern = ".".join(parse_pattern(pattern))
    plain_subject = ".".join(parse_subject(subject))
    assert parse_pattern(plain_pattern) == parse_pattern(pattern)
    assert parse_subject(plain_subject) == parse_subject(subject)
    assert matches(plain_pattern, plain_subject) is matches(pattern, subject)


@given(patterns, patterns, subjects)
def test_overlap_and_cover_agree_with_the_matcher(a: str, b: str, subject: str) -> None:
    in_a, in_b = matches(a, subject), matches(b, subject)
    if in_a and in_b:
        assert overlaps(a, b)
    if covers(a, b) and in_b:
        assert in_a
    assert overlaps(a, b) is overlaps(b, a)


@given(subjects, patterns)
def test_a_subject_is_the_pattern_of_itself(subject: str, pattern: str) -> None:
    assert overlaps(pattern, subject) is matches(pattern, subject)
    assert covers(pattern, subject) is matches(pattern, subject)


def test_overlap_and_cover_agree_with_brute_force() -> None:
    matched = {
        pattern: frozenset(subject for subject in SMALL_SUBJECTS if matches(pattern, subject))
        for pattern in SMALL_PATTERNS
    }
    for a, b in itertools.product(SMALL_PATTERNS, repeat=2):
        assert overlaps(a, b) is bool(matched[a] & matched[b]), (a, b)
        assert covers(a, b) is (matched[b] <= matched[a]), (a, b)


def test_trie_agrees_with_the_matcher_on_everything_small() -> None:
    trie: Trie[str] = Trie()
    for pattern in SMALL_PATTERNS:
        trie.insert(pattern, pattern)
    for subject in SMALL_SUBJECTS:
        wanted = [pattern for pattern in SMALL_PATTERNS if matches(pattern, subject)]
        assert sorted(trie.match(subject)) == sorted(wanted), subject


@given(subjects, st.sampled_from(["", "job.submit.", "job.assign."]))
def test_all_names_of_a_queue_are_one(subject: str, prefix: str) -> None:
    queue = queue_of(subject)
    assert queue_of(prefix + subject) == queue
    assert queue_of(prefix + queue) == queue
    assert matches(worker_pattern(queue), assign_subject(queue))
    assert matches(worker_pattern(""), assign_subject(queue))


class TrieMachine(RuleBasedStateMachine):
    """A trie beside a plain list of pairs, through inserts and removals in any order."""

    pairs = Bundle("pairs")

    def __init__(self) -> None:
        super().__init__()
        self.trie: Trie[int] = Trie()
        self.twin: dict[tuple[tuple[str, ...], int], None] = {}

    @rule(target=pairs, pattern=patterns, value=st.integers(0, 3))
    def insert(self, pattern: str, value: int) -> tuple[str, int]:
        key = (parse_pattern(pattern), value)
        assert self.trie.insert(pattern, value) is (key not in self.twin)
        self.twin[key] = None
        return pattern, value

    @rule(pair=pairs)
    def remove(self, pair: tuple[str, int]) -> None:
        key = (parse_pattern(pair[0]), pair[1])
        assert self.trie.remove(*pair) is (key in self.twin)
        self.twin.pop(key, None)

    @rule(subject=subjects)
    def match(self, subject: str) -> None:
        wanted = {value for tokens, value in self.twin if matches(".".join(tokens), subject)}
        found = self.trie.match(subject)
        assert len(found) == len(wanted)
        assert set(found) == wanted

    @invariant()
    def holds_no_more_than_it_was_given(self) -> None:
        assert len(self.trie) == len(self.twin)
        paths = {
            tokens[: tokens.index(">")] if ">" in tokens else tokens for tokens, _ in self.twin
        }
        prefixes = {path[:length] for path in paths for length in range(1, len(path) + 1)}
        assert self.trie.node_count() == len(prefixes)


TestTrieMachine = TrieMachine.TestCase
