"""What of a format its version stands for: the fields of every record in it, in order.

A shape is a text file, one record a line. It is written once for a version and never again: who
appends a field or adds a record raises the version, or else members of two builds would take each
other's bytes for their own and keep different states.

    python -m tests.replay.shapes     write those of versions that have none
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import inspect

from rollq.base.staged import StagedGroup
from rollq.grid import command_codec, snapshot
from rollq.grid.commands import CommandBatch
from rollq.grid.snapshot_rows import Head, JobRow

FOLDER = Path(__file__).with_name("golden")
FORMATS: dict[str, tuple[int, tuple[type, ...]]] = {
    "commands": (command_codec.VERSION, (CommandBatch,)),
    "snapshot": (snapshot.VERSION, (Head, JobRow, StagedGroup)),
}


def path_of(name: str, version: int) -> Path:
    """Where the shape of a version is kept."""
    return FOLDER / f"shape-{name}-v{version}.txt"


def shape_of(kinds: tuple[type, ...]) -> dict[str, list[str]]:
    """The fields of these records, and of all that stand in them, with their types."""
    shape: dict[str, list[str]] = {}
    for info in inspect.multi_type_info(kinds):
        _gather(info, shape)
    return shape


def written(shape: dict[str, list[str]]) -> str:
    """As it stands in its file."""
    return "".join(f"{name}({', '.join(fields)})\n" for name, fields in sorted(shape.items()))


def read(text: str) -> dict[str, list[str]]:
    """The inverse of `written`."""
    lines = (line[:-1].split("(", 1) for line in text.splitlines())
    return {name: fields.split(", ") for name, fields in lines}


def _gather(info: inspect.Type, shape: dict[str, list[str]]) -> None:
    if isinstance(info, inspect.StructType):
        name = info.cls.__name__ if info.tag is None else f"{info.tag} {info.cls.__name__}"
        if name in shape:
            return
        shape[name] = [f"{field.name}: {_word(field.type)}" for field in info.fields]
    for part in _parts(info):
        _gather(part, shape)


def _word(info: inspect.Type) -> str:
    if isinstance(info, inspect.StructType):
        return info.cls.__name__
    word = type(info).__name__.removesuffix("Type").lower()
    parts = _parts(info)
    if sum(isinstance(part, inspect.StructType) for part in parts) > 1:
        return f"{word}[by tag]"  # there may be more of them; each has a line of its own
    return f"{word}[{' '.join(map(_word, parts))}]" if parts else word


def _parts(info: Any) -> list[inspect.Type]:
    if isinstance(info, inspect.StructType):
        return [field.type for field in info.fields]
    if isinstance(info, inspect.UnionType):
        return list(info.types)
    if isinstance(info, inspect.TupleType):
        return list(info.item_types)
    if isinstance(info, inspect.ListType | inspect.VarTupleType):
        return [info.item_type]
    return []


if __name__ == "__main__":
    for format_name, (its_version, its_kinds) in FORMATS.items():
        place = path_of(format_name, its_version)
        if not place.exists():
            place.write_text(written(shape_of(its_kinds)), encoding="ascii")
