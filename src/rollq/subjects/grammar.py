"""The grammar of subjects and patterns, and their one canonical form.

    subject  = [ token ] *( "." [ token ] )          ; wildcards may not be tokens of a subject
    pattern  = [ item ]  *( "." [ item ] )
    item     = token / "*" / ">"
    token    = 1*char                                ; other than exactly "*" or ">"
    char     = any character but ".", white space, control characters and lone surrogates

Empty tokens are ignored (`a..b` is `a.b`, `.` is the empty subject), and case is too. `*` stands
for exactly one token. `>` stands for all that follows, also for nothing; what a pattern holds
after its first `>` is never looked at, so it is dropped here. A wildcard counts only as a whole
token: `a*` is a plain token that happens to hold a star.

The canonical form is the tuple of folded tokens. Two texts mean the same exactly when their
canonical forms are equal, and ".".join of a canonical form parses to itself. Texts are made
canonical once, at the edge, before a command is made of them: which letters have a case changes
between versions of Unicode, and members on two versions of Python must not disagree about it.

Only validation and folding live here; what a pattern matches is the matcher's business.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import SUBJECT_BYTES_MAX, SUBJECT_TOKENS_MAX

Tokens: TypeAlias = tuple[str, ...]

SEPARATOR: Final = "."
ANY_ONE: Final = "*"
ANY_REST: Final = ">"

SHOWN_CHARS_MAX = 64  # how much of a refused text an error repeats
FORBIDDEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def parse_subject(text: str) -> Tokens:
    """The canonical form of a subject.

    Raises:
        RemoteError: BAD_SUBJECT, if the text breaks the grammar, holds a wildcard or is too long.
    """
    tokens = _tokens(text)
    if ANY_ONE in tokens or ANY_REST in tokens:
        raise _refused(text, "a subject cannot have wildcards")
    return _bounded(text, tokens)


def parse_pattern(text: str) -> Tokens:
    """The canonical form of a pattern; `>`, if there is one, is its last token.

    Raises:
        RemoteError: BAD_SUBJECT, if the text breaks the grammar or is too long.
    """
    tokens = _tokens(text)
    if ANY_REST in tokens:
        tokens = tokens[: tokens.index(ANY_REST) + 1]
    return _bounded(text, tokens)


def fold(text: str) -> str:
    """The text without regard to case, as the legacy protocol compares: one character at a time.

    `str.lower` will not do: it turns one character into two, looks at the neighbours of a sigma,
    and maps the Kelvin sign to a plain k. Ordinal comparison in .NET does none of these.
    """
    return text.lower() if text.isascii() else "".join(map(_fold_char, text))


def _fold_char(char: str) -> str:
    """The one character that stands for all cases of this one."""
    if char.isascii():
        return char.lower()
    upper = _simple(char, char.upper())
    lower = _simple(upper, upper.lower())
    return lower if _simple(lower, lower.upper()) == upper else upper


def _simple(char: str, mapped: str) -> str:
    """A case mapping, unless it yields several characters or leads from beyond ASCII into it."""
    return mapped if len(mapped) == 1 and not mapped.isascii() else char


def _tokens(text: str) -> Tokens:
    # The cheap bound comes first, so that a huge text is refused before it is copied.
    if len(text) > SUBJECT_BYTES_MAX:
        raise _refused(text, f"longer than {SUBJECT_BYTES_MAX} bytes")
    if FORBIDDEN.search(text) is not None:
        raise _refused(text, "white space and control characters are not allowed")
    return tuple(filter(None, fold(text).split(SEPARATOR)))


def _bounded(text: str, tokens: Tokens) -> Tokens:
    if len(tokens) > SUBJECT_TOKENS_MAX:
        raise _refused(text, f"more than {SUBJECT_TOKENS_MAX} tokens")
    # Folding can lengthen the UTF-8 of a letter; the canonical form must fit as well.
    if not text.isascii() and (
        len(text.encode()) > SUBJECT_BYTES_MAX
        or len(SEPARATOR.join(tokens).encode()) > SUBJECT_BYTES_MAX
    ):
        raise _refused(text, f"longer than {SUBJECT_BYTES_MAX} bytes")
    return tokens


def _refused(text: str, reason: str) -> RemoteError:
    shown = text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "…"
    return RemoteError(
        ErrorCode.BAD_SUBJECT,
        f"not a valid subject or pattern: {shown!a}: {reason}",
        "use tokens joined by dots, as in job.submit.reports",
    )
