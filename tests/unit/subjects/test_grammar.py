"""The grammar: what is refused, and one canonical form for all that means the same."""

from __future__ import annotations

import sys

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import SUBJECT_BYTES_MAX, SUBJECT_TOKENS_MAX
from rollq.subjects.grammar import fold, parse_pattern, parse_subject


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("job.submit.A", ("job", "submit", "a")),
        ("JOB.Submit.a", ("job", "submit", "a")),
        ("", ()),
        (".", ()),
        ("..a...b.", ("a", "b")),
        ("a*", ("a*",)),
        ("a.>b", ("a", ">b")),
        ("日本.Ünïcode", ("日本", "ünïcode")),
    ],
)
def test_subject_has_one_canonical_form(text: str, tokens: tuple[str, ...]) -> None:
    assert parse_subject(text) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (">", (">",)),
        ("job.assign.A.*", ("job", "assign", "a", "*")),
        ("a.>.b.*", ("a", ">")),  # the legacy matcher never looks behind the first `>`
        (".>.", (">",)),
        ("a..*", ("a", "*")),
        ("a*.b>", ("a*", "b>")),
        ("", ()),
    ],
)
def test_pattern_has_one_canonical_form(text: str, tokens: tuple[str, ...]) -> None:
    assert parse_pattern(text) == tokens


@pytest.mark.parametrize(
    "text",
    [
        "a b",
        "a.\tb",
        "a\n",
        "a\x00",
        "\x7f",
        "a\x85b",
        "a\u00a0b",
        "a\u2028b",
        "a\u3000b",
        "a\ud800",
        "a" * (SUBJECT_BYTES_MAX + 1),
        "é" * (SUBJECT_BYTES_MAX // 2 + 1),
        "." * (SUBJECT_BYTES_MAX + 1),
        ".".join("a" * (SUBJECT_TOKENS_MAX + 1)),
    ],
)
def test_broken_text_is_the_senders_fault(text: str) -> None:
    for parse in (parse_subject, parse_pattern):
        with pytest.raises(RemoteError) as caught:
            parse(text)
        assert caught.value.code is ErrorCode.BAD_SUBJECT
        # The message must be safe to log and to send on, whatever was in the text.
        assert str(caught.value).isprintable()
        assert len(str(caught.value).encode()) < 1024


@pytest.mark.parametrize("text", ["*", ">", "a.*", "a.*.b", "a.>", "job.submit.>"])
def test_subject_has_no_wildcards(text: str) -> None:
    parse_pattern(text)
    with pytest.raises(RemoteError) as caught:
        parse_subject(text)
    assert caught.value.code is ErrorCode.BAD_SUBJECT


def test_limits_are_inclusive() -> None:
    assert parse_subject("a" * SUBJECT_BYTES_MAX) == ("a" * SUBJECT_BYTES_MAX,)
    assert len(parse_subject("é" * (SUBJECT_BYTES_MAX // 2))[0]) == SUBJECT_BYTES_MAX // 2
    assert len(parse_subject(".".join("a" * SUBJECT_TOKENS_MAX))) == SUBJECT_TOKENS_MAX
    assert len(parse_pattern(".".join("*" * SUBJECT_TOKENS_MAX))) == SUBJECT_TOKENS_MAX


def test_tokens_behind_the_tail_do_not_count() -> None:
    assert parse_pattern("a.>" + ".b" * SUBJECT_TOKENS_MAX) == ("a", ">")


def test_canonical_form_must_fit_as_well() -> None:
    # U+023A has two bytes of UTF-8 and its small letter three.
    grows = "\u023a" * (SUBJECT_BYTES_MAX // 2)
    assert len(grows.encode()) == SUBJECT_BYTES_MAX
    with pytest.raises(RemoteError):
        parse_subject(grows)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("groupA", "GROUPa", True),
        ("Straße", "sTRAßE", True),
        ("Straße", "STRASSE", False),  # one character at a time: ß has no simple capital
        ("ΟΔΟΣ", "οδοσ", True),  # str.lower would make the last letter a final sigma
        ("οδος", "οδοσ", True),  # both sigmas have the same capital
        ("\u212a", "k", False),  # the Kelvin sign is not the letter
        ("\u0131", "i", False),  # nor is the dotless i
        ("\u017f", "s", False),  # nor the long s
        ("\u0130", "i", False),  # nor the dotted capital
    ],
)
def test_case_folds_as_dotnet_ordinal_comparison_does(one: str, other: str, same: bool) -> None:
    assert (fold(one) == fold(other)) is same


def test_fold_is_stable_and_keeps_lengths_for_every_character() -> None:
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        folded = fold(char)
        if len(folded) != 1 or fold(folded) != folded or (char > "\x7f" and folded.isascii()):
            pytest.fail(f"U+{point:04X} folds to {folded!a}")
