"""Formats of tables by name, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.main import app
from rollq.cli.tables import spark_conf
from rollq.spark.pipeline import formats
from rollq.spark.pipeline.catalog import table_of
from rollq.spark.pipeline.export import export
from rollq.spark.pipeline.formats import PACKAGES, form_of, format_settings
from rollq.spark.pipeline.manifest import File, TableManifest
from rollq.spark.pipeline.tables import paths


def test_a_package_is_chosen_by_the_version_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "version", lambda package: "4.1.4")
    assert "spark-runtime-4.1_" in format_settings("iceberg")[PACKAGES]
    both = format_settings("iceberg", **{PACKAGES: "org.apache.hadoop:hadoop-aws:3.4.2"})[PACKAGES]
    assert both.startswith("org.apache.iceberg:")
    assert both.endswith(",org.apache.hadoop:hadoop-aws:3.4.2")


def test_a_version_without_a_package_is_told_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(formats, "version", lambda package: "4.3.0")
    with pytest.raises(
        LocalError, match=r"no package for Spark 4\.3\.0; it has for 4\.0, 4\.1"
    ) as caught:
        format_settings("iceberg")
    assert caught.value.code is ErrorCode.BAD_SETUP
    assert "pyspark==4.1.*" in caught.value.hint
    mine = "org.example:iceberg-spark-runtime-4.3_2.13:9"
    assert format_settings("iceberg", **{PACKAGES: mine})[PACKAGES] == mine
    assert format_settings("parquet") == {}


def test_a_folder_says_its_format(tmp_path: Path) -> None:
    assert form_of(tmp_path) == "parquet"
    (tmp_path / "iceberg/rollq_batches/metadata").mkdir(parents=True)
    assert form_of(tmp_path / "iceberg") == "iceberg"
    assert form_of("s3a://bucket/folder", "delta") == "delta"
    with pytest.raises(LocalError, match="there is no format 'clay'"):
        form_of(tmp_path, "clay")


SIGNS = {
    "parquet": "_rollq/manifest-0000000001.json",
    "iceberg": "rollq_batches/metadata/version-hint.text",
    "delta": "rollq_batches/_delta_log/0.json",
}


def make_tables(folder: Path, *held: str) -> None:
    """What tells the formats of the tables in a folder."""
    for form in held:
        sign = folder / SIGNS[form]
        sign.parent.mkdir(parents=True)
        sign.touch()


@pytest.mark.parametrize("held", SIGNS)
@pytest.mark.parametrize("form", SIGNS)
def test_a_folder_with_tables_of_another_format_is_refused(
    tmp_path: Path, held: str, form: str
) -> None:
    make_tables(tmp_path, held)
    if form == held:
        assert form_of(tmp_path, form) == form_of(tmp_path) == held
        return
    for tables in (str(tmp_path), f"file://{tmp_path}"):
        with pytest.raises(LocalError) as caught:
            form_of(tables, form)
        assert caught.value.message == f"{tables} holds {held} tables"
        assert caught.value.code is ErrorCode.BAD_OPTIONS
        assert "leave out --format" in caught.value.hint


def test_of_two_sets_of_tables_one_must_be_named(tmp_path: Path) -> None:
    make_tables(tmp_path, "parquet", "iceberg")
    with pytest.raises(LocalError, match="holds parquet and iceberg tables") as caught:
        form_of(tmp_path)
    assert "say which with --format" in caught.value.hint
    assert form_of(tmp_path, "parquet") == "parquet"
    assert form_of(tmp_path, "iceberg") == "iceberg"
    with pytest.raises(LocalError, match="holds parquet and iceberg tables"):
        form_of(tmp_path, "delta")


@pytest.mark.parametrize(
    "words",
    [
        ("sql", "SELECT 1"),
        ("report",),
        ("pipeline", "run"),
        ("pipeline", "status"),
        ("pipeline", "serve"),
        ("pipeline", "export", "copy/"),
        ("pipeline", "rebuild"),
        ("pipeline", "compact"),
        ("pipeline", "hints", "--dry-run"),
        ("pipeline", "forget", "--client", "a", "--yes"),
    ],
)
def test_no_command_makes_a_second_set_of_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_tables(tmp_path / "T", "parquet")
    done = CliRunner().invoke(
        app, [*words, "--tables", "T"], env={"ROLLQ_TABLES_FORMAT": "iceberg"}
    )
    assert done.exit_code == 2
    assert "T holds parquet tables [bad_options]" in done.stderr


def test_parquet_is_not_advised_where_other_tables_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "version", lambda package: "4.3.0")
    make_tables(tmp_path, "iceberg")
    for tables, is_advised in (
        (str(tmp_path), False),
        ("s3a://bucket/lake", False),
        (str(tmp_path / "new"), True),
    ):
        with pytest.raises(LocalError) as caught:
            format_settings("iceberg", tables)
        assert ("--format parquet" in caught.value.hint) is is_advised


def test_which_files_count_is_told_for_parquet_alone(tmp_path: Path) -> None:
    (tmp_path / "rollq_batches/_delta_log").mkdir(parents=True)
    words = ["pipeline", "files", "gold_hourly", "--tables", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "holds delta tables; their own metadata lists the files" in done.stderr


@pytest.mark.parametrize("words", [("export", "out/"), ("serve",)])
def test_that_there_are_no_tables_is_told_before_spark_is_started(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(app, ["pipeline", *words, "--tables", str(tmp_path)])
    assert done.exit_code == 2
    assert "holds no tables of a pipeline" in done.stderr


def test_who_names_a_database_without_its_format_is_told_to_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["sql", "SELECT 1", "--tables", "lake.rollq"])
    assert done.exit_code == 2
    assert "--format" in done.stderr


@pytest.mark.parametrize(
    ("tables", "to"),
    [
        ("lake", "./lake/"),
        ("s3a://bucket/lake", "s3a://bucket/lake/"),
        ("lake.rollq", "Lake.rollq"),
        ("lake", "lake/tables"),  # where Parquet has its files
        ("lake", "lake/copies/of/today"),
        ("lake", "file:{here}/lake/tables"),
        ("lake", "file://{here}/lake/tables"),
        ("lake", "linked/tables"),
        ("linked", "./lake"),
        ("s3a://bucket/lake", "s3a://bucket/lake/csv"),
        ("gold/gold_hourly", "./gold"),  # a folder of the copy is that of the tables
        ("gold/gold_hourly/deeper", "./gold"),
        ("lake", "links/"),
    ],
)
def test_tables_are_not_exported_over_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: str, to: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake/tables").mkdir(parents=True)
    (tmp_path / "links").mkdir()
    (tmp_path / "linked").symlink_to("lake")
    (tmp_path / "links/gold_dead").symlink_to("../lake/tables")
    no_spark: Any = None
    with pytest.raises(LocalError, match="would overwrite them") as caught:
        export(no_spark, tables, to.format(here=tmp_path), "csv", tables_form="delta")
    assert caught.value.code is ErrorCode.BAD_OPTIONS


@pytest.mark.parametrize(
    ("tables", "to"),
    [
        ("lake", "./"),
        ("lake", "lake-copy/"),
        ("lake", "../other/lake"),
        ("lake", "s3a://bucket/lake"),
        (".", "lake.rollq"),
    ],
)
def test_tables_are_exported_beside_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: str, to: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").mkdir()
    no_spark: Any = None
    with pytest.raises(LocalError, match="holds no tables of a pipeline"):
        export(no_spark, tables, to, "csv")


@pytest.mark.parametrize("name", ["jobs", "silver_jobs"])
def test_tables_have_short_names(tmp_path: Path, name: str) -> None:
    made = TableManifest(
        1, 1, "path here", 0, 0, {}, {"silver_jobs": [File("tables/silver_jobs/1.parquet", 1, 1)]}
    )
    make_tables(tmp_path, "parquet")
    (tmp_path / SIGNS["parquet"]).write_bytes(msgspec.json.encode(made))
    assert paths(tmp_path, name) == [tmp_path / "tables/silver_jobs/1.parquet"]
    assert table_of(name).name == "silver_jobs"


def test_internal_tables_have_no_short_names() -> None:
    with pytest.raises(LocalError, match="there is no table 'steps'"):
        table_of("steps")


def test_settings_are_pairs() -> None:
    assert spark_conf(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    assert spark_conf(None) == {}
    with pytest.raises(LocalError, match="--conf a: no value"):
        spark_conf(["a"])
