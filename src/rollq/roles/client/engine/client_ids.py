"""Generated client ids. They begin with the name of the account."""

from __future__ import annotations

from pathlib import Path

from rollq.security.accounts import account_of, own_client_id
from rollq.security.credentials import Credentials
from rollq.security.files import as_credentials


def default_id(credentials: Credentials | str | Path, name: str) -> str:
    """The default client id for the account of these credentials.

    Raises:
        LocalError: BAD_CREDENTIALS or BAD_CERTIFICATE.
    """
    return own_client_id(account_of(as_credentials(credentials)), name)
