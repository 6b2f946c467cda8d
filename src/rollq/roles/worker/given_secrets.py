"""The secrets that one job is given: found in the vault by their names, and how they reach it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from msgspec import UNSET

from rollq.base.environ import check_loads_nothing
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.job_secrets import check_secrets
from rollq.base.jobs import JobSecret, Status
from rollq.roles.worker.outputs import Ending
from rollq.security.masking import Masker
from rollq.security.secret import Secret
from rollq.security.vault import NoSecretError, Vault
from rollq.wire.messages import AssignJob

NO_VAULT: Final = Vault()


class GivenSecret(NamedTuple):
    """One of them, with its value."""

    asked: JobSecret
    value: Secret

    @property
    def line(self) -> bytes:
        """The value without the end of its line, as a variable has it."""
        return self.value.reveal().rstrip(b"\r\n")


class GivenSecrets(NamedTuple):
    """All of them."""

    given: tuple[GivenSecret, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.given)

    def variables(self, make_file: Callable[[str, bytes], str]) -> dict[str, str]:
        """The variables of the job.

        Args:
            make_file: Makes a file for a variable, with this content, that nobody but the job may
                read; returns its path.

        Raises:
            NoSecretError: NO_SECRET; a variable cannot hold the value.
        """
        return {
            one.asked.variable: (
                make_file(one.asked.variable, one.value.reveal())
                if one.asked.as_file
                else _text_of(one)
            )
            for one in self.given
        }

    def masker(self) -> Masker:
        """For a stream in which they are not to be seen."""
        return Masker(one.line for one in self.given)


NONE_GIVEN: Final = GivenSecrets()


def find_secrets(
    job: AssignJob, vault: Vault | None, env: Collection[str], *, may_load: bool
) -> GivenSecrets:
    """The values of what a job asks for.

    Args:
        job: Its options name them.
        vault: Where they are; None: there is none.
        env: The names of its own variables.
        may_load: Whether a variable may be one that makes a program load code.

    Raises:
        RemoteError: BAD_PAYLOAD; no worker gives these.
        NoSecretError: NO_SECRET; this worker does not have them.
    """
    asked = () if job.options is None else job.options.secrets
    if not asked:
        return NONE_GIVEN
    if not job.fence:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            "a job of a legacy leader gets no secrets: that leader does not check access to them",
            "submit it to a grid of rollq",
        )
    check_secrets(asked, env)
    if not may_load:
        check_loads_nothing({one.variable: "" for one in asked})
    vault = vault or NO_VAULT
    return GivenSecrets(tuple(GivenSecret(one, vault.get(one.name)) for one in asked))


def no_file_for_function(variable: str, content: bytes) -> str:
    """Instead of making a file: a function has no directory of its own."""
    raise RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"the secret for {variable[:64]} is to be a file, and functions have none",
        "leave out `file:`, and the variable has the value",
    )


def _text_of(one: GivenSecret) -> str:
    value = one.line
    try:
        if b"\0" not in value:
            return value.decode()
    except UnicodeDecodeError:
        pass
    raise NoSecretError(
        ErrorCode.NO_SECRET,
        f"a variable cannot hold the secret {one.asked.name!a}: it is not text",
        f"ask for it as a file: {one.asked.variable}=file:{one.asked.name}",
    )


def end_masked(masker: Masker, on_end: Callable[[Ending], None], ending: Ending) -> None:
    """The end of a call that was given secrets: they are not in what is told of it."""
    ending.stdout = masker.mask_text(ending.stdout)
    ending.stderr = masker.mask_text(ending.stderr)
    if isinstance(ending.data, bytes):
        masked = masker.mask(ending.data)
        if ending.data_kind is UNSET:
            ending.data = masked
        elif masked != ending.data:  # a packed value without some of its bytes is none
            ending.data = ending.data_kind = UNSET
            if ending.status == Status.OK:
                ending.status, ending.exit_code = Status.FAILED, 1
                ending.notes.append("the returned value holds a secret of the job")
    ending.apart = tuple(
        one._replace(content=masker.mask(one.content)) if isinstance(one.content, bytes) else one
        for one in ending.apart
    )
    on_end(ending)
