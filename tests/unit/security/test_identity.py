"""The URI that names the holder of a certificate, compared character for character."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.identity import CertificateIdentity, CertificateRole, parse_uri


def test_there_and_back() -> None:
    identity = CertificateIdentity("c1", CertificateRole.MEMBER, "m-1.example")
    assert parse_uri(identity.uri) == identity


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "rollq://",
        "rollq://c1/member",
        "rollq://c1/member/m1/",
        "rollq://c1/member/m1/x",
        "rollq://c1//m1",
        "rollq://c1/root/m1",
        "rollq://c1/MEMBER/m1",
        "ROLLQ://c1/member/m1",
        "http://c1/member/m1",
        "rollq://c1/member/../m1",
        "rollq://c1/member/m%31",
        "rollq://c1/member/m1\n",
        "rollq://c1/member/" + "m" * 65,
    ],
)
def test_anything_else_is_refused(uri: str) -> None:
    with pytest.raises(LocalError) as caught:
        parse_uri(uri)
    assert caught.value.code is ErrorCode.BAD_CERTIFICATE
