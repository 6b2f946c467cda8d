"""The account that the credentials of a process stand for."""

from __future__ import annotations

from pathlib import Path

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.credentials import Credentials
from rollq.security.signing import read_key
from rollq.security.tokens import account_of_token


def account_of(credentials: Credentials) -> str:
    """The account of the certificate, else of the key, else of the token; empty without any of
    them.

    Raises:
        LocalError: BAD_CREDENTIALS or BAD_CERTIFICATE, if a file is malformed.
    """
    if credentials.certificate is not None:
        return _certificate_name(Path(credentials.certificate[0]))
    if credentials.account_key is not None:
        return read_key(credentials.account_key).account
    if credentials.token is not None:
        return account_of_token(credentials.token)
    return ""


def own_client_id(account: str, name: str) -> str:
    """A client id in the namespace of the account, if there is one."""
    return f"{account}/{name}" if account else name


def _certificate_name(path: Path) -> str:
    from rollq.security.certificates import facts_of

    try:
        identity = facts_of(path.read_bytes()).identity
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS, f"{path}: {error.strerror or error}", "check the file"
        ) from None
    return "" if identity is None else identity.name
