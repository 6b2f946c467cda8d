"""The vault of a worker: job secrets by name, from a directory or its environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from rollq.base.environ import NAME
from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.base.job_secrets import is_secret_name
from rollq.security.files import OTHERS, read_private
from rollq.security.secret import Secret

log = logging.getLogger("rollq.vault")

SYSTEMD: Final = "CREDENTIALS_DIRECTORY"  # set by systemd for LoadCredential=
GROUP_READS: Final = 0o040


class NoSecretError(StateError):
    """This worker does not have the secret, or cannot read it; another may."""


class Vault:
    """Secrets by name. Files are read on each access.

    Args:
        directory: Has one file per secret; None: there is none.
        kept: Secrets held in memory.
        forbidden_mode: Mode bits that no file may have.
    """

    def __init__(
        self,
        directory: Path | None = None,
        kept: Mapping[str, Secret] | None = None,
        forbidden_mode: int = OTHERS,
    ) -> None:
        self._directory = directory
        self._kept = kept or {}
        self._forbidden_mode = forbidden_mode

    def get(self, name: str) -> Secret:
        """The value of a secret.

        Raises:
            NoSecretError: NO_SECRET. Details of a file error are only logged here: clients need not
                know its path.
        """
        kept = self._kept.get(name)
        if kept is not None:
            return kept
        if self._directory is None or not is_secret_name(name):
            raise _missing(name)
        path = self._directory / name
        try:
            return Secret(read_private(path, self._forbidden_mode))
        except LocalError as error:
            if not path.exists():
                raise _missing(name) from None
            log.warning("the secret %s cannot be used: %s", name, error)
            raise NoSecretError(
                ErrorCode.NO_SECRET,
                f"this worker cannot use its secret {name!a}",
                "its log says why",
            ) from None


def open_vault(
    directory: Path | None, prefix: str, environ: MutableMapping[str, str]
) -> Vault | None:
    """The configured vault; None if none is configured.

    Args:
        directory: Has one file per secret; None: none.
        prefix: Of variables that hold secrets, named by the rest; empty: none.
        environ: Our environment: these variables are removed, so that no child inherits them.

    Raises:
        LocalError: BAD_SETUP.
    """
    if directory is None and not prefix:
        return None
    if directory is not None and not directory.is_dir():
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"the vault {directory} is no directory",
            "make it, with one file a secret, chmod 600",
        )
    if prefix and not (NAME.fullmatch(prefix) and prefix.endswith("_")):
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"secrets cannot be variables that begin with {prefix[:64]!r}",
            "use a-z, A-Z, 0-9 and _, and a _ at the end, as in JOB_SECRET_",
        )
    names = [name for name in environ if prefix and name.startswith(prefix) and name != prefix]
    kept = {name.removeprefix(prefix): Secret(os.fsencode(environ.pop(name))) for name in names}
    # systemd grants access to its user by an ACL, which shows as group permission.
    is_systemd = directory is not None and str(directory) == environ.get(SYSTEMD)
    return Vault(directory, kept, OTHERS & ~GROUP_READS if is_systemd else OTHERS)


def _missing(name: str) -> NoSecretError:
    return NoSecretError(
        ErrorCode.NO_SECRET,
        f"this worker has no secret {name[:64]!a}",
        "put it into the worker's vault (`rollq worker --vault DIR`), or name another",
    )
