"""References to output files of other jobs, as inputs. The client does not download them."""

from __future__ import annotations

import msgspec

from rollq.base.ids import JobId


class JobFile(msgspec.Struct, frozen=True):
    """An output file of a job. A job that uses it waits for that job to end ok.

    Attributes:
        job_id: The job.
        name: The name of the file; `-`: stdout; empty: the packed value of a function.
    """

    job_id: JobId
    name: str = ""
