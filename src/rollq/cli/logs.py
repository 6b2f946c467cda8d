"""Log output of the long-running commands, on stderr: as text or JSON lines.

Log lines contain names that users chose (clients, accounts, programs). They are escaped, so that
they cannot forge lines or control a terminal.
"""

from __future__ import annotations

import enum
import json
import logging
import os
import platform
import re
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import typer

from rollq.base.log_events import STARTING, SUPPRESSED, tell
from rollq.cli.output import alarming

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
PLAIN: Final = re.compile(r'[^\s"=\\]+')  # a value without quotes


class Level(enum.StrEnum):
    """The log level."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


def set_up_logs(ctx: typer.Context, **process: str) -> None:
    """Configure logging to stderr by the options of the command, and log the start.

    Args:
        ctx: The context of the command, which has `LogLevel`, `LogFormatOption` and `Json`.
        process: Fields of every JSON line that identify this process.
    """
    from rollq.release import release

    options = ctx.params
    log_format = options["log_format"] or (LogFormat.JSON if options["as_json"] else LogFormat.TEXT)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(process) if log_format == LogFormat.JSON else Lines())
    root = logging.getLogger("rollq")
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[options["log_level"]])
    root.propagate = False
    # Options name files of secrets, never secrets themselves.
    sources = {name: ctx.get_parameter_source(name) for name in options}
    given = [
        f"{name}={options[name]}"
        for name, source in sources.items()
        if source is not None and source.name != "DEFAULT"
    ]
    tell(
        root,
        STARTING,
        version=release(),
        command=ctx.info_name,
        python=platform.python_version(),
        pid=os.getpid(),
        options=" ".join(given),
    )


class Lines(logging.Formatter):
    """`2026-01-31 12:30:59.123 member  text key=value`; warnings and errors have their level, in
    red on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one line; an exception follows in indented lines."""
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        who = record.name.removeprefix("rollq.")
        what = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        text = f"{clock}.{int(record.msecs):03d} {who:<7} {what}{escaped(record.getMessage())}"
        fields: dict[str, Any] = getattr(record, "fields", {})
        shown: tuple[str, ...] = getattr(record, "shown", ())
        for name in (*shown, SUPPRESSED):
            if fields.get(name) not in (None, "", ()):
                text += f" {name}={_value(fields[name])}"
        if what:
            text = alarming(text, sys.stderr)
        for line in self.formatException(record.exc_info).splitlines() if record.exc_info else ():
            text += f"\n    {escaped(line)}"
        return text


class JsonLines(logging.Formatter):
    """One JSON object per line.

    Args:
        process: Fields of every line.
    """

    def __init__(self, process: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._process = dict(process or {})

    def format(self, record: logging.LogRecord) -> str:
        """Format one line."""
        row: dict[str, Any] = {
            "ts": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if event := getattr(record, "event", ""):
            row["event"] = event
        row["message"] = escaped(record.getMessage())
        row["fields"] = self._process | getattr(record, "fields", {})
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        try:
            line = msgspec.json.encode(row, enc_hook=str).decode()
        except UnicodeEncodeError:  # a lone surrogate, from a file name
            line = msgspec.json.encode(_encodable(row), enc_hook=str).decode()
        if line.isprintable():
            return line
        return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)


def escaped(text: str) -> str:
    """Escape newlines, control characters and direction marks."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _value(value: Any) -> str:
    """A value, quoted if necessary."""
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    text = escaped(str(value))
    if PLAIN.fullmatch(text):
        return text
    return '"' + text.replace('"', '\\"') + '"'


def _encodable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _encodable(one) for name, one in value.items()}
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
