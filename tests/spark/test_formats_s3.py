"""Tables of Iceberg and Delta in a bucket, to which nothing is renamed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import s3fs

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.formats import LAKES, PACKAGES, form_of, format_settings
from tests.contracts.blob_places import s3_server
from tests.spark.clusters import JAVA_OPTIONS, ROOT

pytestmark = pytest.mark.any_spark
DEADLINE_S = 1800


@pytest.mark.parametrize("form", list(LAKES))
def test_a_bucket_is_the_root(tmp_path: Path, form: str, lakes: dict[str, str]) -> None:
    if lakes[form]:
        pytest.skip(lakes[form])
    with s3_server() as options:
        s3fs.S3FileSystem(**options, skip_instance_cache=True).mkdir("lake")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.spark.lake_on_s3", form),
                *(options["client_kwargs"]["endpoint_url"], str(tmp_path)),
            ],
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}", "SPARK_SUBMIT_OPTS": JAVA_OPTIONS},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert done.stdout.endswith("as it should be\n"), done.stderr[-5000:]


@pytest.mark.parametrize("form", ["parquet", "iceberg", ""])
def test_what_needs_a_rename_or_a_folder_is_refused(form: str) -> None:
    with pytest.raises(LocalError) as caught:
        form_of("s3a://lake/tables", form)
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert "--format delta" in caught.value.hint


def test_what_reaches_s3_comes_with_the_tables(lakes: dict[str, str]) -> None:
    if lakes["delta"] or lakes["iceberg"]:
        pytest.skip("not both formats can be had")
    here = format_settings("delta", "./lake")
    there = format_settings("delta", "s3a://lake/tables", **{PACKAGES: "a:b:1"})
    assert "hadoop-aws" not in here[PACKAGES]
    first, second, third = there[PACKAGES].split(",")
    assert first.startswith("io.delta:delta-spark")
    assert second.startswith("org.apache.hadoop:hadoop-aws:3.")
    assert third == "a:b:1"
    warehouse = {"spark.sql.catalog.lake.warehouse": "s3a://lake/warehouse"}
    assert "hadoop-aws" in format_settings("iceberg", "lake.rollq", **warehouse)[PACKAGES]
    mine = {PACKAGES: "org.apache.hadoop:hadoop-aws:3.4.3"}
    assert format_settings("delta", "s3a://lake/tables", **mine)[PACKAGES].count("aws") == 1
