"""The text form of scripts: blocks of `command args`, input lines, `----`, expected output.

Reads what CockroachDB's datadriven library writes, so that scripts of other projects and our own
scenarios share one reader. Knows nothing of what commands mean.

    # a comment
    command word key=value list=(1,2) \\
      more=args
    input line
    ----
    expected line

A blank line ends the expected output; output that itself holds blank lines stands between two
doubled rulers (`----` twice).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

RULER = "----"
ARGUMENT = re.compile(r"(?P<key>[^\s=]+)(?:=(?:\((?P<list>[^)]*)\)|(?P<value>\S*)))?")


@dataclass(slots=True, frozen=True)
class Block:
    """One command of a script with what it must print."""

    line: int  # of the command, counted from 1
    command: str
    words: tuple[str, ...]  # arguments without `=`
    options: dict[str, tuple[str, ...]]  # key=value and key=(a,b)
    input: tuple[str, ...]
    expected: tuple[str, ...]
    source: tuple[str, ...] = field(repr=False, default=())  # the lines up to the ruler, as found

    def word(self, place: int) -> str:
        """The argument at this place; a missing one is an error of the script."""
        if place >= len(self.words):
            raise ScriptError(self.line, f"{self.command} wants {place + 1} arguments or more")
        return self.words[place]

    def number(self, place: int) -> int:
        """The argument at this place, as a number."""
        return self.as_number(self.word(place))

    def numbers(self) -> list[int]:
        """All arguments without `=`, as numbers."""
        return [self.as_number(word) for word in self.words]

    def option(self, key: str, default: str = "") -> str:
        """The single value of an option."""
        values = self.options.get(key, (default,))
        if len(values) != 1:
            raise ScriptError(self.line, f"{key} wants one value")
        return values[0]

    def option_number(self, key: str, default: int) -> int:
        """The single value of an option, as a number."""
        return self.as_number(self.option(key, str(default)))

    def option_numbers(self, key: str) -> list[int]:
        """All values of an option, as numbers."""
        return [self.as_number(value) for value in self.options.get(key, ())]

    def as_number(self, text: str) -> int:
        """A number of the script, or an error that names the line."""
        try:
            return int(text)
        except ValueError:
            raise ScriptError(self.line, f"{self.command}: not a number: {text!r}") from None


class ScriptError(Exception):
    """A script that cannot be read or carried out as written."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


def read_blocks(path: Path) -> list[Block]:
    """The blocks of a file, in order."""
    return parse_blocks(path.read_text(encoding="utf-8"))


def parse_blocks(text: str) -> list[Block]:
    """The blocks of a text, in order. Comments and blank lines between blocks are passed over."""
    lines = text.splitlines()
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        ruler = _find_ruler(lines, at)
        expected, end = _take_expected(lines, ruler + 1)
        blocks.append(_make_block(at + 1, lines[at:ruler], expected))
        at = end
    return blocks


def render_block(block: Block, output: str) -> str:
    """The block's text with `output` as its expectation."""
    head = "\n".join((*block.source, RULER))
    body = output.rstrip("\n")
    if "" in body.split("\n") and body:
        body = f"{RULER}\n{body}\n{RULER}\n{RULER}"
    return f"{head}\n{body}\n" if body else f"{head}\n"


def rewrite_text(text: str, outputs: dict[int, str]) -> str:
    """The script's text with new expectations, by line of command; comments stay where they are."""
    lines = text.splitlines()
    out: list[str] = []
    at = 0
    for block in parse_blocks(text):
        start = block.line - 1
        out.extend(lines[at:start])
        out.append(render_block(block, outputs[block.line]).rstrip("\n"))
        _, at = _take_expected(lines, start + len(block.source) + 1)
        if at <= len(lines):
            out.append("")  # the blank line that ended the expectation
    out.extend(lines[at:])
    return "\n".join(out).rstrip("\n") + "\n"


def check_block(block: Block, output: str) -> bool:
    """Whether this output is what the block expects."""
    return tuple(output.rstrip("\n").split("\n") if output.strip() else ()) == block.expected


def _find_ruler(lines: list[str], start: int) -> int:
    for at in range(start, len(lines)):
        if lines[at] == RULER:
            return at
    raise ScriptError(start + 1, f"no {RULER} after the command")


def _take_expected(lines: list[str], start: int) -> tuple[tuple[str, ...], int]:
    """Expected lines from `start` and the place after their end."""
    if start < len(lines) and lines[start] == RULER:
        for at in range(start + 1, len(lines) - 1):
            if lines[at] == RULER and lines[at + 1] == RULER:
                return tuple(lines[start + 1 : at]), at + 3
        raise ScriptError(start + 1, "a doubled ruler that is not closed")
    end = start
    while end < len(lines) and lines[end].strip():
        end += 1
    return tuple(lines[start:end]), end + 1


def _make_block(line: int, head: list[str], expected: tuple[str, ...]) -> Block:
    joined = head[0]
    used = 1
    while joined.endswith("\\") and used < len(head):
        joined = f"{joined[:-1]} {head[used].strip()}"
        used += 1
    command, _, rest = joined.strip().partition(" ")
    block = Block(line, command, (), {}, tuple(head[used:]), expected, tuple(head))
    return replace(block, words=_words(rest), options=_options(rest))


def _words(rest: str) -> tuple[str, ...]:
    return tuple(m["key"] for m in ARGUMENT.finditer(rest) if not _has_value(m))


def _options(rest: str) -> dict[str, tuple[str, ...]]:
    options: dict[str, tuple[str, ...]] = {}
    for match in ARGUMENT.finditer(rest):
        if not _has_value(match):
            continue
        if match["list"] is not None:
            items = re.split(r"[,\s]+", match["list"].strip())
            options[match["key"]] = tuple(item for item in items if item)
        else:
            options[match["key"]] = (match["value"],)
    return options


def _has_value(match: re.Match[str]) -> bool:
    return match["list"] is not None or match["value"] is not None
