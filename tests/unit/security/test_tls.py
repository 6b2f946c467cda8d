"""Contexts of TLS: who is refused, who a certificate names, and what becomes of new files."""

from __future__ import annotations

import os
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.security.credentials import Credentials
from rollq.security.identity import CertificateIdentity, CertificateRole
from rollq.security.tls import (
    MEMBERS,
    TlsFiles,
    check_peer,
    describe_tls_error,
    identity_in,
    make_contexts,
    reload_all,
    tls_files,
)
from tests.unit.security.kit import Cluster, shake

HOME = CertificateIdentity("home", CertificateRole.MEMBER, "m1")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return Cluster(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def member(home: Cluster) -> Credentials:
    return home.credentials(CertificateRole.MEMBER, "m1")


def met(dialer: Credentials, accepter: Credentials) -> tuple[str, str]:
    """Whom the dialer met, and whom the accepter."""
    listens = make_contexts(accepter).listens
    assert listens is not None
    sides = shake(make_contexts(dialer).dials, listens)
    found = [identity_in(side.getpeercert()) for side in sides]
    return tuple("" if one is None else one.uri for one in found)  # type: ignore[return-value]


def why(dialer: Credentials, accepter: Credentials) -> str:
    """Why they do not come together."""
    with pytest.raises(ssl.SSLError) as caught:
        met(dialer, accepter)
    return describe_tls_error(caught.value, is_ours=True)


def test_both_sides_know_each_other_and_it_is_tls_1_3(home: Cluster, member: Credentials) -> None:
    client = home.credentials(CertificateRole.CLIENT, "ann")
    assert met(client, member) == ("rollq://home/member/m1", "rollq://home/client/ann")
    contexts = make_contexts(member)
    for context in (contexts.dials, contexts.listens):
        assert context is not None
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert contexts.identity == HOME


def test_a_dialer_may_have_no_certificate(member: Credentials) -> None:
    assert met(replace(member, certificate=None), member) == ("rollq://home/member/m1", "")


def test_tls_1_2_is_not_spoken(member: Credentials) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.load_verify_locations(member.ca)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    listens = make_contexts(member).listens
    assert listens is not None
    with pytest.raises(ssl.SSLError):
        shake(old, listens)


def test_another_authority_is_refused(home: Cluster, tmp_path: Path, member: Credentials) -> None:
    stranger = Cluster(tmp_path).credentials(CertificateRole.MEMBER, "m1")
    assert "not in our ca.pem" in why(stranger, member)
    # The same the other way round: it is the accepter that is refused.
    assert "not in our ca.pem" in why(replace(member, certificate=None), stranger)


def test_an_expired_certificate_is_refused_on_both_sides(
    home: Cluster, member: Credentials
) -> None:
    expired = home.credentials(CertificateRole.MEMBER, "late", has_expired=True)
    assert "expired" in why(expired, member)
    assert "expired" in why(member, expired)


def test_a_certificate_of_a_client_does_not_listen(home: Cluster, member: Credentials) -> None:
    client = home.credentials(CertificateRole.CLIENT, "eve")
    assert "certificate is refused" in why(member, client)


@pytest.mark.parametrize(
    "names",
    [
        [],
        [x509.DNSName("rollq.example")],
        [
            x509.UniformResourceIdentifier("rollq://home/member/m1"),
            x509.UniformResourceIdentifier("rollq://home/client/ann"),
        ],
        [
            x509.UniformResourceIdentifier("rollq://home/member/m1"),
            x509.DNSName("rollq.example"),
        ],
        [x509.UniformResourceIdentifier("rollq://home/member/m1/more")],
        [x509.UniformResourceIdentifier("rollq://home/Member/m1")],
        [x509.UniformResourceIdentifier("https://home/member/m1")],
    ],
    ids=["common-name", "dns", "two", "uri-and-dns", "longer", "capital", "scheme"],
)
def test_who_is_not_named_by_one_uri_is_nobody(
    tmp_path: Path, names: list[x509.GeneralName]
) -> None:
    cluster = Cluster(tmp_path)
    accepter = cluster.credentials(CertificateRole.MEMBER, "m1")
    odd = cluster.odd(names, "rollq://home/member/m1")
    # Signed by the right authority: the handshake itself has nothing against it.
    listens = make_contexts(accepter).listens
    assert listens is not None
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    plain.check_hostname = False
    plain.load_verify_locations(odd.ca)
    assert odd.certificate is not None
    plain.load_cert_chain(*odd.certificate)
    _, side = shake(plain, listens)
    with pytest.raises(RemoteError) as caught:
        identity_in(side.getpeercert())
    assert caught.value.code is ErrorCode.BAD_CERTIFICATE


def refused(found: CertificateIdentity | None, roles: tuple[CertificateRole, ...]) -> ErrorCode:
    with pytest.raises(RemoteError) as caught:
        check_peer(found, HOME, roles)
    return caught.value.code


def test_a_peer_must_be_of_our_cluster_and_of_the_right_role() -> None:
    check_peer(HOME._replace(name="m2"), HOME, MEMBERS)
    check_peer(HOME._replace(role=CertificateRole.CLIENT), HOME, ())
    check_peer(None, HOME, ())
    assert refused(None, MEMBERS) is ErrorCode.LOGIN_REQUIRED
    for role in CertificateRole:
        if role is not CertificateRole.MEMBER:
            assert refused(HOME._replace(role=role), MEMBERS) is ErrorCode.BAD_CERTIFICATE
    assert refused(HOME._replace(cluster="away"), ()) is ErrorCode.BAD_CERTIFICATE
    # Whoever has no certificate takes the word of the authority.
    check_peer(HOME._replace(cluster="away"), None, MEMBERS)


def put_newer(path: Path, data: bytes) -> None:
    """As an operator does: another file under the name, with another time."""
    new = path.with_suffix(".new")
    new.touch(0o600)
    new.write_bytes(data)
    os.replace(new, path)


def test_new_files_are_used_and_broken_ones_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(tmp_path)
    member = cluster.credentials(CertificateRole.MEMBER, "m1")
    files = TlsFiles(member)
    first = files.current
    files.reload()
    assert files.current is first, "nothing has changed"
    cluster.renew(member)
    files.reload()
    second = files.current
    assert second is not first
    assert second.identity == HOME
    put_newer(Path(member.directory) / "cert.pem", b"damaged")
    files.reload()
    assert files.current is second
    assert "is not used" in caplog.text


def test_the_contexts_of_a_process_are_made_once_and_looked_at_on_demand(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    member = cluster.credentials(CertificateRole.MEMBER, "m1")
    files = tls_files(member)
    assert tls_files(replace(member)) is files
    before = files.current
    cluster.renew(member)
    reload_all()
    assert files.current is not before


def test_what_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    one = cluster.credentials(CertificateRole.MEMBER, "m1")
    other = cluster.credentials(CertificateRole.MEMBER, "m2")
    assert one.certificate is not None
    assert other.certificate is not None
    with pytest.raises(LocalError, match="hold no ca"):
        tls_files(Credentials())
    for bad in (
        replace(one, certificate=(one.certificate[0], other.certificate[1])),
        replace(one, ca=str(tmp_path / "none")),
        replace(one, ca=one.certificate[1]),
    ):
        with pytest.raises(LocalError) as caught:
            make_contexts(bad)
        assert caught.value.code is ErrorCode.BAD_CREDENTIALS
    os.chmod(one.certificate[1], 0o644)
    with pytest.raises(LocalError, match="may be read by others"):
        make_contexts(one)
