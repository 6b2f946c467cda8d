"""Options of reads and writes: one that is wrong is an error that names it."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.source.options import SourceOrigin, check_table, read_options
from rollq.spark.source.write_options import WRITE_NAMES, write_options

SERVERS = {"servers": "a:1"}


def test_names_are_taken_in_any_case() -> None:
    given = {"Servers": "a:1,b:2;c:3", "GROUP": "x, y", "FILTER.Exec": "one, two"}
    options = read_options(given, is_stream=False)
    assert options.origins == (SourceOrigin("a:1,b:2", group="x"), SourceOrigin("c:3", group="y"))
    [condition] = options.conditions
    assert (condition.column.name, condition.value) == ("exec", ("one", "two"))


def test_credentials_are_those_of_all_groups() -> None:
    given = {"servers": "a:1;b:2", "credentials": "/etc/rollq"}
    origins = read_options(given, is_stream=True).origins
    assert [one.credentials for one in origins] == ["/etc/rollq", "/etc/rollq"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "nothing says where to read"),
        (SERVERS | {"path": "/x"}, "both servers and path are given"),
        (SERVERS | {"colums": "exec"}, "no option 'colums'; did you mean columns"),
        (SERVERS | {"filter.exek": "x"}, r"no option 'filter.exek'; did you mean filter\.exec"),
        ({"servers": "a"}, "option servers='a' .* not host:port"),
        ({"servers": "a:1;b"}, "option servers='b' .* not host:port"),
        (SERVERS | {"group": "x,y"}, "option group='x,y' .* name 1 groups"),
        ({"path": "/x;/y"}, "option group='' .* name 2 groups"),
        (SERVERS | {"table": "evnts"}, "option table='evnts' .* the tables are events, jobs"),
        (SERVERS | {"columns": "exec,exek"}, "option columns='exec,exek' .* no column 'exek'"),
        (SERVERS | {"filter.attempt": "x"}, "option filter.attempt='x' .* whole numbers"),
        (SERVERS | {"filter.attempt": f"{1 << 31}"}, "option filter.attempt=.* is int: no row"),
        (SERVERS | {"filter._ts": "1"}, "option filter._ts='1' .* since and until"),
        (SERVERS | {"table": "queues", "filter.paused": "true"}, "option filter.paused=.* where"),
        (SERVERS | {"since": "yesterday"}, "option since='yesterday' .* 2026-01-31T12:00:00Z"),
        (SERVERS | {"until": "9" * 30}, "option until='9+' .* 2026-01-31T12:00:00Z"),
        (SERVERS | {"startingOffsets": "{"}, "option startingOffsets='{' .* earliest, latest"),
        (SERVERS | {"endingOffsets": '{"a": 1.5}'}, "option endingOffsets=.* a whole number"),
        (SERVERS | {"failOnDataLoss": "perhaps"}, "option failOnDataLoss=.* true or false"),
        (SERVERS | {"minPartitions": "0"}, "option minPartitions='0' .* above 0"),
        (SERVERS | {"maxOffsetsPerTrigger": "-1"}, "option maxOffsetsPerTrigger=.* above 0"),
        (SERVERS | {"maxBytesPerTrigger": "1k"}, "option maxBytesPerTrigger=.* above 0"),
        (SERVERS | {"maxTriggerDelay": "5m"}, "option maxTriggerDelay=.* minOffsetsPerTrigger"),
        (
            SERVERS | {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "5 weeks"},
            "option maxTriggerDelay=.* 15m",
        ),
        (SERVERS | {"startingTimestamp": "noon"}, "option startingTimestamp='noon' .* 2026-01-31T"),
        (
            SERVERS | {"startingOffsetsByTimestamp": '{"a": "x"}'},
            "option startingOffsetsByTimestamp=.* milliseconds since 1970",
        ),
        (
            SERVERS | {"startingOffsetsByTimestampStrategy": "earliest"},
            "option startingOffsetsByTimestampStrategy=.* error or latest",
        ),
        (SERVERS | {"subscribePattern": "("}, "option subscribePattern='\\(' .* no regular expr"),
        (
            {"servers": "a:1;b:1", "subscribePattern": "x"},
            "option subscribePattern='x' .* found by the members of one",
        ),
        (SERVERS | {"readerName": "x" * 257}, "option readerName=.* up to 256 bytes"),
        (SERVERS | {"timeout": "soon"}, "option timeout='soon' .* seconds above 0"),
    ],
)
def test_a_read_that_cannot_be_meant_so(given: dict[str, str], told: str) -> None:
    with pytest.raises(LocalError) as caught:
        read_options(given, is_stream=True)
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    caught.match(told)


@pytest.mark.parametrize(
    ("given", "is_stream", "told"),
    [
        ({"table": "jobs"}, True, "option table='jobs' .* events and results"),
        ({"maxOffsetsPerTrigger": "9"}, False, "option maxOffsetsPerTrigger='9' .* for streams"),
        ({"readerName": "me"}, False, "option readerName='me' .* for streams"),
        ({"maxBytesPerTrigger": "9"}, False, "option maxBytesPerTrigger='9' .* for streams"),
        ({"endingTimestamp": "9"}, True, "option endingTimestamp='9' .* for batch reads"),
        ({"table": "jobs", "since": "2026-01-31"}, False, "option since=.* for events"),
        ({"table": "results", "until": "2026-01-31"}, True, "option until=.* for events"),
        ({"table": "results", "path": "/x"}, True, "option path='/x' .* give servers"),
        ({"table": "dlq", "path": "/x"}, False, "option path='/x' .* give servers"),
        ({"table": "dlq", "minPartitions": "2"}, False, "option minPartitions='2' .* as it is now"),
    ],
)
def test_a_table_that_cannot_be_read_so(given: dict[str, str], is_stream: bool, told: str) -> None:
    with pytest.raises(LocalError, match=told):
        check_table(given, is_stream=is_stream)
    check_table({}, is_stream=is_stream)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "option servers='' .* no member is named"),
        ({"servers": "a:1;b:2"}, "option servers='a:1;b:2' .* one group"),
        ({"servers": "a"}, "option servers='a' .* not host:port"),
        (SERVERS | {"exek": "x"}, "no option 'exek'; did you mean exec"),
        (SERVERS | {"clientId": ""}, "option clientId='' .* belong to a client"),
        (SERVERS | {"clientId": "x" * 257}, "option clientId=.* up to 256 bytes"),
        (SERVERS | {"batchKey": "x" * 257}, "option batchKey=.* up to 256 bytes"),
        (SERVERS | {"exec": "a b"}, "option exec='a b' .* a-z, A-Z, 0-9"),
        (SERVERS | {"priority": "10"}, "option priority='10' .* 0 to 9"),
        (SERVERS | {"max_attempts": "1.5"}, "option max_attempts='1.5' .* a number"),
        (SERVERS | {"lease": "0.001"}, "option lease='0.001' .* s or more"),
        (SERVERS | {"run_limit": "nan"}, "option run_limit='nan' .* seconds"),
    ],
)
def test_a_write_that_cannot_be_meant_so(given: dict[str, str], told: str) -> None:
    with pytest.raises(LocalError) as caught:
        write_options(given)
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    caught.match(told)


def test_what_holds_for_all_rows() -> None:
    texts = {"exec": "resize", "queue": "pictures", "subject": "job.submit.pictures", "worker": "w"}
    numbers = dict.fromkeys(WRITE_NAMES[WRITE_NAMES.index("priority") :], "7")
    options = write_options(SERVERS | texts | numbers)
    assert options.defaults == texts | dict.fromkeys(numbers, 7)
