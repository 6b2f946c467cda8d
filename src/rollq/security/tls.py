"""TLS 1.3 of one process: contexts made of its credentials, and what is asked of a certificate.

Whoever a certificate was given to is told by its one SAN URI, compared exactly. Names of hosts say
nothing here: a member that moves to another address stays who it is.

Contexts are made anew when the files change, which is looked at when links are made, at most once
a second, and at SIGHUP. Links that are open keep theirs. Files that cannot be used change nothing,
and the log says why.
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
    """What links are made with."""

    dials: ssl.SSLContext
    listens: ssl.SSLContext | None  # None: there is no certificate to show
    identity: CertificateIdentity | None  # ours
    ends_ms: int = 0  # until when our certificate is valid; 0: we have none


class TlsFiles:
    """The contexts of a directory of credentials. Any thread may ask for them.

    Args:
        credentials: With an authority, and perhaps a certificate.

    Raises:
        LocalError: BAD_CREDENTIALS: they cannot be used.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()
        self._stamps = self._stamp()
        self._contexts = make_contexts(credentials)
        self._look_at = time.monotonic() + CREDENTIALS_LOOK_MS / 1000

    @property
    def current(self) -> Contexts:
        """As of the files now, or of a moment ago."""
        if time.monotonic() >= self._look_at:
            self.reload()
        return self._contexts

    def reload(self) -> None:
        """Look at the files now."""
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
    """The contexts of these credentials, made once in a process.

    Raises:
        LocalError: BAD_CREDENTIALS: there is no authority, or they cannot be used.
    """
    if not credentials.ca:
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            "TLS cannot be spoken: the credentials hold no ca.pem",
            "copy it from where `rollq tls init` wrote it",
        )
    key = credentials.ca, credentials.certificate
    with _LOCK:
        found = _KNOWN.get(key)
        if found is None:
            found = _KNOWN[key] = TlsFiles(credentials)
        return found


def reload_all() -> None:
    """Look at all files of this process now."""
    with _LOCK:
        known = list(_KNOWN.values())
    for one in known:
        one.reload()


def make_contexts(credentials: Credentials) -> Contexts:
    """Read the files.

    Raises:
        LocalError: BAD_CREDENTIALS: one is missing or damaged, they do not belong together, or the
            key is open to others.
    """
    from rollq.security.certificates import facts_of  # a large library, for those who need it

    dials = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    dials.check_hostname = False  # identity is the SAN URI, which `judge` looks at
    listens: ssl.SSLContext | None = None
    identity = None
    ends_ms = 0
    try:
        if credentials.certificate is not None:
            listens = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            listens.verify_mode = ssl.CERT_OPTIONAL  # a client may log in instead
            listens.num_tickets = 0  # nobody resumes: links last
            certificate, key = credentials.certificate
            facts = facts_of(Path(certificate).read_bytes())
            identity, ends_ms = facts.identity, facts.not_after_ms
            read_secret(Path(key))  # ssl looks at no mode
        for context in (dials, listens):
            if context is not None:
                context.minimum_version = ssl.TLSVersion.TLSv1_3
                context.load_verify_locations(credentials.ca)
                if credentials.certificate is not None:
                    context.load_cert_chain(*credentials.certificate)
    except (OSError, LocalError) as error:  # of which errors of ssl are some
        text = error.message if isinstance(error, LocalError) else error.strerror or str(error)
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"{credentials.directory}: {text}",
            "check ca.pem, cert.pem and key.pem, or copy them anew from `rollq tls issue`",
        ) from None
    return Contexts(dials, listens, identity, ends_ms)


def identity_in(certificate: Mapping[str, Any] | None) -> CertificateIdentity | None:
    """Whose certificate it is, as `SSLObject.getpeercert` gives it; None: there is none.

    Raises:
        RemoteError: BAD_CERTIFICATE: it does not name one holder, by one URI and nothing else.
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


def judge(
    found: CertificateIdentity | None, ours: CertificateIdentity | None, roles: Collection[str]
) -> None:
    """Whether a peer is one that we speak with.

    Args:
        found: Whom the peer has shown to be.
        ours: Who we are. Without a certificate we take the word of the authority for the cluster.
        roles: What the peer may be; empty: anybody, also without a certificate.

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


def words_for(error: ssl.SSLError, *, is_ours: bool) -> str:
    """What an error of a handshake means, for people.

    Args:
        error: As the library raised it.
        is_ours: We found it; else the peer did, and told us.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        what = STRANGERS if error.verify_code in STRANGE_CODES else error.verify_message
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
STRANGERS: Final = "it is signed by an authority that is not in our ca.pem"
STRANGE_CODES: Final = (18, 19, 20, 21)  # of OpenSSL: self-signed, or the issuer is not known
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


_KNOWN: dict[tuple[str, tuple[str, str] | None], TlsFiles] = {}
_LOCK: Final = threading.Lock()
