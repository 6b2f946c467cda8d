"""An input that is a blob must be one that the job refers to: the worker holds those of others."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.jobs import BlobRef
from rollq.roles.worker.inputs import Input, check_named

OWN, OTHER = b"a" * 32, b"b" * 32


def test_only_blobs_that_the_job_refers_to_are_put_in_place() -> None:
    inline, blob = Input(("x",), b"text"), Input(("y",), None, OWN)
    check_named([inline, blob], [BlobRef(OWN, 5)])
    check_named([inline], [])
    stolen = Input(("z",), None, OTHER)
    with pytest.raises(RemoteError, match="does not refer to") as caught:
        check_named([blob, stolen], [BlobRef(OWN, 5)])
    assert caught.value.code is ErrorCode.BAD_PAYLOAD
