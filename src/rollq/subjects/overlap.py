"""Relations of two patterns: whether some subject, or every subject, of one also matches the other.

A target pattern such as that of a `CachePut` is compared with the patterns of workers: pattern
with pattern, for which the matcher is the wrong tool (it would read `*` as a plain token).

Both answers rest on there being always one more token that no pattern names.
"""

from __future__ import annotations

from rollq.subjects.grammar import ANY_ONE, ANY_REST, Tokens, parse_pattern


def overlaps(pattern_a: str, pattern_b: str) -> bool:
    """Whether there is a subject that both patterns match.

    Raises:
        RemoteError: BAD_SUBJECT, if one of the patterns is not valid.
    """
    return tokens_overlap(parse_pattern(pattern_a), parse_pattern(pattern_b))


def tokens_overlap(a: Tokens, b: Tokens) -> bool:
    """As `overlaps` for patterns in canonical form."""
    for token_a, token_b in zip(a, b, strict=False):
        if ANY_REST in (token_a, token_b):
            return True  # some subject matches the rest of the other
        if token_a != token_b and ANY_ONE not in (token_a, token_b):
            return False
    # One of them has ended, so the rest of the other must match nothing.
    left = a[len(b) :] or b[len(a) :]
    return left in ((), (ANY_REST,))


def covers(pattern_a: str, pattern_b: str) -> bool:
    """Whether pattern_a matches every subject that pattern_b matches.

    Raises:
        RemoteError: BAD_SUBJECT, if one of the patterns is not valid.
    """
    a, b = parse_pattern(pattern_a), parse_pattern(pattern_b)
    for position, token_a in enumerate(a):
        if token_a == ANY_REST:
            return True
        # From here on pattern_a requires one more token, which pattern_b must always have.
        if position >= len(b) or b[position] == ANY_REST:
            return False
        if token_a not in (ANY_ONE, b[position]):
            return False
    return len(a) == len(b)
