"""Messages to many receivers, which are encoded once for all of them.

They only depend on the form of a connection: whether it supports batches. They are not compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rollq.wire.compact import encode_batch, encode_compact
from rollq.wire.frame import Frame, encode_frame
from rollq.wire.subject_messages import Deliver


class SharedForm(NamedTuple):
    """Agreed features of a connection that change the bytes of a message."""

    has_batch: bool


class SharedFrames:
    """Messages, encoded once per form."""

    __slots__ = ("_encoded", "messages")

    def __init__(self, messages: Sequence[Deliver]) -> None:
        self.messages = messages
        self._encoded: dict[SharedForm, bytes] = {}

    def encoded(self, form: SharedForm) -> bytes:
        """The frames for a receiver of this form; the same object for all of them."""
        data = self._encoded.get(form)
        if data is None:
            data = self._encoded[form] = b"".join(map(encode_frame, self._frames(form)))
        return data

    def _frames(self, form: SharedForm) -> list[Frame]:
        if form.has_batch and len(self.messages) > 1:
            return encode_batch(self.messages)
        return list(map(encode_compact, self.messages))
