"""The option `--credentials`, which is added to every command that connects to a group in one
place.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rollq.cli.options import CredentialsDir

if TYPE_CHECKING:
    from rollq.security.credentials import Credentials

NAME: Final = "credentials"
# A command with one of these parameters connects to a group.
TALKS: Final = frozenset(("servers", "timeout", "peers", "seeds"))
_GIVEN: ContextVar[Path | None] = ContextVar("credentials", default=None)


def given_credentials() -> Credentials:
    """The credentials of the running command, from `--credentials` or the environment.

    Raises:
        LocalError: BAD_CREDENTIALS.
    """
    from rollq.security.files import as_credentials

    return as_credentials(given_directory())


def given_directory() -> str:
    """The directory of the credentials; empty if none is given."""
    given = _GIVEN.get()
    return "" if given is None else str(given.absolute())


def own_expiry() -> str:
    """A warning if the certificate of this command expires soon; empty otherwise."""
    import time

    from rollq.security.authority import read_pem
    from rollq.security.certificates import facts_of
    from rollq.security.expiry import expiry_warning

    credentials = given_credentials()
    if credentials.certificate is None:
        return ""
    facts = facts_of(read_pem(Path(credentials.certificate[0])))
    whose = f"{facts.identity.uri if facts.identity else 'this command'} ({credentials.directory})"
    return expiry_warning(whose, facts.not_after_ms, int(time.time() * 1_000))


def with_credentials(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--credentials` to a command that connects to a group."""
    signature = inspect.signature(command, eval_str=True)
    if TALKS.isdisjoint(signature.parameters):
        return command

    @functools.wraps(command)
    def run(*args: Any, credentials: Path | None, **kwargs: Any) -> Any:
        token = _GIVEN.set(credentials)
        try:
            return command(*args, **kwargs)
        finally:
            _GIVEN.reset(token)

    option = inspect.Parameter(
        NAME, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=CredentialsDir
    )
    shown: Any = run
    shown.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])
    return run
