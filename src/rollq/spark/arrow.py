"""From rows of the history to Arrow batches, which is how Spark takes them fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from rollq.history.columns import Column

BATCH_ROWS: Final = 16_384  # enough that the cost of a batch does not count, and small in memory


def batches(table: pa.Table, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a table, in batches of a size that suits Spark."""
    wanted = table.select([column.name for column in columns]).combine_chunks()
    yield from wanted.to_batches(max_chunksize=BATCH_ROWS)
