"""Tables of a pipeline as other programs read them, without Spark: Parquet by its manifest, Iceberg
and Delta at the versions that the newest row of `rollq_batches` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.table import StaticTable

from rollq.spark.pipeline.catalog import TABLES
from rollq.spark.pipeline.formats import DELTA, ICEBERG, PARQUET
from rollq.spark.pipeline.lake_batch import BATCH, DAY, OPEN
from rollq.spark.pipeline.lake_batches import BATCHES
from rollq.spark.pipeline.manifest import DATA, Book, TableManifest, decoded

_SIGNS = {ICEBERG: "metadata/version-hint.text", DELTA: "_delta_log/00000000000000000000.json"}


def newest(tables: Path, form: str) -> TableManifest | None:
    """The last batch; None if there is none."""
    if form == PARQUET:
        return Book(tables).newest()
    found = _lake_rows(tables / BATCHES, form)
    rows = found.select(["number", "manifest"]).to_pylist() if found else []
    if not rows:
        return None
    last = max(rows, key=lambda row: int(row["number"]))
    return decoded(last["manifest"].encode(), str(tables))


def rows_of(tables: Path, form: str, manifest: TableManifest, name: str) -> pa.Table:
    """The rows of a table as a batch left them."""
    if form == PARQUET:
        files = [str(tables / file.path) for file in manifest.files(name)]
        return ds.dataset(files, format="parquet").to_table() if files else pa.table({})
    version = manifest.version(name)
    found = _lake_rows(tables / name, form, version) if version else None
    if found is None or not found.num_rows:
        return pa.table({})
    return found.drop([one for one in (BATCH, DAY, OPEN) if one in found.column_names])


def half_done(tables: Path, form: str, manifest: TableManifest | None) -> list[str]:
    """Tables to which something was written that no batch names."""
    number = manifest.number if manifest else 0
    if form == PARQUET:
        folders = (tables / DATA).glob(f"*/{number + 1:010d}-*")
        return sorted(path.parent.name for path in folders)
    found = []
    for name in TABLES:
        version = _lake_version(tables / name, form)
        if version != (manifest.version(name) if manifest else ""):
            found.append(name)
    return found


def _lake_rows(table: Path, form: str, version: str = "") -> pa.Table | None:
    """All rows of a table, at its newest version if none is named; None if there is no table."""
    if not (table / _SIGNS[form]).exists():
        return None
    if form == ICEBERG:
        scan = _iceberg(table).scan(snapshot_id=int(version) if version else None)
        return scan.to_arrow()
    return deltalake.DeltaTable(table, version=int(version) if version else None).to_pyarrow_table()


def _lake_version(table: Path, form: str) -> str:
    if not (table / _SIGNS[form]).exists():
        return ""
    if form == ICEBERG:
        snapshot = _iceberg(table).current_snapshot()
        return str(snapshot.snapshot_id) if snapshot else ""
    return str(deltalake.DeltaTable(table).version() or "")  # the first is that of the creation


def _iceberg(table: Path) -> Any:
    return StaticTable.from_metadata(str(table))
