"""A webhook over TLS: the certificate of the receiver is checked."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rollq import webhook
from rollq.base.parents import Parent
from rollq.tasks import RETRY_EXIT_CODE, Context
from tests.integration.receiver import Receiver


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    kind = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(key.private_bytes(serialization.Encoding.PEM, *kind))
    return cert_path, key_path


def test_a_certificate_must_be_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = self_signed(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    parents = (Parent(id="a", state="ok"),)
    monkeypatch.setattr(webhook, "context", lambda: Context("b", 1, parents))
    with Receiver(tls=server) as receiver:
        with pytest.raises(ssl.SSLCertVerificationError) as refused:
            webhook.post(receiver.url)
        assert webhook.post.exit_code_of(refused.value) == RETRY_EXIT_CODE
        assert not receiver.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert webhook.post(receiver.url) == "127.0.0.1 answered 200"
        receiver.until_told()
