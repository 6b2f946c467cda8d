"""The language of a page. The English text in the code is the key of translations: `say` returns
it in the language of the page.

A missing translation is an error, so that no page mixes languages; placeholders in braces may be in
any order."""

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
    """Set the language inside the block."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def say(text: str, **values: str | int) -> str:
    """A text in the current language, with its values."""
    language = _language.get()
    told = text if language == ENGLISH else LANGUAGES[language][text]
    return told.format(**values) if values else told


def known(text: str) -> str:
    """Translate a cause or state from the tables; unknown ones are returned unchanged."""
    return LANGUAGES[_language.get()].get(text, text)
