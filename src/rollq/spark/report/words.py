"""The languages of a page. The English sentence stands where it is used, and is the key to the
others: `say` gives it in the language that the page is made in.

A sentence that lacks is an error, so that no page is half in one language; values in braces may
stand in any order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from rollq.spark.report.japanese import JAPANESE

ENGLISH: Final = "en"
LANGUAGES: Final[Mapping[str, Mapping[str, str]]] = {ENGLISH: {}, "ja": JAPANESE}
_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """What is said while this lasts is in this language."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def say(text: str, **values: str | int) -> str:
    """A sentence or word, with its values."""
    language = _language.get()
    told = text if language == ENGLISH else LANGUAGES[language][text]
    return told.format(**values) if values else told


def known(text: str) -> str:
    """A word of the tables, as causes and states are: as it is if there is no other for it."""
    return LANGUAGES[_language.get()].get(text, text)
