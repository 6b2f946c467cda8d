"""Every bound of dependencies between jobs, each with its reason."""

from __future__ import annotations

from typing import Final

# Some 20 bytes each in the log, so less than one inline body; a wider join needs intermediate jobs.
PARENTS_PER_JOB_MAX: Final = 1_000
# Results of parents that are sent to the worker with the job, together: they fit a frame with it.
# Values and files that are large are blobs, and do not count.
PARENT_RESULTS_BYTES_MAX: Final = 3 * 1024 * 1024
# Details of the ends of parents, together. A parent that does not fit is sent with id and state
# only: with the results above and the body of the job, all of it fits a frame.
PARENT_ENDS_BYTES_MAX: Final = 512 * 1024
# Kinds of ends of tasks of an array: four, and room for those of newer members.
ENDS_TOLD_MAX: Final = 16
# Children that one entry settles: further ones follow in later entries, so that other requests are
# not delayed.
CHILDREN_PER_ENTRY_MAX: Final = 1_000
# Shorter lists of children are not swept.
CHILDREN_SWEPT_MIN: Final = 64
