"""What another job leaves, as an input: it need not have ended, and never comes here."""

from __future__ import annotations

import msgspec

from rollq.base.ids import JobId


class JobFile(msgspec.Struct, frozen=True):
    """A file that another job leaves; whoever uses it waits for that job to end ok.

    Attributes:
        job_id: The job.
        name: The file's, `-` for what it writes to stdout; empty: what a function returns, packed.
    """

    job_id: JobId
    name: str = ""
