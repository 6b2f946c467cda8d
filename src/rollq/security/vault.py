"""The vault of a worker: secrets by name, out of a directory or of its environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from rollq.base.environ import NAME
from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.base.job_secrets import is_secret_name
from rollq.security.files import OTHERS, read_closed
from rollq.security.secret import Secret

log = logging.getLogger("rollq.vault")

SYSTEMD: Final = "CREDENTIALS_DIRECTORY"  # the variable in which systemd says where it put them
GROUP_READS: Final = 0o040


class NoSecretError(StateError):
    """This worker has no such secret, or cannot use it; another may."""


class Vault:
    """Secrets by name; a file is read each time that it is asked for.

    Args:
        directory: One file a secret; None: there is none.
        kept: Those that are not files.
        closed_to: Mode bits that no file may have.
    """

    def __init__(
        self,
        directory: Path | None = None,
        kept: Mapping[str, Secret] | None = None,
        closed_to: int = OTHERS,
    ) -> None:
        self._directory = directory
        self._kept = kept or {}
        self._closed_to = closed_to

    def get(self, name: str) -> Secret:
        """The value of a name, as it is in the file or variable.

        Raises:
            NoSecretError: NO_SECRET. What is wrong with a file is in our log: whoever runs jobs
                need not know where it is.
        """
        kept = self._kept.get(name)
        if kept is not None:
            return kept
        if self._directory is None or not is_secret_name(name):
            raise _missing(name)
        path = self._directory / name
        try:
            return Secret(read_closed(path, self._closed_to))
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
    """The vault that a worker is told of; None: it was told of none.

    Args:
        directory: Of files; None: none.
        prefix: Variables that begin with it are secrets, by the rest of their names; empty: none.
        environ: Our environment: these variables are taken out of it, so that nobody inherits them.

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
            "use letters, digits and _, and a _ at the end, as in JOB_SECRET_",
        )
    names = [name for name in environ if prefix and name.startswith(prefix) and name != prefix]
    kept = {name.removeprefix(prefix): Secret(os.fsencode(environ.pop(name))) for name in names}
    # systemd lets its own user in by an access list, which shows as the right of a group.
    is_systemd = directory is not None and str(directory) == environ.get(SYSTEMD)
    return Vault(directory, kept, OTHERS & ~GROUP_READS if is_systemd else OTHERS)


def _missing(name: str) -> NoSecretError:
    return NoSecretError(
        ErrorCode.NO_SECRET,
        f"this worker has no secret {name[:64]!a}",
        "put it into the worker's vault (`rollq worker --vault DIR`), or name another",
    )
