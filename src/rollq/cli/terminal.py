"""A full-screen terminal: single keys, whole frames, and the previous state restored at the end."""

from __future__ import annotations

import os
import shutil
import sys
import termios
import tty
from collections.abc import Sequence
from typing import Final, Self

from rich.cells import set_cell_size

from rollq.cli.output import printable
from rollq.cli.top_screen import ALARM, DIM, SELECTED, TITLE, Line

ENTER: Final = "\x1b[?1049h\x1b[?25l"  # alternate screen, cursor hidden
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
HOME: Final = "\x1b[H"
CLEAR_REST: Final = "\x1b[K"
LOOKS: Final = {TITLE: "\x1b[1m", ALARM: "\x1b[31m", SELECTED: "\x1b[7m", DIM: "\x1b[2m"}
NO_COLOUR_LOOKS: Final = {TITLE: "\x1b[1m", ALARM: "\x1b[1m", SELECTED: "\x1b[7m"}
PLAIN: Final = "\x1b[0m"
READ_BYTES: Final = 1_024

SEQUENCES: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\r": "enter",
    b"\n": "enter",
    b"\t": "tab",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x1b": "escape",
}
LONGEST_FIRST: Final = sorted(SEQUENCES, key=len, reverse=True)


def keys_in(data: bytes) -> list[str]:
    """Decode key presses; unknown sequences are ignored."""
    keys: list[str] = []
    while data:
        known = next((one for one in LONGEST_FIRST if data.startswith(one)), b"")
        if known == b"\x1b" and len(data) > 1:  # an unknown sequence
            return keys
        if known:
            keys.append(SEQUENCES[known])
            data = data[len(known) :]
        else:
            keys.append(chr(data[0]))
            data = data[1:]
    return [key for key in keys if len(key) > 1 or key.isprintable()]


class Terminal:
    """The terminal of this process, as a context manager that always restores it."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._fd)
        self._drawn: list[str] = []  # the lines on the screen
        self._looks = NO_COLOUR_LOOKS if os.environ.get("NO_COLOR") else LOOKS

    def __enter__(self) -> Self:
        tty.setcbreak(self._fd)
        self._write(ENTER)
        self._drawn = []
        return self

    def __exit__(self, *exc: object) -> None:
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        self._write(LEAVE)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        size = shutil.get_terminal_size()
        return size.columns, size.lines

    def pressed(self) -> list[str]:
        """The keys since the last call."""
        data = os.read(self._fd, READ_BYTES)
        return keys_in(data) if data else ["q"]  # EOF

    def draw(self, lines: Sequence[Line]) -> None:
        """Draw a frame. Only changed lines are written, to avoid flicker."""
        columns, _ = self.size
        texts = [self._text(line, columns) for line in lines]
        if len(texts) != len(self._drawn):
            self._drawn = [""] * len(texts)
            self._write("\x1b[2J")
        written = [
            f"\x1b[{number + 1};1H{text}"
            for number, (text, before) in enumerate(zip(texts, self._drawn, strict=True))
            if text != before
        ]
        self._drawn = texts
        if written:
            self._write("".join(written))

    def forget(self) -> None:
        """Redraw everything next time, after a resize or another program's output."""
        self._drawn = []

    def _text(self, line: Line, columns: int) -> str:
        text = set_cell_size(printable(line.text), columns)
        look = self._looks.get(line.look, "")
        return f"{look}{text}{PLAIN}" if look else text

    def _write(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
