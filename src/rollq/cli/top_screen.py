"""The screen of `rollq top`: handles keys, and renders a document as lines. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from rollq.base.amounts import time_text
from rollq.base.outcomes import DEAD, FAILED
from rollq.cli.ids import SHORT_DIGITS
from rollq.cli.output import cut, padded, width_of
from rollq.cli.status import cpu_text, memory_text

# Styles of a line.
PLAIN: Final = ""
TITLE: Final = "title"
ALARM: Final = "alarm"
SELECTED: Final = "selected"
DIM: Final = "dim"

SECTIONS: Final = ("queues", "workers", "slowest")
SORTS: Final = {
    "queues": ("waiting", "oldest_s", "name"),
    "workers": ("running", "name"),
    "slowest": ("changed_ms", "exec"),
    "jobs": ("changed_ms", "state", "exec"),
}
HELP: Final = (
    "keys of rollq top",
    "",
    "  q, Ctrl-C        quit",
    "  up down, k j     select a row",
    "  Tab, left right  go to queues, workers, slowest running jobs",
    "  Enter            queue or worker: its jobs; job: why, and its last output",
    "  Esc, Backspace   back",
    "  s                sort by another column",
    "  /                show only rows with a text; Enter ends it, empty shows all",
    "  p                pause and continue",
    "  ?                this page",
)
PAGE_ROWS: Final = 10


class Line(NamedTuple):
    """A line of the screen."""

    text: str
    look: str = PLAIN


class ScreenView(NamedTuple):
    """What is shown: `main`, the `jobs` of a queue or a worker, one `job`, or `help`."""

    kind: str = "main"
    queue: str = ""
    worker: str = ""
    job: str = ""


@dataclass
class Screen:
    """The state of the screen: the user's selection, and the data."""

    look: dict[str, Any] | None = None
    jobs: list[dict[str, Any]] = field(default_factory=list)
    are_jobs_cut: bool = False  # there may be more
    lines: list[str] = field(default_factory=list)  # of the job that is shown
    trouble: str = ""  # why the data is not current; empty: it is
    places: list[ScreenView] = field(default_factory=lambda: [ScreenView()])
    section: str = "queues"
    row: int = 0
    sorts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SORTS, 0))
    filter: str = ""
    is_typing: bool = False  # the filter
    is_paused: bool = False
    is_over: bool = False

    @property
    def place(self) -> ScreenView:
        """The current view."""
        return self.places[-1]

    def press(self, key: str) -> bool:
        """Handle a key; returns whether new data is needed."""
        if self.is_typing:
            self._type(key)
            return False
        act = KEYS.get(key)
        before = self.place
        if act is not None:
            act(self)
        return self.place != before

    def rows(self) -> list[dict[str, Any]]:
        """The selectable rows, in order."""
        return self.rows_of("jobs" if self.place.kind == "jobs" else self.section)

    def rows_of(self, section: str) -> list[dict[str, Any]]:
        """The rows of a section."""
        looked = self.look or {}
        found: list[dict[str, Any]] = self.jobs if section == "jobs" else looked.get(section, [])
        if self.filter:
            found = [one for one in found if self.filter in _searched(one)]
        column = SORTS[section][self.sorts[section]]
        if column in ("name", "state", "exec"):
            return sorted(found, key=lambda one: str(one[column]))
        is_oldest_first = section == "slowest"
        return sorted(found, key=lambda one: one[column] or 0, reverse=not is_oldest_first)

    def count_of(self, section: str) -> str:
        """The number of rows of a section, and whether the grid has more than were asked for."""
        is_cut = self.are_jobs_cut if section == "jobs" else self.is_cut(section)
        return f"{len(self.rows_of(section))}{' or more' if is_cut else ''}"

    def is_cut(self, section: str) -> bool:
        """Whether the data has only some of the rows of a section."""
        return self.look is not None and section in self.look["cut"]

    # --- keys

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.is_typing = False
            if key == "escape":
                self.filter = ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key
        self.row = 0

    def _quit(self) -> None:
        self.is_over = True

    def _move(self, by: int) -> None:
        last = (len(self.lines) if self.place.kind == "job" else len(self.rows())) - 1
        self.row = max(0, min(self.row + by, last))

    def _turn(self, by: int) -> None:
        if self.place.kind == "main":
            self.section = SECTIONS[(SECTIONS.index(self.section) + by) % len(SECTIONS)]
            self.row = 0

    def _enter(self) -> None:
        rows = self.rows() if self.place.kind in ("main", "jobs") else []
        if self.row >= len(rows):
            return
        one = rows[self.row]
        if self.place.kind == "jobs" or self.section == "slowest":
            self._go(ScreenView("job", job=one["id"]))
        elif self.section == "queues":
            self._go(ScreenView("jobs", queue=one["name"]))
        else:
            self._go(ScreenView("jobs", worker=one["id"]))

    def _go(self, place: ScreenView) -> None:
        self.places.append(place)
        self.row, self.filter = 0, ""
        self.lines = []
        if place.kind == "jobs":
            self.jobs, self.are_jobs_cut = [], False

    def _back(self) -> None:
        if len(self.places) > 1:
            self.places.pop()
            self.row, self.filter = 0, ""

    def _sort(self) -> None:
        section = "jobs" if self.place.kind == "jobs" else self.section
        self.sorts[section] = (self.sorts[section] + 1) % len(SORTS[section])

    def _pause(self) -> None:
        self.is_paused = not self.is_paused

    def _filter(self) -> None:
        self.is_typing = self.place.kind in ("main", "jobs")

    def _help(self) -> None:
        if self.place.kind != "help":
            self._go(ScreenView("help"))


