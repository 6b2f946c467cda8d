"""Writes the reference part of the pages in docs/cli from the commands themselves:
`python docs/make_cli.py`. What stands above the mark is written by hand and kept."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from rollq.cli.main import app
from rollq.cli.pages import argument_name, is_argument

FOLDER = Path(__file__).with_name("cli")
MARK = "<!-- From here on made by docs/make_cli.py: change the command, not this part. -->\n"


def pages() -> dict[str, str]:
    """The reference part of every page, by command."""
    root: Any = typer.main.get_command(app)
    return {
        name: MARK + "".join(_sections(f"rollq {name}", command))
        for name, command in root.commands.items()
    }


def write() -> None:
    """Bring every page up to date."""
    FOLDER.mkdir(exist_ok=True)
    for name, reference in pages().items():
        page = FOLDER / f"{name}.md"
        text = page.read_text(encoding="utf-8") if page.exists() else f"# rollq {name}\n\n"
        page.write_text(text.partition(MARK)[0] + reference, encoding="utf-8")


def _sections(path: str, command: Any) -> Iterator[str]:
    children = getattr(command, "commands", {})
    if not children:
        yield _section(path, command)
    for name, child in children.items():
        yield from _sections(f"{path} {name}", child)


def _section(path: str, command: Any) -> str:
    arguments = [argument_name(param) for param in command.params if is_argument(param)]
    usage = " ".join([path, "[OPTIONS]", *arguments])
    rows = "\n".join(_row(param) for param in command.params)
    examples = (command.epilog or "").replace("\b\n", "").strip()
    for title in ("Examples:", "Example:"):
        examples = examples.removeprefix(title)
    lines = "\n".join(line.removeprefix("  ") for line in examples.strip().splitlines())
    return (
        f"\n## {path}\n\n```\n{usage}\n```\n\n{command.help.strip()}\n\n"
        f"| Argument or option | Meaning | Default | Environment |\n|---|---|---|---|\n{rows}\n\n"
        f"```\n{lines}\n```\n"
    )


def _row(param: Any) -> str:
    if is_argument(param):
        names = f"`{argument_name(param)}`"
    else:
        names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
        names += f" `{param.metavar}`" if param.metavar else ""
    variables = [param.envvar] if isinstance(param.envvar, str) else param.envvar or []
    cells = (
        names,
        (param.help or "").replace("|", "\\|"),
        _default(param),
        " ".join(f"`{variable}`" for variable in variables),
    )
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def _default(param: Any) -> str:
    if isinstance(param.show_default, str):
        return param.show_default
    value = param.default
    if isinstance(value, enum.Enum):
        value = value.value
    if param.required or value is None or value is False or value == "" or callable(value):
        return ""
    return f"`{value}`"


if __name__ == "__main__":
    write()
