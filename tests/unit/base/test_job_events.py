"""What is said of jobs while they live."""

import pytest

from rollq.base.job_events import (
    PROGRESS,
    JobEvent,
    JobProgress,
    decode_event,
    encode_event,
    encode_progress,
    last_progress,
)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b'{"done": 3, "total": 10, "note": "rows"}\n', JobProgress(3, 10, "rows")),
        (b'{"done": 1}\n\n{"done": 2}', JobProgress(2)),
        (b'{"done": 1}\n{"done": 2, "to', JobProgress(1)),  # it is still being written
        (b'{"done": 1.5, "more": []}', JobProgress(1.5)),
        (b"{}", JobProgress()),
        (b"", None),
        (b"37%", None),
        (b'{"done": -1}', None),
        (b'{"done": 1e300}', None),
        (b'{"total": "10"}', None),
        (b'{"note": "\xff"}', None),
        (b"[" * 4_000, None),
    ],
)
def test_the_last_line_that_says_something_counts(data: bytes, wanted: JobProgress | None) -> None:
    assert last_progress(data) == wanted


def test_a_long_note_is_cut() -> None:
    told = last_progress(encode_progress(JobProgress(note="ø" * 400)))
    assert told is not None
    assert told.note == "ø" * 128


def test_an_event_is_read_as_it_was_written() -> None:
    event = JobEvent(PROGRESS, 2, progress=JobProgress(1, 2, "half"))
    assert encode_event(event) == (
        b'{"kind":"progress","attempt":2,"progress":{"done":1,"total":2,"note":"half"}}'
    )
    assert decode_event(encode_event(event)) == event
    assert decode_event(b"anything") is None


def test_the_share() -> None:
    assert JobProgress(1, 4).share == 0.25
    assert JobProgress(9, 4).share == 1.0
    assert JobProgress(9).share is None
