"""Shared by the commands that publish and subscribe: checks of subjects and payloads, and output of
messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.cli.output import write_json
from rollq.cli.stdin import open_bytes
from rollq.subjects.grammar import Tokens, parse_pattern, parse_subject
from rollq.subjects.queues import check_typed

if TYPE_CHECKING:
    from rollq.roles.client.topics.subscriptions import Publication


def checked_subject(text: str) -> None:
    """Raises LocalError BAD_OPTIONS for an invalid subject."""
    _check(text, parse_subject, "a subject has no wildcards, as in prices.eur")


def checked_pattern(text: str) -> None:
    """Raises LocalError BAD_OPTIONS for an invalid pattern."""
    _check(text, parse_pattern, "as in prices.eur, prices.* or prices.>")


def payload_of(text: str) -> bytes:
    """The payload: the bytes of an argument, or all of stdin."""
    return open_bytes().read() if text == "-" else os.fsencode(text)


def show(message: Publication, *, as_json: bool, with_subject: bool = True) -> None:
    """Write a message and flush: subject and raw payload, or a JSON document."""
    if as_json:
        write_json(document_of(message))
        return
    index = f"{message.index}  " if message.index else ""
    head = f"{index}{message.subject}  ".encode() if with_subject else b""
    end = b"" if message.payload.endswith(b"\n") else b"\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(head + message.payload + end)
    sys.stdout.buffer.flush()


def document_of(message: Publication) -> dict[str, Any]:
    """A message as a document."""
    import base64

    document: dict[str, Any] = {"subject": message.subject, "text": message.text}
    if "\ufffd" in message.text:  # not UTF-8: add the raw bytes
        document["base64"] = base64.b64encode(message.payload).decode()
    if message.reply_to:
        document["replyTo"] = message.reply_to
    if message.queue_group:
        document["queueGroup"] = message.queue_group
    if message.topic:
        kept = {"topic": message.topic, "index": message.index, "keptMs": message.stamp_ms}
        document |= kept
    return document


def _check(text: str, parse: Callable[[str], Tokens], hint: str) -> None:
    check_typed(text)
    try:
        is_any = bool(parse(text))
    except RemoteError as error:
        raise LocalError(ErrorCode.BAD_OPTIONS, error.message, hint) from None
    if not is_any:
        raise LocalError(ErrorCode.BAD_OPTIONS, "an empty subject", hint)
