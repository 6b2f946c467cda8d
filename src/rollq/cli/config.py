"""Defaults from a TOML file. A top-level key is the default of every command that has the option; a
table applies to one command: `[worker]`, `[dlq.list]`. Arguments and environment take precedence.
`credentials` and `federation_key` are relative to the file, so that it can be moved with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import typer

from rollq.base.errors import ErrorCode, LocalError

BESIDE: Final = ("credentials", "federation_key")


def load_config(ctx: typer.Context, named: Path | None) -> None:
    """Set the file's values as defaults of the commands below this context.

    Raises:
        LocalError: BAD_SETUP, if the file cannot be read or has unknown keys.
    """
    path = named or _default_path()
    if named is None and not path.is_file():
        return
    values = _read(path)
    common = {_key(name): value for name, value in values.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    used: dict[str, None] = {}
    ctx.default_map = _defaults(ctx.command, common, tables, path, used)
    unknown = [name for name in common if name not in used]
    if unknown:
        raise _bad(path, f"no command has an option named {unknown[0]!r}")


def _default_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / "rollq" / "rollq.toml"


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _bad(path, f"is not TOML: {error}") from None


def _defaults(
    command: Any, common: dict[str, Any], tables: dict[str, Any], path: Path, used: dict[str, None]
) -> dict[str, Any]:
    """The defaults of one command and, if it is a group, of its subcommands."""
    below = getattr(command, "commands", {})
    made: dict[str, Any] = {}
    for name, child in below.items():
        table = tables.get(name, {})
        own = {_key(key): value for key, value in table.items() if not isinstance(value, dict)}
        nested = {key: value for key, value in table.items() if isinstance(value, dict)}
        made[name] = _defaults(child, common, nested, path, used)
        params = _params(child)
        for key, value in common.items():
            if key in params:
                used[key] = None
                made[name][params[key].name] = _value(params[key], value, path)
        for key, value in own.items():
            if key not in params:
                raise _bad(path, f"[{name}] has no option named {key!r}")
            made[name][params[key].name] = _value(params[key], value, path)
    for name in tables:
        if name not in below:
            raise _bad(path, f"there is no command named {name!r}")
    return made


def _params(command: Any) -> dict[str, Any]:
    """The parameters of a command, by every spelling."""
    names: dict[str, Any] = {}
    for param in command.params:
        for spelled in (param.name, *param.opts):
            names[_key(spelled.lstrip("-"))] = param
    return names


def _value(param: Any, value: Any, path: Path) -> Any:
    """Convert a value: a list is joined by commas if the option takes one text."""
    if param.name in BESIDE and isinstance(value, str):
        return str(path.parent / value)
    if isinstance(value, list) and not param.multiple and param.nargs == 1:
        return ",".join(map(str, value))
    return value


def _key(name: str) -> str:
    return name.replace("-", "_")


def _bad(path: Path, what: str) -> LocalError:
    return LocalError(
        ErrorCode.BAD_SETUP, f"{path}: {what}", "correct the file, or name another with --config"
    )
