"""Certificates say who holds them, for what and how long, and TLS takes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.certificates import (
    BACKDATED,
    Issued,
    facts_of,
    is_signed_by,
    issue,
    make_authority,
    split_pem,
    with_key,
)
from rollq.security.identity import CertificateIdentity, CertificateRole

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> Issued:
    return make_authority("c1", NOW)


def ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000


def test_an_authority_names_its_cluster_and_may_sign_leaves_alone(authority: Issued) -> None:
    facts = facts_of(authority.certificate)
    assert (facts.cluster, facts.identity) == ("c1", None)
    assert facts.not_before_ms == ms(NOW - BACKDATED)
    assert facts.not_after_ms == ms(NOW + timedelta(days=3_650))
    made = x509.load_pem_x509_certificate(authority.certificate)
    limits = made.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.critical
    assert (limits.value.ca, limits.value.path_length) == (True, 0)
    assert is_signed_by(authority.certificate, authority.certificate)


@pytest.mark.parametrize("role", list(CertificateRole))
def test_a_certificate_names_its_holder_and_what_it_is_for(
    authority: Issued, role: CertificateRole
) -> None:
    made = issue(authority, role, "n-1", NOW)
    facts = facts_of(made.certificate)
    assert facts.identity == CertificateIdentity("c1", role, "n-1")
    assert facts.not_after_ms == ms(NOW + timedelta(days=365))
    assert len(facts.fingerprint) == 64
    read = x509.load_pem_x509_certificate(made.certificate)
    names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [name.value for name in names] == [f"rollq://c1/{role}/n-1"]
    uses = read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    listens = role in (CertificateRole.MEMBER, CertificateRole.WORKER)
    assert (ExtendedKeyUsageOID.SERVER_AUTH in uses) == listens
    assert ExtendedKeyUsageOID.CLIENT_AUTH in uses
    assert not read.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_hosts_are_for_browsers_and_the_holder_is_the_same(authority: Issued) -> None:
    hosts = ("grid.example", "*.grid.example", "10.0.0.1", "::1")
    made = issue(authority, CertificateRole.MEMBER, "m1", NOW, hosts=hosts)
    facts = facts_of(made.certificate)
    assert facts.hosts == hosts
    assert facts.identity == CertificateIdentity("c1", CertificateRole.MEMBER, "m1")
    for wrong in ("", "a b", "rollq://c1/member/m2", "-x", "a" * 300):
        with pytest.raises(LocalError) as raised:
            issue(authority, CertificateRole.MEMBER, "m1", NOW, hosts=[wrong])
        assert raised.value.code is ErrorCode.BAD_CERTIFICATE


def test_two_certificates_of_one_name_have_keys_and_serials_of_their_own(authority: Issued) -> None:
    one, two = (issue(authority, CertificateRole.WORKER, "w", NOW) for _ in range(2))
    assert one.key != two.key
    assert facts_of(one.certificate).serial != facts_of(two.certificate).serial


def test_a_certificate_does_not_outlive_its_authority() -> None:
    short = make_authority("c1", NOW, days=10)
    made = issue(short, CertificateRole.CLIENT, "c", NOW + timedelta(days=5), days=365)
    assert facts_of(made.certificate).not_after_ms == facts_of(short.certificate).not_after_ms
    assert "expired" in refused(
        lambda: issue(short, CertificateRole.CLIENT, "c", NOW + timedelta(days=11))
    )


@pytest.mark.parametrize("name", ["", "a/b", "-a", "ä", "a" * 65, "a b", "rollq://x"])
def test_what_is_no_name_is_refused(authority: Issued, name: str) -> None:
    assert "name" in refused(lambda: issue(authority, CertificateRole.CLIENT, name, NOW))
    assert "name" in refused(lambda: make_authority(name, NOW))


@pytest.mark.parametrize("days", [0, -1, 36_501])
def test_what_is_no_lifetime_is_refused(authority: Issued, days: int) -> None:
    assert "days" in refused(lambda: make_authority("c1", NOW, days))
    assert "days" in refused(lambda: issue(authority, CertificateRole.CLIENT, "c", NOW, days))


def test_a_holder_cannot_sign_for_others(authority: Issued) -> None:
    admin = issue(authority, CertificateRole.ADMIN, "root", NOW)
    assert "authority" in refused(lambda: issue(admin, CertificateRole.ADMIN, "x", NOW))


def test_the_certificate_of_a_key_is_found(authority: Issued) -> None:
    other = make_authority("c1", NOW)
    both = split_pem(other.certificate + authority.certificate)
    assert with_key(both, authority.key) == authority
    assert with_key(both, other.key) == other
    assert "belong" in refused(lambda: with_key(both[:1], authority.key))
    assert "key" in refused(lambda: with_key(both, b"nothing"))


def test_who_signed_is_told_from_who_has_the_same_cluster(authority: Issued) -> None:
    made = issue(authority, CertificateRole.MEMBER, "m", NOW)
    assert is_signed_by(made.certificate, authority.certificate)
    assert not is_signed_by(made.certificate, make_authority("c1", NOW).certificate)
    assert not is_signed_by(authority.certificate, made.certificate)


@pytest.mark.parametrize("pem", [b"", b"x", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_is_no_certificate_is_said(pem: bytes) -> None:
    assert "PEM" in refused(lambda: facts_of(pem))
    assert "PEM" in refused(lambda: split_pem(pem))


def refused(doing: Callable[[], object]) -> str:
    with pytest.raises(LocalError) as caught:
        doing()
    assert caught.value.code is ErrorCode.BAD_CERTIFICATE
    assert caught.value.hint
    return caught.value.message + caught.value.hint
