"""TLS 1.3 of one process: contexts from its credentials, and checks of peer certificates.

The subject of a certificate is its only SAN URI, compared exactly. Host names are not used: a
member keeps its identity when its address changes.

Contexts are rebuilt when the files change. This is checked when a link is opened, at most once per
CREDENTIALS_LOOK_MS; when the certificate of a dialed peer is refused; and at SIGHUP. Open links
keep their context. Files that are not valid are logged and ignored.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.limits import CREDENTIALS_LOOK_MS
from rollq.security.credentials import Credentials
from rollq.security.files import read_secret
from rollq.security.identity import CertificateIdentity, CertificateRole, parse_uri

log = logging.getLogger("rollq.tls")

Stamps = tuple[tuple[int, int, int], ...]  # of files: inode, size and time of change


class Contexts(NamedTuple):
    """The TLS contexts of a process."""

    dials: ssl.SSLContext
    listens: ssl.SSLContext | None  # None without a certificate
    identity: CertificateIdentity | None  # our own
    ends_ms: int = 0  # the end of validity of our certificate; 0 without one


class TlsFiles:
    """The contexts of a directory of credentials. Thread-safe.

    Args:
        credentials: With an authority, and optionally a certificate.

    Raises:
        LocalError: BAD_CREDENTIALS: they are not valid.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()
        self._stamps = self._stamp()
        self._contexts = make_contexts(credentials)
        self._look_at = time.monotonic() + CREDENTIALS_LOOK_MS / 1000

    @property
    def current(self) -> Contexts:
        """The contexts, reloaded if the files have changed."""
        if time.monotonic() >= self._look_at:
            self.reload()
        return self._contexts

    def reload(self) -> None:
        """Reload the files if they have changed, however lately that was checked."""
        with self._lock:
            self._look_at = time.monotonic() + CREDENTIALS_LOOK_MS / 1000
            stamps = self._stamp()
            if stamps == self._stamps:
                return
            self._stamps = stamps
            where = self._credentials.directory or self._credentials.ca
            try:
                self._contexts = make_contexts(self._credentials)
            except LocalError as error:
                log.error("%s has changed and is not used: %s", where, error)
            else:
                log.info("%s has changed: new links use it", where)

    def _stamp(self) -> Stamps:
        paths = [self._credentials.ca, *(self._credentials.certificate or ())]
        return tuple(_stamp_of(path) for path in paths)


def tls_files(credentials: Credentials) -> TlsFiles:
    """The contexts of these credentials, cached per process.

    Raises:
        LocalError: BAD_CREDENTIALS: there is no authority, or they are not valid.
    """
    if not credentials.ca:
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            "TLS cannot be spoken: the credentials hold no ca.pem",
            "copy it from where `rollq tls init` wrote it",
        )
    key = credentials.ca, credentials.certificate
    with _LOCK:
        found = _CACHE.get(key)
        if found is None:
            found = _CACHE[key] = TlsFiles(credentials)
        return found


def reload_all() -> None:
    """Reload all changed files of this process."""
    with _LOCK:
        known = list(_CACHE.values())
    for one in known:
        one.reload()


def make_contexts(credentials: Credentials) -> Contexts:
    """Build contexts from the files.

    Raises:
        LocalError: BAD_CREDENTIALS: one is missing or malformed, they do not belong together, or
            the key is readable by others.
    """
    from rollq.security.certificates import facts_of  # imports a large library

    dials = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    dials.check_hostname = False  # identity is the SAN URI, which `check_peer` looks at
    listens: ssl.SSLContext | None = None
    identity = None
    ends_ms = 0
    try:
        if credentials.certificate is not None:
            listens = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            listens.verify_mode = ssl.CERT_OPTIONAL  # a client may log in instead
            listens.num_tickets = 0  # links are long-lived and never resumed
            certificate, key = credentials.certificate
            facts = facts_of(Path(certificate).read_bytes())
            identity, ends_ms = facts.identity, facts.not_after_ms
            read_secret(Path(key))  # ssl does not check the mode
        for context in (dials, listens):
            if context is not None:
                context.minimum_version = ssl.TLSVersion.TLSv1_3
                context.load_verify_locations(credentials.ca)
                if credentials.certificate is not None:
                    context.load_cert_chain(*credentials.certificate)
    except (OSError, LocalError) as error:  # ssl.SSLError is an OSError
        text = error.message if isinstance(error, LocalError) else error.strerror or str(error)
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"{credentials.directory}: {text}",
            "check ca.pem, cert.pem and key.pem, or copy them anew from `rollq tls issue`",
        ) from None
    return Contexts(dials, listens, identity, ends_ms)


