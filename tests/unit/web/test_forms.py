"""Files of a form on a disk that is full."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.requests import Request

from rollq.base.errors import DiskError, ErrorCode
from rollq.web import submits
from rollq.web.errors import status_of

FORM = (
    b"--b\r\n"
    b'Content-Disposition: form-data; name="data"; filename="data"\r\n'
    b"\r\n"
    b"some bytes\r\n"
    b"--b--\r\n"
)


class Posted:
    """So much of a request: its body."""

    async def stream(self) -> AsyncIterator[bytes]:
        yield FORM


def test_a_full_disk_is_told_as_such_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder_on_a_full_disk(**_: Any) -> str:
        folder = tmp_path / "form"
        folder.mkdir()
        (folder / "0").symlink_to("/dev/full")  # where the first file of a form is stored
        return str(folder)

    monkeypatch.setattr(tempfile, "mkdtemp", folder_on_a_full_disk)

    async def post() -> None:
        request = cast(Request, Posted())
        async with submits._form(request, "multipart/form-data; boundary=b"):
            pytest.fail("it cannot be stored")

    with pytest.raises(DiskError) as caught:
        asyncio.run(post())
    assert caught.value.code is ErrorCode.DISK_FULL
    assert status_of(caught.value) == 507
    assert not (tmp_path / "form").exists()
