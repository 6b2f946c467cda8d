"""The credentials of one process. Pure: `files` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rollq.security.cluster_key import keys_of_file
from rollq.security.secret import Secret


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a process.

    Attributes:
        directory: Where they were read from; empty: there are none.
        ca: The file of the authority; empty: TLS is not available.
        certificate: The files of the certificate and its private key; None: none.
        token: `rollq_ACCOUNT_SECRET`.
        account_key: An Ed25519 private key, PEM.
        cluster_key: The content of the cluster key file.
    """

    directory: str = ""
    ca: str = ""
    certificate: tuple[str, str] | None = None
    token: Secret | None = None
    account_key: Secret | None = None
    cluster_key: Secret | None = None

    @property
    def cluster_keys(self) -> tuple[bytes, ...]:
        """The keys of `cluster_key`: the first is used to prove, all are accepted."""
        return keys_of_file(self.cluster_key.reveal()) if self.cluster_key is not None else ()


NONE: Final = Credentials()
