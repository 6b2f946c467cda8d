"""Writes the table of docs/logs.md from that of the code: `python docs/make_logs.py`."""

from __future__ import annotations

from pathlib import Path

from rollq.base.log_events import EVENTS

PAGE = Path(__file__).with_name("logs.md")
HEAD = "| Event | Level | Message | More fields |\n|---|---|---|---|\n"


def page_text() -> str:
    """What the page must say: its own words, and the table last."""
    words, _, _ = PAGE.read_text(encoding="utf-8").partition(HEAD)
    rows = [
        f"| `{event.word}` | {event.level} | {event.text} | "
        f"{' '.join(f'`{name}`' for name in event.more)} |\n"
        for event in EVENTS
    ]
    return words + HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page_text(), encoding="utf-8")
