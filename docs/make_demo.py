"""Records `rollq demo` as it runs in a terminal: `demo.cast`, which asciinema plays, and
`demo.svg`, its last screen. Run it when the demo shows something else."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import sys
import time
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console

HERE = Path(__file__).parent
COLUMNS, ROWS = 96, 16
COMMAND = [sys.executable, "-m", "rollq", "demo", "--no-report"]
TYPED = "$ rollq demo --no-report\r\n"


def main() -> None:
    """Run, write both."""
    os.environ |= {"COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    began = time.monotonic()
    shown: list[tuple[float, str]] = [(0.0, TYPED)]

    def read(fd: int) -> bytes:
        data = os.read(fd, 65536)
        shown.append((time.monotonic() - began, data.decode()))
        return data

    if pty.spawn(COMMAND, read):
        raise SystemExit("the demo failed; nothing is written")
    head: dict[str, object] = {
        "version": 2,
        "width": COLUMNS,
        "height": ROWS,
        "title": "rollq demo",
    }
    head["idle_time_limit"] = 1
    lines = [json.dumps(head)]
    lines += [json.dumps([round(at_s, 3), "o", text]) for at_s, text in shown]
    (HERE / "demo.cast").write_text("\n".join(lines) + "\n", encoding="utf-8")
    screen = Console(width=COLUMNS, record=True, file=io.StringIO())
    printed = "".join(text for _, text in shown).replace("\r\n", "\n").split("\n")
    for line in printed:
        # Of a bar that was drawn again and again, the last time.
        screen.print(*AnsiDecoder().decode(line.rpartition("\r")[2]))
    svg = screen.export_svg(title="rollq demo", unique_id="demo")
    # Fonts are those of the reader: nothing is fetched from elsewhere.
    fonts = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
    (HERE / "demo.svg").write_text(fonts.sub("", svg), encoding="utf-8")


if __name__ == "__main__":
    main()
