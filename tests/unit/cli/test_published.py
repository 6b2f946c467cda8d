"""What the commands that publish read from their arguments."""

from __future__ import annotations

import os

from rollq.cli.published import payload_of


def test_a_payload_has_the_bytes_that_were_typed() -> None:
    typed = os.fsdecode(b"caf\xe9")  # as Python decodes an argument that is not UTF-8
    assert payload_of(typed) == b"caf\xe9"
    assert payload_of("café") == "café".encode()
