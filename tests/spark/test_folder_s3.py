"""A folder of history segments in a bucket. Tasks get their address and credentials from the
environment of the executors, so what they do is done here without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs

from rollq.base.errors import LocalError
from rollq.spark.pipeline.bronze import Written, written_by_task
from rollq.spark.pipeline.feed import Feed
from tests.contracts.blob_places import s3_server
from tests.spark.segments import seal

pytestmark = pytest.mark.any_spark


@pytest.fixture(scope="module")
def bucket() -> Iterator[s3fs.S3FileSystem]:
    with s3_server() as options, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", options["key"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", options["secret"])
        patch.setenv("AWS_ENDPOINT_URL", options["client_kwargs"]["endpoint_url"])
        system = s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
        system.mkdir("grid")
        yield system


def copied(bucket: Any, folder: Path, to: str) -> None:
    for path in (folder / "history").iterdir():
        bucket.put_file(str(path), f"{to}/{path.name}")


def landed(feed: Feed, out: Path, first: int, known: int = 0) -> tuple[list[Written], list[int]]:
    """What tasks do with everything from an index on, and which indexes they wrote."""
    (extent,) = feed.extents()
    reading = feed.reading({extent.group: first}, {extent.group: extent.end})
    assert reading.indexes == extent.end - first
    assert reading.size_bytes > 0
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(reading.slices)))})
    told = [
        msgspec.json.decode(row, type=Written)
        for batch in written_by_task(reading, str(out), "one", {extent.group: known}, [numbers])
        for row in batch.column(0).to_pylist()
    ]
    files = [out / file.path for one in told for file in one.files]
    indexes = [n for path in files for n in pq.read_table(path)["_index"].to_pylist()]
    return told, sorted(indexes)


@pytest.mark.parametrize("inner", ["", "/history"])
def test_a_bucket_is_read_as_a_folder_is(
    bucket: s3fs.S3FileSystem, tmp_path: Path, inner: str
) -> None:
    place = f"grid/{tmp_path.name}"
    seal(tmp_path / "state", 1, 40)
    copied(bucket, tmp_path / "state", f"{place}{inner}")
    feed = Feed(path=f"s3://{place}")
    assert [(one.first, one.end) for one in feed.extents()] == [(1, 41)]
    told, indexes = landed(feed, tmp_path / "out", 1)
    assert indexes == [index for index in range(1, 41) for _ in range(3)]
    assert {hour.group for one in told for hour in one.hours} == {"default"}
    assert max(hour.last_index for one in told for hour in one.hours) == 40

    # What is sealed later is seen; what is known is left out.
    seal(tmp_path / "state", 41, 50)
    copied(bucket, tmp_path / "state", f"{place}{inner}")
    assert [(one.first, one.end) for one in feed.extents()] == [(1, 51)]
    _, indexes = landed(feed, tmp_path / "more", 35, known=45)
    assert indexes == [index for index in range(46, 51) for _ in range(3)]


def test_a_bucket_without_such_a_folder(bucket: s3fs.S3FileSystem) -> None:
    with pytest.raises(LocalError, match="there is no such folder"):
        Feed(path="s3://grid/none").extents()
