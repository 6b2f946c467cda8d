"""Arrow batches of history rows, the fastest input format for Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from rollq.history.columns import Column

BATCH_ROWS: Final = 16_384  # amortises the cost of a batch, and is small in memory


def batches(table: pa.Table, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """The columns of a table, in batches of a suitable size for Spark."""
    wanted = table.select([column.name for column in columns]).combine_chunks()
    yield from wanted.to_batches(max_chunksize=BATCH_ROWS)
