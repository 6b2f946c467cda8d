"""The grammar of subjects and patterns, and their one canonical form.

    subject  = [ token ] *( "." [ token ] )          ; wildcards may not be tokens of a subject
    pattern  = [ item ]  *( "." [ item ] )
    item     = token / "*" / ">"
    token    = 1*char                                ; other than exactly "*" or ">"
    char     = any character but ".", white space, control characters and lone surrogates

Empty tokens are ignored (`a..b` is `a.b`, `.` is the empty subject), and case is too. `*` matches
exactly one token. `>` matches everything that follows, also nothing; tokens after the first `>`
have no effect and are dropped here. A wildcard is a whole token: `a*` is a plain token.

The canonical form is the tuple of folded tokens. Two texts are equivalent exactly if their
canonical forms are equal, and ".".join of a canonical form parses to itself. Texts are made
canonical once, before they become part of a command: case mappings change between versions of
Unicode, and members on two versions of Python must agree.

Only validation and folding are here; matching is in `matcher`.
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

SHOWN_CHARS_MAX = 64  # characters of a refused text in an error
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
    """Case folding as in the legacy protocol: one character at a time.

    `str.lower` differs: it turns one character into two, depends on the neighbours of a sigma, and
    maps the Kelvin sign to a plain k. Ordinal comparison in .NET does none of these.
    """
    return text.lower() if text.isascii() else "".join(map(_fold_char, text))


def _fold_char(char: str) -> str:
    """The folded form of one character."""
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
