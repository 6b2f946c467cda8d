"""The index of jobs against a sorted list."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.jobs import DEFAULT_OPTIONS
from rollq.grid import job_index
from rollq.grid.job_index import JobIndex
from rollq.grid.state import QUEUED, ClientRecord, JobRecord

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("add", "add", "drop", "file")),
        st.sampled_from((1, 1, 2, 99)),
        st.integers(1, 9),
        st.integers(0, 300),
    )
)
CLIENT = ClientRecord("ann")


@given(STEPS, st.integers(0, 300))
def test_it_is_a_sorted_list_that_can_be_read_from_any_place(
    steps: list[tuple[str, int, int, int]], place: int
) -> None:
    with patch.object(job_index, "CHUNK_JOBS", 4), patch.object(job_index, "OFFSET_MAX", 150):
        index = JobIndex()
        model: dict[int, bytes] = {}
        last = 0
        for what, step, count, where in steps:
            if what == "add":
                for _ in range(count):
                    last += step
                    model[last] = last.to_bytes(16, "big")
                    index.fresh.append(job(last, model[last]))
            elif what == "file":
                index.file_fresh()
            elif model:
                start = where % len(model)
                seqs = sorted(model)[start : start + count]
                for seq in seqs:
                    del model[seq]
                index.remove_all(seqs[::-1])
        rows = sorted(model.items())
        assert len(index) == len(model)
        assert list(index.after(place)) == [row for row in rows if row[0] > place]
        assert list(index.before(place)) == [row for row in reversed(rows) if row[0] < place]


def job(seq: int, job_id: bytes) -> JobRecord:
    """A waiting job with this number."""
    return JobRecord(job_id, CLIENT, "q", "exe", b"", DEFAULT_OPTIONS, QUEUED, seq, stamp_ms=0)
