"""What is a traceparent and what is not, by the W3C recommendation."""

from __future__ import annotations

import pytest

from rollq.base.traces import CHARS_MAX, is_traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "text",
    [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-01-more"],
    ids=["sampled", "not sampled", "of a later version"],
)
def test_these_name_a_span(text: str) -> None:
    assert is_traceparent(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"cc-{TRACE}-{SPAN}-01-{'x' * CHARS_MAX}",
    ],
    ids=["nothing", "short", "long", "version", "trace", "span", "capitals", "line", "endless"],
)
def test_these_do_not(text: str) -> None:
    assert not is_traceparent(text)
