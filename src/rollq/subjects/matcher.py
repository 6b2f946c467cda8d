"""The reference matcher: the legacy `SubjectMatcher.Match`, line for line.

This is the definition of matching, simple and slow on purpose; the trie and the overlap test are
checked against it. It accepts any text and validates nothing: that is done by `grammar`.

Where it differs from NATS: case is ignored, empty tokens are ignored, and `>` also matches
nothing further (`a.>` matches `a`).
"""

from __future__ import annotations

from rollq.subjects.grammar import ANY_ONE, ANY_REST, SEPARATOR, fold


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject matches a pattern."""
    if pattern == ANY_REST:
        return True
    pattern_tokens = [token for token in pattern.split(SEPARATOR) if token]
    subject_tokens = [token for token in subject.split(SEPARATOR) if token]
    for position, token in enumerate(pattern_tokens):
        if token == ANY_REST:
            return True  # everything below this level matches
        if position >= len(subject_tokens):
            return False  # the subject is too short
        if token == ANY_ONE:
            continue
        if fold(token) != fold(subject_tokens[position]):
            return False
    return len(subject_tokens) == len(pattern_tokens)
