"""What may be asked of the tables in SQL."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.asking.queries import check_reads


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", "there is no query"),
        (" -- nothing", "there is no query"),
        ("DROP TABLE jobs", "DROP does not"),
        ("insert into jobs values (1)", "INSERT does not"),
        ("/* */ SET x=1", "SET does not"),
        ("WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/x' SELECT * FROM a", "INSERT does not"),
        ("FROM jobs INSERT INTO other SELECT *", "INSERT does not"),
    ],
)
def test_a_query_only_reads(query: str, told: str) -> None:
    with pytest.raises(LocalError, match=told) as caught:
        check_reads(query)
    assert caught.value.code is ErrorCode.BAD_OPTIONS


@pytest.mark.parametrize(
    "query",
    [
        "select 1;",
        "(SELECT 1)",
        "-- why\nWITH a AS (SELECT 1) SELECT * FROM a",
        "show tables",
        "WITH a AS (SELECT 'don\\'t insert', `update` FROM jobs) SELECT \"merge\" FROM a -- delete",
    ],
)
def test_a_query_may_begin_as_people_write(query: str) -> None:
    assert check_reads(query) == query.rstrip(";")
