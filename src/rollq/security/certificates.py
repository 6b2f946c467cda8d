"""A private certificate authority and its certificates. Bytes in, bytes out: `authority` has files.

Keys are ECDSA on P-256, the curve that every TLS 1.3 implementation must support.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.expiry import AUTHORITY_DAYS, CERTIFICATE_DAYS
from rollq.security.identity import PART, SCHEME, CertificateIdentity, CertificateRole, parse_uri

DAYS_MAX: Final = 36_500
# The validity starts in the past, for machines with slow clocks.
BACKDATED: Final = timedelta(hours=1)
SERVER_ROLES: Final = (CertificateRole.MEMBER, CertificateRole.WORKER)
HOST: Final = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")


class Issued(NamedTuple):
    """A new certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class CertificateFacts(NamedTuple):
    """The fields of a certificate."""

    cluster: str
    identity: CertificateIdentity | None  # None for an authority
    issuer: str
    serial: str
    not_before_ms: int
    not_after_ms: int
    fingerprint: str  # SHA-256, in hexadecimal digits
    hosts: tuple[str, ...] = ()  # for browsers; links of the grid refuse such a certificate


def make_authority(cluster: str, now: datetime, days: int = AUTHORITY_DAYS) -> Issued:
    """Create a self-signed authority for a cluster.

    Raises:
        LocalError: BAD_CERTIFICATE: not a valid name or lifetime.
    """
    if not PART.fullmatch(cluster):
        raise _bad_name("cluster", cluster)
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # During a change two authorities of one cluster are trusted; their names must differ.
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster),
            x509.NameAttribute(NameOID.COMMON_NAME, f"rollq authority {serial & 0xFFFFFFFF:08x}"),
        ]
    )
    signer = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    built = (
        _builder(name, name, key.public_key(), serial)
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + _lifetime(days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(_authority_key_id(signer), critical=False)
    )
    return Issued(_certificate_pem(built.sign(key, hashes.SHA256())), _key_pem(key))


def issue(
    authority: Issued,
    role: CertificateRole,
    name: str,
    now: datetime,
    days: int = CERTIFICATE_DAYS,
    *,
    hosts: Sequence[str] = (),
) -> Issued:
    """Issue a certificate with a new key. It does not outlive the authority, whose key and
    certificate must belong together (`with_key`).

    Raises:
        LocalError: BAD_CERTIFICATE: not a valid name, host or lifetime, or not a signing authority.
    """
    if not PART.fullmatch(name):
        raise _bad_name("holder", name)
    signer = _load(authority.certificate)
    signing_key = _signing_key(authority)
    cluster = facts_of(authority.certificate).cluster
    ends = min(now + _lifetime(days), signer.not_valid_after_utc)
    if ends <= now:
        raise LocalError(
            ErrorCode.BAD_CERTIFICATE,
            f"the authority of {cluster} has expired",
            "make a new one with `rollq tls rotate --new-ca`",
        )
    identity = CertificateIdentity(cluster, role, name)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role in SERVER_ROLES:
        usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
    uri = x509.UniformResourceIdentifier(identity.uri)
    signed_by = x509.SubjectKeyIdentifier.from_public_key(signing_key.public_key())
    built = (
        _builder(subject, signer.subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(max(now - BACKDATED, signer.not_valid_before_utc))
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName([uri, *map(_host_name, hosts)]), critical=False)
        .add_extension(_authority_key_id(signed_by), critical=False)
    )
    return Issued(_certificate_pem(built.sign(signing_key, hashes.SHA256())), _key_pem(key))


def facts_of(pem: bytes) -> CertificateFacts:
    """The fields of the first certificate in a file. Its signature is not verified.

    Raises:
        LocalError: BAD_CERTIFICATE: not a certificate, or not one of rollq.
    """
    certificate = _load(pem)
    identity = None
    hosts: tuple[str, ...] = ()
    if _is_authority(certificate):
        found = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        cluster = str(found[0].value) if len(found) == 1 else ""
        if not PART.fullmatch(cluster):
            raise _not_ours("an authority that names no cluster")
    else:
        identity = _identity(certificate)
        cluster = identity.cluster
        hosts = _hosts(certificate)
    return CertificateFacts(
        cluster,
        identity,
        issuer=certificate.issuer.rfc4514_string(),
        serial=f"{certificate.serial_number:x}",
        not_before_ms=int(certificate.not_valid_before_utc.timestamp()) * 1_000,
        not_after_ms=int(certificate.not_valid_after_utc.timestamp()) * 1_000,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        hosts=hosts,
    )


def split_pem(pem: bytes) -> list[bytes]:
    """The certificates of a file, each as separate PEM.

    Raises:
        LocalError: BAD_CERTIFICATE: there is none, or one is malformed.
    """
    try:
        return [_certificate_pem(one) for one in x509.load_pem_x509_certificates(pem)]
    except ValueError:
        raise _not_ours("not a certificate in PEM") from None


def with_key(pems: list[bytes], key_pem: bytes) -> Issued:
    """The certificate that a private key belongs to.

    Raises:
        LocalError: BAD_CERTIFICATE: there is none, or the key is malformed.
    """
    try:
        public = serialization.load_pem_private_key(key_pem, password=None).public_key()
    except (TypeError, ValueError):
        raise _not_ours("not a private key in PEM, or it has a password") from None
    for pem in pems:
        if _load(pem).public_key() == public:
            return Issued(pem, key_pem)
    raise _not_ours("the key and the certificate do not belong together")


def is_signed_by(pem: bytes, authority_pem: bytes) -> bool:
    """Whether a certificate was signed by this authority, expired or not."""
    certificate, signer = _load(pem), _load(authority_pem)
    try:
        certificate.verify_directly_issued_by(signer)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, serial: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _authority_key_id(signer: x509.SubjectKeyIdentifier) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _lifetime(days: int) -> timedelta:
    if not 1 <= days <= DAYS_MAX:
        raise LocalError(
            ErrorCode.BAD_CERTIFICATE,
            f"a certificate cannot be valid for {days} days",
            f"use 1 to {DAYS_MAX} days",
        )
    return timedelta(days=days)


def _signing_key(authority: Issued) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(authority.key, password=None)
    if not _is_authority(_load(authority.certificate)) or not isinstance(
        key, ec.EllipticCurvePrivateKey
    ):
        raise _not_ours("not an authority")
    return key


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _identity(certificate: x509.Certificate) -> CertificateIdentity:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        raise _not_ours("it names no holder") from None
    uris = names.value.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise _not_ours(f"it has {len(uris)} names of the form {SCHEME}…")
    return parse_uri(uris[0])


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if HOST.fullmatch(host):
            return x509.DNSName(host)
    raise LocalError(
        ErrorCode.BAD_CERTIFICATE,
        f"{host[:64]!r} is no host name or address",
        "as in --host grid.example.org --host 10.0.0.1",
    )


def _load(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise _not_ours("not a certificate in PEM") from None


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _bad_name(what: str, name: str) -> LocalError:
    return LocalError(
        ErrorCode.BAD_CERTIFICATE,
        f"{name[:128]!a} cannot be the name of a {what}",
        "use up to 64 of a-z, A-Z, 0-9 and . _ -, beginning with a letter or digit",
    )


def _not_ours(what: str) -> LocalError:
    return LocalError(
        ErrorCode.BAD_CERTIFICATE, what, "make certificates with `rollq init` or `rollq tls`"
    )
