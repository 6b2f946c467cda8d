"""Live output of a job as documents."""

from __future__ import annotations

import base64
import codecs
from typing import Any, Final

from rollq.roles.client.results.streams import StreamPart

NEW_DECODER: Final = codecs.getincrementaldecoder("utf-8")


class OutputDocuments:
    """Makes documents of the parts of one job's output, in order. A character that is split between
    two parts is text of the second; `base64` has the bytes of a part that its text is not."""

    def __init__(self) -> None:
        self._decoders = {name: NEW_DECODER("replace") for name in ("stdout", "stderr")}
        self._attempts = dict.fromkeys(self._decoders, 0)  # of the last part of each stream

    def of(self, part: StreamPart) -> dict[str, Any]:
        """The document of the next part."""
        decoder = self._decoders[part.stream]
        if part.skipped or part.attempt != self._attempts[part.stream]:
            decoder.reset()  # the rest of a split character does not follow
        self._attempts[part.stream] = part.attempt
        text = decoder.decode(part.data)
        document = {
            "stream": part.stream,
            "attempt": part.attempt,
            "offset": part.offset,
            "skipped": part.skipped,
            "text": text,
        }
        if text.encode() != part.data:
            document["base64"] = base64.b64encode(part.data).decode()
        return document
