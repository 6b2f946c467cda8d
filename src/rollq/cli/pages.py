"""How a command shows its arguments: on the usage line, in its help and in the docs, by one rule.

An argument has a name in capitals; one that may be left out stands in brackets, and one that may be
repeated has dots behind it.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose help follows the rule, whichever version of the library writes it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As ever; whoever gives a program -1 or -v is told where such arguments go."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # By its name, because versions of the library have the class in different places.
            name = getattr(error, "option_name", "")
            takes_rest = any(is_argument(param) and param.nargs == -1 for param in self.params)
            if type(error).__name__ == "NoSuchOption" and takes_rest and name[:2] != "--":
                told: Any = error
                told.message += f". An argument that begins with - stands behind --: … -- {name}"
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind the command on its usage line."""
        arguments = [argument_name(param) for param in self.get_params(ctx) if is_argument(param)]
        return [self.options_metavar or "", *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options, each with its help."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if is_argument(param):
                rows["Arguments"].append((argument_name(param), record[1]))
            else:
                rows["Options"].append(record)
        for title, shown in rows.items():
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)


def argument_name(param: Any) -> str:
    """An argument as it is shown."""
    name = str(param.metavar or param.name.upper())
    shown = name if param.required else f"[{name}]"
    return shown if param.nargs == 1 or "…" in name else f"{shown}…"


def is_argument(param: Any) -> bool:
    """Whether a parameter is an argument and no option."""
    return bool(param.param_type_name == "argument")
