"""Formats the arguments of a command on its usage line, in its help and in the docs, and checks
that texts among them can be sent.

An argument has a name in capitals. Optional ones are in brackets, and repeatable ones are followed
by an ellipsis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typer.core import TyperCommand

from rollq.base.texts import is_utf8, not_utf8

VALUE_CHARS_MAX: Final = 64  # of a value that is named in an error
# What may be any bytes: paths, and payloads, which are sent as they are.
OF_BYTES: Final = ("DIR", "FILE", "PATH", "[NAME=]PATH", "PAYLOAD")
# How values that a library parses are called.
_WANTED: Final = {int: "a whole number", float: "a number", bool: "true or false"}


class Command(TyperCommand):
    """A command with this formatting, independent of the version of Typer."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments. The error for an unknown option explains how to pass arguments like
        -1; that for an invalid value is without the words of the libraries that check it.

        Raises:
            LocalError: BAD_OPTIONS, for text that is not UTF-8.
        """
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:
            # Compared by name, because the class moved between versions of the library.
            name = getattr(error, "option_name", "")
            takes_rest = any(is_argument(param) and param.nargs == -1 for param in self.params)
            if type(error).__name__ == "NoSuchOption" and takes_rest and name[:2] != "--":
                usage_error: Any = error
                usage_error.message += (
                    f". An argument that begins with - stands behind --: … -- {name}"
                )
            elif type(error).__name__ == "BadParameter":
                invalid: Any = error
                invalid.message = _said_plainly(invalid)
                if invalid.param is not None and not invalid.param_hint:
                    invalid.param_hint = _shown_param(invalid.param)
            raise
        for param in self.params:
            if param.metavar not in OF_BYTES:
                _check_texts(param, ctx.params)
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The pieces of the usage line after the name of the command."""
        arguments = [argument_name(param) for param in self.get_params(ctx) if is_argument(param)]
        return [self.options_metavar or "", *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options, each with its help."""
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


def _check_texts(param: Any, values: Mapping[str, Any]) -> None:
    """Check the text or texts of a parameter; a `Path` is none. An error does not show what is
    behind =, as in `--env TOKEN=…`: it may be a secret."""
    value = values.get(param.name)
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, str) and not is_utf8(one):
            name, equals, _ = one.partition("=")
            raise not_utf8(_shown_param(param), f"{name}=…" if equals else name)


def _said_plainly(error: Any) -> str:
    """What is wrong with a value, without the words of the library that checked it: for a number
    its range."""
    descriptor = getattr(error.param, "type_descriptor", None)
    found: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    wanted = _WANTED.get(getattr(descriptor, "annotation", type(None)))
    if descriptor is None or wanted is None or not found:
        return str(error.message).removeprefix("Value error, ")
    least, most = descriptor.parameter_info.min, descriptor.parameter_info.max
    bounds = f" from {least} to {most}" if None not in (least, most) else ""
    if not bounds and least is not None:
        bounds = f" of {least} or more"
    elif not bounds and most is not None:
        bounds = f" of {most} or less"
    return f"{str(found[0]['input'])[:VALUE_CHARS_MAX]!r} is not {wanted}{bounds}."


def _shown_param(param: Any) -> str:
    """An argument or option in an error, with the variables that it may come from."""
    names = param.envvar if isinstance(param.envvar, list | tuple) else [param.envvar]
    variables = ", ".join(name for name in names if name)
    shown = argument_name(param) if is_argument(param) else " / ".join(param.opts)
    return f"'{shown}'" + (f" (env var: {variables})" if variables else "")


def argument_name(param: Any) -> str:
    """The displayed name of an argument."""
    name = str(param.metavar or param.name.upper())
    shown = name if param.required else f"[{name}]"
    return shown if param.nargs == 1 or "…" in name else f"{shown}…"


def is_argument(param: Any) -> bool:
    """Whether a parameter is an argument."""
    return bool(param.param_type_name == "argument")
