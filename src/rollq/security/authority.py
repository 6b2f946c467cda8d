"""Directories of a certificate authority (CA) and of the credentials that it issues.

The directory of an authority has `ca.pem` and `ca.key`; one of credentials has `ca.pem`, `cert.pem`
and `key.pem`, as read by `files`. During a change of the authority `ca.pem` holds both; the one
that signs is the one that matches `ca.key`. Each file is replaced atomically, but not pairs of
them: a process that reads a certificate and a key that do not match reads again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.certificates import (
    CertificateFacts,
    facts_of,
    issue,
    make_authority,
    split_pem,
    with_key,
)
from rollq.security.expiry import AUTHORITY_DAYS, CERTIFICATE_DAYS
from rollq.security.files import CA, CERTIFICATE, CLUSTER_KEY, PRIVATE_KEY, read_secret
from rollq.security.identity import CertificateRole

AUTHORITY_KEY: Final = "ca.key"
CLUSTER_KEY_BYTES: Final = 32
PEM_BYTES_MAX: Final = 64 * 1024


class Authority:
    """A certificate authority on disk.

    Raises:
        LocalError: BAD_CREDENTIALS: it is missing, or its key is readable by others;
            BAD_CERTIFICATE: it is malformed.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if not (directory / AUTHORITY_KEY).exists():
            raise LocalError(
                ErrorCode.BAD_CREDENTIALS,
                f"{directory} is not the directory of an authority: it has no {AUTHORITY_KEY}",
                "make one with `rollq tls init`, or name it with --ca",
            )
        self._trusted = split_pem(read_pem(directory / CA))
        self._signer = with_key(self._trusted, read_secret(directory / AUTHORITY_KEY).reveal())

    @classmethod
    def make(
        cls, directory: Path, cluster: str, now: datetime, days: int = AUTHORITY_DAYS
    ) -> Authority:
        """Create an authority in a directory that has none.

        Raises:
            LocalError: BAD_SETUP: there is one; BAD_CERTIFICATE: not a valid name or lifetime.
        """
        _must_not_exist(directory, (CA, AUTHORITY_KEY))
        made = make_authority(cluster, now, days)
        _make_directory(directory)
        put_file(directory / AUTHORITY_KEY, made.key, is_secret=True)
        put_file(directory / CA, made.certificate)
        return cls(directory)

    @property
    def facts(self) -> CertificateFacts:
        """Of the signing certificate."""
        return facts_of(self._signer.certificate)

    def issue(
        self,
        target: Path,
        role: CertificateRole,
        name: str,
        now: datetime,
        *,
        days: int = CERTIFICATE_DAYS,
        hosts: Sequence[str] = (),
        overwrite: bool = False,
    ) -> CertificateFacts:
        """Issue credentials and write them into a directory.

        Raises:
            LocalError: BAD_SETUP: there are some; BAD_CERTIFICATE: not a valid name or lifetime.
        """
        if not overwrite:
            _must_not_exist(target, (CERTIFICATE, PRIVATE_KEY))
        made = issue(self._signer, role, name, now, days, hosts=hosts)
        _make_directory(target)
        put_file(target / CA, b"".join(self._trusted), overwrite=True)
        # In this order the old certificate remains usable until the new one replaces it, last.
        put_file(target / PRIVATE_KEY, made.key, is_secret=True, overwrite=overwrite)
        put_file(target / CERTIFICATE, made.certificate, overwrite=overwrite)
        return facts_of(made.certificate)

    def renew(self, target: Path, now: datetime, days: int = CERTIFICATE_DAYS) -> CertificateFacts:
        """Renew key and certificate of a directory of credentials, in place.

        Raises:
            LocalError: BAD_CERTIFICATE: it is of another cluster; BAD_CREDENTIALS: it is missing.
        """
        self._check_cluster(target / CERTIFICATE)
        facts = facts_of(read_pem(target / CERTIFICATE))
        identity = facts.identity
        if identity is None:
            raise LocalError(
                ErrorCode.BAD_CERTIFICATE,
                f"{target / CERTIFICATE} is of an authority",
                "renew an authority with `rollq tls rotate --new-ca`",
            )
        return self.issue(
            target,
            identity.role,
            identity.name,
            now,
            days=days,
            hosts=facts.hosts,
            overwrite=True,
        )

    def share(self, target: Path) -> None:
        """Update the trusted authorities of a directory of credentials.

        Raises:
            LocalError: BAD_CERTIFICATE: it is of another cluster; BAD_CREDENTIALS: it is missing.
        """
        self._check_cluster(target / CA)
        put_file(target / CA, b"".join(self._trusted), overwrite=True)

    def replace(self, now: datetime, days: int = AUTHORITY_DAYS) -> Authority:
        """Create a new authority, which signs from now on; the old one stays trusted until
        `drop_old`.

        Raises:
            LocalError: BAD_SETUP: the last replacement is not finished.
        """
        if len(self._trusted) > 1:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"{self.directory / CA} still holds an old authority",
                "finish that change first, with `rollq tls rotate --drop-old-ca`",
            )
        made = make_authority(self.facts.cluster, now, days)
        # The key comes last: until then the old authority signs, and both are trusted.
        put_file(self.directory / CA, made.certificate + self._trusted[0], overwrite=True)
        put_file(self.directory / AUTHORITY_KEY, made.key, is_secret=True, overwrite=True)
        return Authority(self.directory)

    def drop_old(self) -> Authority:
        """Trust only the authority that signs."""
        put_file(self.directory / CA, self._signer.certificate, overwrite=True)
        return Authority(self.directory)

    @property
    def trusted(self) -> list[CertificateFacts]:
        """Of all trusted authorities."""
        return [facts_of(pem) for pem in self._trusted]

    def _check_cluster(self, path: Path) -> None:
        """Only certificates of the same cluster may be replaced."""
        facts = facts_of(read_pem(path))
        if facts.cluster != self.facts.cluster:
            raise LocalError(
                ErrorCode.BAD_CERTIFICATE,
                f"{path} is of cluster {facts.cluster}, and {self.directory} "
                f"of {self.facts.cluster}",
                "name the authority of that cluster with --ca",
            )


