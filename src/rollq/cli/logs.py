"""Log lines of the long-running commands: on stderr, for people or as JSON lines."""

from __future__ import annotations

import logging
import sys
import time

import msgspec

from rollq.cli.output import alarming

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


def set_up_logs(level: str, *, as_json: bool) -> None:
    """Send the log of rollq to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Lines())
    root = logging.getLogger("rollq")
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    root.propagate = False


class Lines(logging.Formatter):
    """`2026-01-31 12:30:59.123 member  text`; warnings and errors say so, in red on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        who = record.name.removeprefix("rollq.")
        what = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        text = f"{clock}.{int(record.msecs):03d} {who:<7} {what}{record.getMessage()}"
        if what:
            text = alarming(text, sys.stderr)
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        row = {
            "ts": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(row).decode()
