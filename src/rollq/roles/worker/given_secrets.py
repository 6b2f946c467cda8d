"""The secrets of one job: looked up in the vault by name, and passed as variables or files."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from msgspec import UNSET

from rollq.base.environ import check_loads_nothing
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.job_secrets import check_secrets
from rollq.base.jobs import JobSecret, Status
from rollq.roles.worker.outputs import ExecutionEnd
from rollq.security.masking import Masker
from rollq.security.secret import Secret
from rollq.security.vault import NoSecretError, Vault
from rollq.wire.messages import AssignJob

NO_VAULT: Final = Vault()


class GivenSecret(NamedTuple):
    """A requested secret with its value."""

    asked: JobSecret
    value: Secret

    @property
    def line(self) -> bytes:
        """The value without its line ending, for a variable."""
        return self.value.reveal().rstrip(b"\r\n")


class GivenSecrets(NamedTuple):
    """All secrets of a job."""

    given: tuple[GivenSecret, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.given)

    def variables(self, make_file: Callable[[str, bytes], str]) -> dict[str, str]:
        """The variables of the job.

        Args:
            make_file: Creates a file for a variable, with this content, readable only by the job;
                returns its path.

        Raises:
            NoSecretError: NO_SECRET: a variable cannot hold the value.
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
        """Masks the values in a stream."""
        return Masker(one.line for one in self.given)


NONE_GIVEN: Final = GivenSecrets()


def find_secrets(
    job: AssignJob, vault: Vault | None, env: Collection[str], *, may_load: bool
) -> GivenSecrets:
    """The secrets that a job requests.

    Args:
        job: Its options name them.
        vault: Holds them; None: there is none.
        env: The names of the job's own variables.
        may_load: Whether variables that make a program load code are permitted.

    Raises:
        RemoteError: BAD_PAYLOAD: the request is invalid on every worker.
        NoSecretError: NO_SECRET: this worker does not have them.
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
    """Refuses secrets as files for a function, which has no directory."""
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


def end_masked(
    masker: Masker, on_end: Callable[[ExecutionEnd], None], ending: ExecutionEnd
) -> None:
    """Mask the secrets of a call in its result, and pass it on."""
    ending.stdout = masker.mask_text(ending.stdout)
    ending.stderr = masker.mask_text(ending.stderr)
    if isinstance(ending.data, bytes):
        masked = masker.mask(ending.data)
        if ending.data_kind is UNSET:
            ending.data = masked
        elif masked != ending.data:  # a packed value cannot be masked in part
            ending.data = ending.data_kind = UNSET
            if ending.status == Status.OK:
                ending.status, ending.exit_code = Status.FAILED, 1
                ending.notes.append("the returned value holds a secret of the job")
    ending.separate = tuple(
        one._replace(content=masker.mask(one.content)) if isinstance(one.content, bytes) else one
        for one in ending.separate
    )
    on_end(ending)