def identity_in(certificate: Mapping[str, Any] | None) -> CertificateIdentity | None:
    """The subject of a certificate, as returned by `SSLObject.getpeercert`; None without one.

    Raises:
        RemoteError: BAD_CERTIFICATE: its names are not exactly one valid URI.
    """
    if not certificate:
        return None
    names = certificate.get("subjectAltName", ())
    if len(names) != 1 or names[0][0] != "URI":
        kinds = ", ".join(kind for kind, _ in names) or "none"
        raise _bad(f"the certificate must have one name, a URI; its names: {kinds}")
    try:
        return parse_uri(names[0][1])
    except LocalError as error:
        raise _bad(error.message) from None


def check_peer(
    found: CertificateIdentity | None, ours: CertificateIdentity | None, roles: Collection[str]
) -> None:
    """Check that a peer may use this link.

    Args:
        found: The subject of the peer's certificate.
        ours: Our own identity. Without one the cluster is not compared: trust in the CA must do.
        roles: The allowed roles; empty: any, even without a certificate.

    Raises:
        RemoteError: BAD_CERTIFICATE; LOGIN_REQUIRED, if there is none.
    """
    if found is None:
        if roles:
            wanted = " or ".join(roles)
            raise RemoteError(
                ErrorCode.LOGIN_REQUIRED,
                f"the certificate of a {wanted} is asked for, and none is shown",
                f"issue one with `rollq tls issue NAME --role {wanted}`",
            )
        return
    if ours is not None and found.cluster != ours.cluster:
        raise _bad(f"{found.uri} is of another cluster than {ours.cluster}")
    if roles and found.role not in roles:
        raise _bad(f"{found.uri} is not a {' or '.join(roles)}")


def describe_tls_error(error: ssl.SSLError, *, is_ours: bool) -> str:
    """Describe a handshake error for users.

    Args:
        error: As raised by the library.
        is_ours: This side refused; else the peer did, and sent an alert.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        what = UNKNOWN_CA if error.verify_code in UNKNOWN_CA_CODES else error.verify_message
        return f"its certificate is refused: {what}"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if " alert " in f" {reason} " and not is_ours:
        what = reason.rpartition("alert ")[2]
        return f"it refuses us: {ALERTS.get(what, what)}"
    return f"TLS failed: {reason}"


ALERTS: Final = {
    "unknown ca": "our certificate is signed by another authority",
    "certificate expired": "our certificate has expired",
    "bad certificate": "our certificate is not accepted",
    "certificate required": "it asks for a certificate, and we have none",
    "protocol version": "it does not speak TLS 1.3",
}
UNKNOWN_CA: Final = "it is signed by an authority that is not in our ca.pem"
UNKNOWN_CA_CODES: Final = (18, 19, 20, 21)  # of OpenSSL: self-signed, or the issuer is not known
MEMBERS: Final = (CertificateRole.MEMBER,)


def _bad(message: str) -> RemoteError:
    return RemoteError(
        ErrorCode.BAD_CERTIFICATE, message, "look at it with `rollq tls show`, or issue another"
    )


def _stamp_of(path: str) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return status.st_ino, status.st_size, status.st_mtime_ns


_CACHE: dict[tuple[str, tuple[str, str] | None], TlsFiles] = {}
_LOCK: Final = threading.Lock()
