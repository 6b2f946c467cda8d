"""`format("rollq")` over running members: batch reads, streams, groups, members that are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rollq.net.ports import free_ports
from rollq.roles.reader.reader import Reader
from tests.integration.procs import MemberProcess
from tests.integration.talk import accepted, find_leader, hang_up_all
from tests.spark.streams import Query
from tests.spark.written import events


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[MemberProcess]]:
    """Two groups of one member each."""
    folder = tmp_path_factory.mktemp("members")
    started = [MemberProcess(folder / name, group=name).start() for name in ("one", "two")]
    yield started
    for member in started:
        member.kill()


def submit(member: MemberProcess, numbers: range) -> None:
    _, talker = find_leader([member.address])
    accepted(talker, numbers)


def read(spark: SparkSession, servers: str, **options: str) -> DataFrame:
    return spark.read.format("rollq").options(servers=servers, **options).load()


def ids_of(table: DataFrame) -> list[int]:
    return sorted(int(row["job_id"].replace("-", ""), 16) for row in table.collect())


@pytest.mark.each_spark
def test_what_is_sealed_and_what_is_not(spark: SparkSession, members: list[MemberProcess]) -> None:
    member = members[0]
    submit(member, range(1, 301))
    member.stop()  # seals
    member.start()
    submit(member, range(301, 501))
    table = read(spark, member.address, **{"filter.type": "enqueue", "minPartitions": "5"})
    assert len(ids_of(table)) == len(set(ids_of(table))) == 500
    assert {row["_group"] for row in table.collect()} == {"one"}
    whole = read(spark, member.address, columns="_index,_ordinal,type").collect()
    happened = [
        (row["index"], row.get("ordinal", 0), row["type"]) for row in events(member.address)
    ]
    assert sorted(tuple(row) for row in whole) == happened


def test_a_group_is_read_only_by_its_name(
    spark: SparkSession, members: list[MemberProcess]
) -> None:
    with pytest.raises(PySparkException, match="this is the group 'one', not 'two'"):
        read(spark, members[0].address, group="two").count()


def test_a_dead_member_is_passed_over(spark: SparkSession, members: list[MemberProcess]) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    servers = f"{nobody},{members[1].address}"
    submit(members[1], range(2001, 2011))
    table = read(spark, servers, **{"minPartitions": "4", "filter.type": "enqueue"})
    assert [n for n in ids_of(table) if n > 2000] == list(range(2001, 2011))


def test_nobody_answers(spark: SparkSession) -> None:
    ports = free_ports(2)
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    with pytest.raises(PySparkException) as caught:
        read(spark, servers, timeout="1").count()
    assert "no member answers" in str(caught.value)
    assert all(str(port) in str(caught.value) for port in ports)


def test_a_stream_of_two_groups(
    spark: SparkSession, members: list[MemberProcess], tmp_path: Path
) -> None:
    servers = ";".join(member.address for member in members)
    query = Query(spark, tmp_path)
    options = {"servers": servers, "columns": "_group,_index,_ordinal", "filter.type": "enqueue"}
    submit(members[1], range(1, 101))
    options["readerName"] = "copy"
    query.run(**options, maxOffsetsPerTrigger="20")
    submit(members[0], range(1001, 1051))
    query.run(**options)
    assert query.run(**options) == []
    with Reader(members[1].address) as reader:  # told by the second run: what the first has read
        [holder] = reader.holders()
        assert holder.name == "copy"
        assert 1 < holder.index <= reader.span().applied
    rows = query.rows()
    assert max(rows.values()) == 1
    wanted = read(spark, servers, **{"filter.type": "enqueue"}).select(
        "_group", "_index", "_ordinal"
    )
    assert rows == Counter(tuple(row) for row in wanted.collect())