KEYS: Final[dict[str, Callable[[Screen], None]]] = {
    "q": Screen._quit,
    "up": lambda screen: screen._move(-1),
    "k": lambda screen: screen._move(-1),
    "down": lambda screen: screen._move(1),
    "j": lambda screen: screen._move(1),
    "page up": lambda screen: screen._move(-PAGE_ROWS),
    "page down": lambda screen: screen._move(PAGE_ROWS),
    "tab": lambda screen: screen._turn(1),
    "right": lambda screen: screen._turn(1),
    "left": lambda screen: screen._turn(-1),
    "enter": Screen._enter,
    "escape": Screen._back,
    "backspace": Screen._back,
    "s": Screen._sort,
    "p": Screen._pause,
    "/": Screen._filter,
    "?": Screen._help,
}


# --- rendering


def frame(screen: Screen, width: int, height: int, now_ms: int) -> list[Line]:
    """Render the screen. Table names are cut to the width; longer lines are cut by the terminal."""
    lines = _head(screen, now_ms)
    room = max(0, height - len(lines) - 1)
    place = screen.place
    if place.kind == "help":
        body = [Line(one) for one in HELP]
    elif place.kind == "job":
        found = screen.lines or ["asking …"]
        body = [Line(one) for one in found[screen.row : screen.row + room]]
    elif screen.look is None:
        body = [Line("asking …", DIM)]
    elif place.kind == "jobs":
        whose = f"queue {place.queue}" if place.queue else f"worker {place.worker}"
        body = _table(screen, "jobs", f"jobs of {whose}", (width, room), now_ms)
    else:
        body = _sections(screen, (width, room), now_ms)
    lines += body[:room]
    lines += [Line("")] * (height - 1 - len(lines))
    return [*lines[: height - 1], Line(_foot(screen), DIM)]


def _head(screen: Screen, now_ms: int) -> list[Line]:
    look = screen.look
    clock = time.strftime("%H:%M:%S", time.localtime(now_ms / 1000))
    if look is None:
        return [Line(f"rollq top  {clock}", TITLE), Line(screen.trouble, ALARM)]
    group, jobs, rates = look["cluster"], look["jobs"], look["rates"]
    lag = max((one["lag"] for one in group["members"] if one["active"]), default=0)
    away = sum(not one["active"] for one in group["members"])
    members = f"members {len(group['members'])}" + (f" ({away} away)" if away else "")
    lines = [
        Line(
            f"rollq top  {clock}  leader {group['leader']}  term {group['term']}  {members}  "
            f"lag {lag}" + ("  PAUSED" if screen.is_paused else ""),
            TITLE,
        ),
        Line("jobs   " + "  ".join(f"{word} {_short(count)}" for word, count in jobs.items())),
        Line("per s  " + "  ".join(f"{word} {_rate(rate)}" for word, rate in rates.items())),
    ]
    if screen.trouble:
        lines.append(Line(screen.trouble, ALARM))
    lines += [Line(f"alarm: {one['text']}", ALARM) for one in group["alarms"][:2]]
    return [*lines, Line("")]


