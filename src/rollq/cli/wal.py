"""`rollq wal`: shows the log of a state directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.cli.options import Json

if TYPE_CHECKING:
    from rollq.raft.types import Entry
    from rollq.store.dump import Dumped

EPILOG = """\b
Example:
  rollq wal dump ./state/5000
"""
app = typer.Typer(
    name="wal",
    help="Inspect the write-ahead log on disk.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def wal() -> None:
    """Inspect the write-ahead log on disk."""


@app.command(
    epilog="""\b
Examples:
  rollq wal dump ./state/5000
  rollq wal dump ./state/5000 --json | jq 'select(.kind == "damage")'
"""
)
def dump(
    state: Annotated[Path, typer.Argument(metavar="DIR", help="State directory of a member.")],
    entries: Annotated[
        bool, typer.Option("--entries/--no-entries", help="Show the commands of each entry.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Show every record of the log, also corrupt ones. Read-only.

    Exit code 1 if something is corrupt. The end of the log of a running member may appear so.
    With --json: one JSON object per line.
    """
    from rollq.cli.output import write_json
    from rollq.store.dump import dump as dump_log
    from rollq.store.look import LookDisk

    is_damaged = False
    for record in dump_log(LookDisk(state)):
        is_damaged |= not record.is_sound
        document = _document(record, with_entries=entries)
        if as_json:
            write_json(document)
        else:
            _show(document)
    if is_damaged:
        raise typer.Exit(1)


def _document(record: Dumped, *, with_entries: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "segment": record.segment,
        "offset": record.offset,
        "bytes": record.size_bytes,
        "kind": record.kind,
        "sound": record.is_sound,
    }
    header = record.header
    if header is not None:
        document |= {
            "batch": header.seq,
            "synced": header.synced_seq,
            "term": header.hard_state.term,
            "vote": str(header.hard_state.vote),
            "commit": header.hard_state.commit,
            "last": header.last.index,
        }
    if record.head is not None:
        identity = record.head.identity
        document |= {
            "member": str(identity.member_id),
            "address": identity.address,
            "cluster": identity.cluster_id.hex(),
            "group": record.head.group,
            "boot": identity.boot,
        }
    if with_entries and record.entries:
        document["entries"] = [_entry(entry) for entry in record.entries]
    return document


def _entry(entry: Entry) -> dict[str, Any]:
    from rollq.base.errors import LocalError
    from rollq.documents.times import when
    from rollq.grid.command_codec import decode_batch
    from rollq.raft.types import EntryKind

    document: dict[str, Any] = {"index": entry.index, "term": entry.term, "bytes": len(entry.data)}
    if entry.kind == EntryKind.CONFIG:
        return document | {"commands": ["change of members"]}
    if not entry.data:
        return document | {"commands": ["start of a term"]}
    try:
        batch = decode_batch(entry.data)
    except LocalError as error:
        return document | {"commands": [error.message]}
    names: dict[str, int] = {}
    for command in batch.commands:
        name = type(command).__name__
        names[name] = names.get(name, 0) + 1
    commands = [name if count == 1 else f"{name} x{count}" for name, count in names.items()]
    return document | {"stamp": when(batch.stamp_ms), "commands": commands}


def _show(document: dict[str, Any]) -> None:
    from rollq.cli.output import write_line

    entries = document.pop("entries", [])
    place = f"{document.pop('segment')}:{document.pop('offset')}"
    kind = document.pop("kind")
    is_sound = document.pop("sound")
    rest = " ".join(f"{name}={value}" for name, value in document.items())
    write_line(f"{place:>14}  {kind:<8} {'' if is_sound else 'CORRUPT '}{rest}")
    for entry in entries:
        what = ", ".join(entry["commands"])
        write_line(
            f"{'':>14}  {entry['index']:>8}.{entry['term']}  {entry.get('stamp', '')}  {what}"
        )
