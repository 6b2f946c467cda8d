"""Every bound of dependencies between jobs, each with its reason."""

from __future__ import annotations

from typing import Final

# Some 20 bytes each in the log, so less than one inline body; a wider join goes by jobs between.
PARENTS_PER_JOB_MAX: Final = 1_000
# Results of parents that go to a worker with the job that uses them, together: they fit a frame
# with it. Values and files that are large are blobs, and do not count.
PARENT_RESULTS_BYTES_MAX: Final = 3 * 1024 * 1024
# What is told of how parents ended, together. Of a parent that does not fit, id and state are told:
# with the results above and the body of the job, all of it fits a frame.
PARENT_ENDS_BYTES_MAX: Final = 512 * 1024
# Ways in which tasks of an array end: four, and what a newer member may count besides.
ENDS_TOLD_MAX: Final = 16
# Children that one entry looks at, when parents end: what is left goes on in further entries, and
# other requests come in between.
CHILDREN_PER_ENTRY_MAX: Final = 1_000
# Lists of children shorter than this are not searched for those that wait no more.
CHILDREN_SWEPT_MIN: Final = 64