def _sections(screen: Screen, size: tuple[int, int], now_ms: int) -> list[Line]:
    """Render the three sections; the active one gets the lines that the others do not need."""
    width, room = size
    counts = {name: len(screen.rows_of(name)) for name in SECTIONS}
    share = max(1, room // len(SECTIONS))
    needs = {name: min(count + 2, share) for name, count in counts.items()}
    used = screen.section
    needs[used] = min(counts[used] + 2, room - sum(needs.values()) + needs[used])
    look = screen.look or {"workers": ()}
    slots = sum(one["slots"] for one in look["workers"])
    busy = sum(min(one["running"], one["slots"]) for one in look["workers"])
    is_all = not screen.is_cut("workers")
    workers = f"workers, {busy} of {slots} slots busy" if is_all else "workers"
    titles = {"queues": "queues", "workers": workers, "slowest": "running longest"}
    lines: list[Line] = []
    for name in SECTIONS:
        lines += _table(screen, name, titles[name], (width, needs[name]), now_ms)
    return lines


def _table(
    screen: Screen, section: str, title: str, size: tuple[int, int], now_ms: int
) -> list[Line]:
    rows = screen.rows_of(section)
    is_used = section in (screen.section, "jobs")
    heads, cells = COLUMNS[section]
    width, room = size
    shown = max(0, room - 1)
    first = max(0, min(screen.row - shown + 1, len(rows) - shown)) if is_used else 0
    part = rows[first : first + shown]
    texts = [[*heads], *([*cells(one, now_ms)] for one in part)]
    texts[0][0] = f"{title} ({screen.count_of(section)})"
    widths = [max(width_of(row[at]) for row in texts) for at in range(len(heads))]
    widths[0] = max(NAME_MIN, min(widths[0], width - sum(widths[1:]) - GAP * (len(widths) - 1)))
    lines = []
    for number, row in enumerate(texts):
        cells_of = [padded(cut(row[0], widths[0]), widths[0])]
        cells_of += [padded(*cell, is_right=True) for cell in zip(row[1:], widths[1:], strict=True)]
        text = (" " * GAP).join(cells_of)
        look = TITLE if number == 0 else PLAIN
        if number and is_used and first + number - 1 == screen.row:
            look = SELECTED
        elif number and part[number - 1].get("state") in (FAILED, DEAD):
            look = ALARM
        lines.append(Line(text, look))
    return lines


def _queue_cells(one: dict[str, Any], _now_ms: int) -> tuple[str, ...]:
    oldest_s = int(one["oldest_s"] or 0)
    oldest = time_text(oldest_s * 1000) if oldest_s and one["waiting"] else "-"
    name = one["name"] + (" (paused)" if one["paused"] else "")
    counts = (str(one[word]) for word in ("waiting", "delayed", "running", "failed", "dead"))
    return (name, *counts, oldest, _rate(one["rate"]))


def _worker_cells(one: dict[str, Any], _now_ms: int) -> tuple[str, ...]:
    is_ready = one["state"] == "ready"
    state = ("CPU cap" if one["cpu_capped"] else "up") if is_ready else one["state"]
    name = one["name"] or one["id"]
    serves = " ".join(one["patterns"]).replace("job.assign.", "")
    load = one["load"]
    used = (cpu_text(load), memory_text(load))
    return name, f"{one['running']}/{one['slots']}", state, *used, serves


def _job_cells(one: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    since = time_text(max(0, now_ms - one["changed_ms"]) // 1000 * 1000)
    worker = one.get("worker_name") or one.get("worker", "")[:SHORT_DIGITS]
    return (
        one["id"][:SHORT_DIGITS] + " " + one["exec"],
        one["state"],
        since,
        cut(one["queue"], CELL_MAX),
        cut(worker, CELL_MAX),
        cut(one["client"], CELL_MAX),
    )


NAME_MIN: Final = 8
CELL_MAX: Final = 16  # width of a name that is not in the first column
GAP: Final = 2
JOB_HEADS: Final = ("", "state", "since", "queue", "worker", "client")
Cells: TypeAlias = Callable[[dict[str, Any], int], tuple[str, ...]]
COLUMNS: Final[dict[str, tuple[tuple[str, ...], Cells]]] = {
    "queues": (
        ("", "waiting", "delayed", "running", "failed", "dead", "oldest", "ended/s"),
        _queue_cells,
    ),
    "workers": (("", "jobs", "state", "cpu", "memory", "serves"), _worker_cells),
    "slowest": (JOB_HEADS, _job_cells),
    "jobs": (JOB_HEADS, _job_cells),
}


def _foot(screen: Screen) -> str:
    if screen.is_typing:
        return f"/{screen.filter}_"
    told = f"  filter {screen.filter!r}" if screen.filter else ""
    return "q quit  Enter open  Esc back  Tab next  s sort  / filter  p pause  ? help" + told


def _short(count: int) -> str:
    """Abbreviate a count: 99999, 100k, 12M."""
    for unit, size in (("M", 10**7), ("k", 10**5)):
        if count >= size:
            return f"{count // (10**6 if unit == 'M' else 10**3)}{unit}"
    return str(count)


def _rate(rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def _searched(one: dict[str, Any]) -> str:
    return " ".join(str(one.get(name, "")) for name in ("name", "id", "exec", "state", "client"))
