from __future__ import annotations

from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.federation import given_federation
from rollq.security.federation_key import KEY_ID_BYTES, federation_keys
from rollq.security.files import read_federation_keys

ONE, TWO = b"first key, long enough", b"second key, long enough"


def test_lines_are_keys_with_names_that_say_nothing() -> None:
    first, second = federation_keys(ONE + b"\n\n " + TWO + b" \r\n", "f")
    assert first != second
    assert len(first.key_id) == KEY_ID_BYTES
    assert ONE not in first.key
    assert first.key.hex() not in repr(first)
    assert federation_keys(ONE, "g") == (first,)


@pytest.mark.parametrize("text", [b"", b"\n \n", b"short", ONE + b"\nshort", b"\n".join([ONE] * 3)])
def test_a_file_has_one_or_two_long_keys(text: bytes) -> None:
    with pytest.raises(LocalError) as error:
        federation_keys(text, "federation.key")
    assert error.value.code is ErrorCode.BAD_CREDENTIALS
    assert "federation.key" in error.value.message


def test_others_may_not_read_it(tmp_path: Path) -> None:
    path = tmp_path / "federation.key"
    path.write_bytes(ONE)
    path.chmod(0o640)
    with pytest.raises(LocalError) as error:
        read_federation_keys(path)
    assert error.value.hint == f"chmod 600 {path}"
    path.chmod(0o600)
    assert read_federation_keys(path) == federation_keys(ONE, "")


def test_options_of_a_federation(tmp_path: Path) -> None:
    path = tmp_path / "federation.key"
    path.write_bytes(ONE)
    path.chmod(0o600)
    assert given_federation(None, "") is None
    setup = given_federation(path, "a:1, b:2,a:1,")
    assert setup is not None
    assert setup.seeds == ("a:1", "b:2")
    for key, seeds, code in (
        (None, "a:1", ErrorCode.BAD_SETUP),
        (path, "a", ErrorCode.BAD_ADDRESS),
        (path, ",".join(f"h{number}:1" for number in range(65)), ErrorCode.BAD_SETUP),
        (tmp_path / "none", "", ErrorCode.BAD_CREDENTIALS),
    ):
        with pytest.raises(LocalError) as error:
            given_federation(key, seeds)
        assert error.value.code is code
