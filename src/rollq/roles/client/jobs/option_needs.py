"""Checks and converts the options of a job about placement: resources, labels, limits, sticky key.
Each raises LocalError BAD_OPTIONS that names the option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.need_limits import STICKY_KEY_BYTES_MAX
from rollq.base.needs import Amounts, requirements_of, resources_of, tokens_of


def stored_resources(given: Any) -> Amounts:
    """Resource names and amounts, in stored form."""
    if not isinstance(given, Mapping):
        raise _bad("resources", given, 'give names and amounts: {"cpu": 1.5, "gpu": 1}')
    return resources_of(given)


def stored_labels(given: Any) -> tuple[str, ...]:
    """Label requirements, in stored form."""
    if not _is_list(given) or not all(isinstance(one, str) for one in given):
        raise _bad("labels", given, 'give a list: ["zone=a", "!spot"]')
    return requirements_of(given)


def stored_tokens(given: Any) -> Amounts:
    """Limit keys and how many tokens of each, in stored form."""
    if not _is_list(given) or not all(isinstance(one, str) or _is_pair(one) for one in given):
        raise _bad("limits", given, 'give a list: ["matlab", ("db", 2)]')
    return tokens_of(given)


def checked_sticky_key(given: Any) -> str:
    """A sticky key, checked for its type and length."""
    if not isinstance(given, str) or len(given.encode(errors="replace")) > STICKY_KEY_BYTES_MAX:
        raise _bad("sticky_key", given, f"give text of up to {STICKY_KEY_BYTES_MAX} bytes")
    return given


def _is_list(given: Any) -> bool:
    return isinstance(given, list | tuple | set | frozenset)


def _is_pair(given: Any) -> bool:
    return (
        isinstance(given, list | tuple)
        and len(given) == len(("name", "tokens"))
        and isinstance(given[0], str)
        and type(given[1]) is int
    )


def _bad(name: str, given: object, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, f"{name}={repr(given)[:64]}", hint)