def make_cluster_key() -> bytes:
    """A new cluster key, in the format of its file."""
    return secrets.token_hex(CLUSTER_KEY_BYTES).encode() + b"\n"


def put_cluster_key(target: Path, key: bytes) -> None:
    """Write the cluster key beside the credentials of a member."""
    put_file(target / CLUSTER_KEY, key, is_secret=True)


def read_pem(path: Path) -> bytes:
    """The content of a file of certificates.

    Raises:
        LocalError: BAD_CREDENTIALS.
    """
    try:
        with open(path, "rb") as file:
            return file.read(PEM_BYTES_MAX)
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS, f"{path}: {error.strerror or error}", "check the file"
        ) from None


def put_file(path: Path, data: bytes, *, is_secret: bool = False, overwrite: bool = False) -> None:
    """Write a file atomically; a secret one is readable only by its owner.

    Raises:
        LocalError: BAD_SETUP: it exists, and is not to be replaced; DISK_FAILED.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        if not overwrite:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # reserve it
        try:
            _write(draft, data, 0o600 if is_secret else 0o644)
            os.replace(draft, path)
        except OSError:
            for partial in (draft, *(() if overwrite else (path,))):
                with suppress(OSError):
                    partial.unlink()
            raise
        _sync_directory(path.parent)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise LocalError(
            ErrorCode.DISK_FAILED,
            f"cannot write {path}: {error.strerror or error}",
            "check the disk and its rights",
        ) from None


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _make_directory(path: Path) -> None:
    """Create a private directory; an existing one keeps its mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise LocalError(
            ErrorCode.DISK_FAILED,
            f"cannot make {path}: {error.strerror or error}",
            "choose another directory",
        ) from None


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _must_not_exist(directory: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if (directory / name).exists():
            raise _exists(directory / name)


def _exists(path: Path) -> LocalError:
    return LocalError(
        ErrorCode.BAD_SETUP,
        f"{path} exists, and is not replaced",
        "choose another directory; to renew it use `rollq tls rotate`",
    )
