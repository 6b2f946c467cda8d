"""JSON on a stream that lacks characters."""

from __future__ import annotations

import io
import json

import pytest

from rollq.cli.output import json_text


@pytest.mark.parametrize("text", ["é", "日本", "\U0001f600", "path/\udcff", "plain"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_valid_and_whole_in_every_encoding(text: str, encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding, errors="replace", newline="")
    stream.write(json_text({"name": text, "count": 1}, stream))
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    assert json.loads(stream.buffer.getvalue().decode(encoding)) == {"name": text, "count": 1}


def test_what_the_stream_has_is_written_as_it_is() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    assert json_text({"name": "日本"}, stream) == '{"name":"日本"}'
    assert json_text({"name": "日本"}, io.StringIO()) == '{"name":"日本"}'
