"""Many jobs that differ in arguments and key alone, made as columns at once. No IO.

It makes the very bytes that `specs` and `supply` make of such jobs one by one, at a third of their
price: a distributed writer makes them by the million.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from rollq.base.ids import GUID_BYTES, GUID_TEXT_BYTES, ClientId, guid_to_text, guids_to_text
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.base.staged import StagedGroup, join_keys
from rollq.roles.client.specs import JobSpec, Options
from rollq.roles.client.supply import SubmitMaker
from rollq.roles.client.tracing import current_traceparent
from rollq.wire.models import encode_model, job_request

ARGS: Final = b',"Args":'
_encode: Final = msgspec.json.Encoder().encode


class AlikeJobs(msgspec.Struct, frozen=True):
    """Jobs of one program that ask for the same.

    Attributes:
        exec_name: What to run.
        options: What they ask for.
        args: Of each; lists of text.
        keys: Of each; none: they have no keys, and are given ids.
    """

    exec_name: str
    options: Options
    args: Sequence[Sequence[str]]
    keys: Sequence[str] = ()

    def spec(self, number: int) -> JobSpec:
        """One of them."""
        key = self.keys[number] if self.keys else ""
        return JobSpec(self.exec_name, self.args[number], options=self.options, key=key)


def alike_group(client_id: ClientId, jobs: AlikeJobs, make: SubmitMaker) -> StagedGroup | None:
    """The jobs as they are staged; None: they must be made one by one, which finds out why.

    Args:
        client_id: Whose jobs they are.
        jobs: Some; keys that are there are as they may be.
        make: Makes the first, and so tells what cannot be meant.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    if not jobs.keys and current_traceparent():
        return None
    first = make.make(jobs.spec(0))
    if jobs.keys:
        start = f"{client_id}\0".encode()
        ids = b"".join(
            [blake2b(start + key.encode(), digest_size=GUID_BYTES).digest() for key in jobs.keys]
        )
    else:
        ids = secrets.token_bytes(GUID_BYTES * len(jobs.args))
    bodies = _bodies(client_id, jobs, ids)
    sizes = tuple(map(len, bodies))
    if max(sizes) > INLINE_BYTES_MAX:
        return None
    return StagedGroup(
        queue=first.subject,
        exec_name=jobs.exec_name,
        job_ids=ids,
        sizes=sizes,
        bodies=b"".join(bodies),
        options=first.options,
        keys=join_keys(jobs.keys),
    )


def _bodies(client_id: ClientId, jobs: AlikeJobs, ids: bytes) -> list[bytes]:
    """All bodies are alike but for the id and the arguments. Neither can be taken for another
    place of the text: the id comes first, and in a text there is no quote that is not escaped."""
    ident = guid_to_text(ids[:GUID_BYTES]).encode()
    alike = encode_model(job_request(ids[:GUID_BYTES], client_id, jobs.exec_name))
    before, _, rest = alike.partition(ident)
    between, _, after = rest.partition(ARGS + b"[]")
    texts = guids_to_text(ids)
    return [
        b"".join((before, texts[at : at + GUID_TEXT_BYTES], between, ARGS, _encode(args), after))
        for at, args in zip(range(0, len(texts), GUID_TEXT_BYTES), jobs.args, strict=True)
    ]
