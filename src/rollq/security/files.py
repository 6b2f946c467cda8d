"""Reads credentials from a directory. Every file is optional; those present determine which
logins and TLS modes the process can use."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.credentials import NONE, Credentials
from rollq.security.federation_key import FederationKey, federation_keys
from rollq.security.secret import Secret

CA: Final = "ca.pem"  # the certificate of the authority of the cluster
CERTIFICATE: Final = "cert.pem"
PRIVATE_KEY: Final = "key.pem"
TOKEN: Final = "token"
ACCOUNT_KEY: Final = "account.key"  # Ed25519, PEM
CLUSTER_KEY: Final = "cluster.key"
SECRET_BYTES_MAX: Final = 64 * 1024  # of one file
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def as_credentials(given: Credentials | str | Path) -> Credentials:
    """Credentials from an argument: as they are, or read from a directory; an empty name means
    none.

    Raises:
        LocalError: BAD_CREDENTIALS, as `load_credentials`.
    """
    if isinstance(given, Credentials):
        return given
    return load_credentials(Path(given)) if str(given) else NONE


def load_credentials(directory: Path) -> Credentials:
    """Read the credentials of a directory.

    Raises:
        LocalError: BAD_CREDENTIALS: not a directory, or a file is malformed or readable by others.
    """
    if not directory.is_dir():
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"{directory} is not a directory",
            "make one with `rollq init` or `rollq tls issue`",
        )
    ca, cert, key = (directory / name for name in (CA, CERTIFICATE, PRIVATE_KEY))
    if cert.exists() != key.exists() or (cert.exists() and not ca.exists()):
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"{directory} has not all of {CA}, {CERTIFICATE} and {PRIVATE_KEY}",
            "copy all three from where `rollq tls issue` wrote them",
        )
    if key.exists():
        read_secret(key)  # ssl reads it without checking the mode
    return Credentials(
        str(directory),
        ca=str(ca) if ca.exists() else "",
        certificate=(str(cert), str(key)) if cert.exists() else None,
        token=_maybe_secret(directory / TOKEN),
        account_key=_maybe_secret(directory / ACCOUNT_KEY),
        cluster_key=_maybe_secret(directory / CLUSTER_KEY),
    )


def _maybe_secret(path: Path) -> Secret | None:
    return read_secret(path) if path.exists() else None


def read_secret(path: Path) -> Secret:
    """The content of a file that only its owner may read, without the line end.

    Raises:
        LocalError: BAD_CREDENTIALS.
    """
    return Secret(read_private(path).rstrip(b"\r\n"))


def read_federation_keys(path: Path) -> tuple[FederationKey, ...]:
    """The keys of a federation, from a file that only its owner may read.

    Raises:
        LocalError: BAD_CREDENTIALS.
    """
    return federation_keys(read_private(path), str(path))


def read_private(path: Path, forbidden_mode: int = OTHERS) -> bytes:
    """The content of a file that has none of these mode bits, and is not empty.

    Raises:
        LocalError: BAD_CREDENTIALS.
    """
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS, f"{path}: {error.strerror or error}", "check the file"
        ) from None
    if mode & forbidden_mode:
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"{path} may be read by others (mode {stat.S_IMODE(mode):04o})",
            f"chmod 600 {path}",
        )
    if len(data) > SECRET_BYTES_MAX or not data.strip():
        what = "is empty" if not data.strip() else f"has more than {SECRET_BYTES_MAX} bytes"
        raise LocalError(ErrorCode.BAD_CREDENTIALS, f"{path} {what}", "make it anew")
    return data
