"""Certificates for tests: a cluster with its authority, and holders right and wrong."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rollq.security.authority import Authority
from rollq.security.credentials import Credentials
from rollq.security.files import load_credentials
from rollq.security.identity import CertificateRole

NOW = datetime.now(UTC)


class Cluster:
    """An authority, and what it has signed."""

    def __init__(self, directory: Path, name: str = "home") -> None:
        self.directory = directory
        self._authority = Authority.make(directory / "ca", name, NOW - timedelta(days=30))

    def credentials(
        self, role: CertificateRole, name: str = "", *, has_expired: bool = False
    ) -> Credentials:
        """Of a new holder."""
        target = self.directory / (name or role)
        made = NOW - timedelta(days=20) if has_expired else NOW
        self._authority.issue(target, role, name or role, made, days=10)
        return load_credentials(target)

    def renew(self, credentials: Credentials) -> None:
        """Another certificate and key for the same holder."""
        self._authority.renew(Path(credentials.directory), NOW)

    def odd(self, names: Sequence[x509.GeneralName], common_name: str = "odd") -> Credentials:
        """A certificate that is signed as it should be, and has these names."""
        ca = x509.load_pem_x509_certificate((self.directory / "ca" / "ca.pem").read_bytes())
        signing = serialization.load_pem_private_key(
            (self.directory / "ca" / "ca.key").read_bytes(), None
        )
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - timedelta(hours=1))
            .not_valid_after(NOW + timedelta(days=1))
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        target = self.directory / f"odd-{common_name.replace('/', '-')}-{len(names)}"
        target.mkdir()
        (target / "ca.pem").write_bytes((self.directory / "ca" / "ca.pem").read_bytes())
        made = builder.sign(signing, hashes.SHA256())
        (target / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        (target / "key.pem").touch(0o600)
        (target / "key.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Credentials(
            str(target),
            str(target / "ca.pem"),
            (str(target / "cert.pem"), str(target / "key.pem")),
        )


def shake(dials: ssl.SSLContext, listens: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A handshake in memory; what each side has then. Raises the ssl.SSLError of either."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialer = dials.wrap_bio(back, there)
    accepter = listens.wrap_bio(there, back, server_side=True)
    left = [dialer, accepter]
    while left:
        side = left.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            left.append(side)
    return dialer, accepter
