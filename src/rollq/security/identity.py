"""The subject of a certificate: one URI, `rollq://CLUSTER/ROLE/NAME`."""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError

SCHEME: Final = "rollq://"
PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_HINT: Final = "use a-z, A-Z, 0-9 and . _ -, at most 64, and none of . _ - first"


class CertificateRole(enum.StrEnum):
    """The role of a certificate's holder."""

    MEMBER = "member"
    WORKER = "worker"
    CLIENT = "client"
    ADMIN = "admin"


class CertificateIdentity(NamedTuple):
    """The subject of a certificate."""

    cluster: str
    role: CertificateRole
    name: str

    @property
    def uri(self) -> str:
        """The URI in the certificate."""
        return f"{SCHEME}{self.cluster}/{self.role}/{self.name}"


def parse_uri(uri: str) -> CertificateIdentity:
    """Parse a URI, strictly.

    Raises:
        LocalError: BAD_CERTIFICATE, if it is not exactly of this form.
    """
    parts = uri.removeprefix(SCHEME).split("/")
    is_ours = uri.startswith(SCHEME) and len(parts) == 3
    if not is_ours or not all(PART.fullmatch(part) for part in parts):
        raise _bad(uri)
    try:
        return CertificateIdentity(parts[0], CertificateRole(parts[1]), parts[2])
    except ValueError:
        raise _bad(uri) from None


def check_account_name(name: str) -> None:
    """Check the name of an account; it follows the rule for the holder of a certificate.

    Raises:
        LocalError: BAD_ACCESS, if the name is not valid.
    """
    if not PART.fullmatch(name):
        raise LocalError(
            ErrorCode.BAD_ACCESS,
            f"{name[:64]!a} cannot be the name of an account",
            NAME_HINT,
        )


def check_group_name(name: str) -> None:
    """Check the name of a new group; it follows the rule for clusters in certificates, because
    `rollq init` gives one name to both. Groups of earlier versions may have others.

    Raises:
        LocalError: BAD_OPTIONS, if the name is not valid.
    """
    if not PART.fullmatch(name):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{name[:64]!a} cannot be the name of a group", NAME_HINT
        )


def _bad(uri: str) -> LocalError:
    return LocalError(
        ErrorCode.BAD_CERTIFICATE,
        f"{uri[:256]!a} is not {SCHEME}CLUSTER/ROLE/NAME",
        f"issue it with `rollq tls issue`; ROLE is one of {', '.join(CertificateRole)}",
    )
