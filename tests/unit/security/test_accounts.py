from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.accounts import account_of, own_client_id
from rollq.security.certificates import issue, make_authority
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateRole
from rollq.security.secret import Secret
from rollq.security.signing import make_key
from rollq.security.tokens import make_token

TOKEN = make_token("ann")[0]
KEY = make_key("bob")


def test_the_account_is_that_of_the_certificate_then_of_the_key_then_of_the_token(
    tmp_path: Path,
) -> None:
    now = datetime.now(UTC)
    issued = issue(make_authority("prod", now), CertificateRole.CLIENT, "carol", now)
    path = tmp_path / "cert.pem"
    path.write_bytes(issued.certificate)
    files = (str(path), str(tmp_path / "key.pem"))
    assert account_of(NONE) == ""
    assert account_of(Credentials(token=TOKEN)) == "ann"
    assert account_of(Credentials(token=TOKEN, account_key=KEY)) == "bob"
    everything = Credentials(token=TOKEN, account_key=KEY, certificate=files)
    assert account_of(everything) == "carol"
    path.unlink()
    with pytest.raises(LocalError) as caught:
        account_of(everything)
    assert caught.value.code == ErrorCode.BAD_CREDENTIALS


def test_damaged_credentials_are_found_at_once() -> None:
    for broken in (Credentials(token=Secret(b"x")), Credentials(account_key=Secret(b"x"))):
        with pytest.raises(LocalError) as caught:
            account_of(broken)
        assert caught.value.code == ErrorCode.BAD_CREDENTIALS


def test_a_client_id_begins_with_its_account() -> None:
    assert own_client_id("ann", "x") == "ann/x"
    assert own_client_id("", "x") == "x"
