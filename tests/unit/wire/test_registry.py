"""The table of messages is complete, and says the same as the structs it stands for."""

from __future__ import annotations

import inspect
from types import ModuleType

import msgspec
import pytest

from rollq.base.access import Action, Resource, ResourceKind
from rollq.raft import types as raft
from rollq.wire import (
    blob_messages,
    login_messages,
    messages,
    output_messages,
    reader_messages,
    run_messages,
    staging_messages,
    subject_messages,
)
from rollq.wire.features import FEATURES
from rollq.wire.registry import (
    BATCH_NUMBER,
    ROW_NUMBERED,
    ROW_OF,
    ROWS,
    Direction,
    Phase,
    Row,
    is_known,
)
from tests.unit.wire.samples import SAMPLES

MODULES = (
    *(login_messages, messages, output_messages, run_messages, staging_messages),
    *(subject_messages, blob_messages, reader_messages, raft),
)


def tagged(module: ModuleType) -> set[type]:
    """The structs of a module that are messages: a part of a message has no tag."""
    structs = (kind for _, kind in inspect.getmembers(module, inspect.isclass))
    return {
        kind
        for kind in structs
        if issubclass(kind, msgspec.Struct) and kind.__struct_config__.tag is not None
    }


def test_every_message_has_one_row() -> None:
    defined = set().union(*map(tagged, MODULES))
    assert set(ROW_OF) == defined
    assert len(ROWS) == len(ROW_OF) == len(ROW_NUMBERED)


def test_numbers_are_the_tags_of_our_structs() -> None:
    for row in ROWS:
        if row.struct.__module__ != raft.__name__:
            assert row.struct.__struct_config__.tag == row.number, row.name
    assert BATCH_NUMBER not in ROW_NUMBERED
    assert is_known(BATCH_NUMBER)
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_says_who_and_what(row: Row) -> None:
    assert row.directions
    assert set(row.closes) <= set(row.directions)
    assert row.features <= set(FEATURES)
    assert isinstance(row.action, Action)
    assert row.resources
    assert row.request_id == "" or row.request_id in row.struct.__struct_fields__
    assert bool(row.area) == (row.directions[0].name == "MEMBER_TO_MEMBER")
    assert not row.closes or Phase.OPEN in row.phase


@pytest.mark.parametrize("sample", SAMPLES, ids=[type(sample).__name__ for sample in SAMPLES])
def test_the_resources_of_a_message_can_be_told(sample: msgspec.Struct) -> None:
    for resource in ROW_OF[type(sample)].resources:
        names = resource.names_in(sample)
        assert all(isinstance(name, str | bytes | int) for name in names)
        assert resource.field or not names


def test_resources_are_found_within_tuples_of_structs() -> None:
    bulks = [sample for sample in SAMPLES if isinstance(sample, messages.SubmitBulk)]
    for bulk in bulks:
        digests = Resource(ResourceKind.BLOB, "items.blobs.digest").names_in(bulk)
        assert digests == tuple(blob.digest for item in bulk.items for blob in item.blobs)
    assert any(item.blobs for bulk in bulks for item in bulk.items)
    assert Resource(ResourceKind.GRID).names_in(bulks[0]) == ()


def test_secrets_of_a_job_are_resources_of_its_submit() -> None:
    submits = [one for one in SAMPLES if ROW_OF[type(one)].action is Action.JOBS_SUBMIT]
    found: dict[str, set[tuple[str, ...]]] = {}
    for sample in submits:
        for resource in ROW_OF[type(sample)].resources:
            if resource.kind is ResourceKind.SECRET:
                assert resource.action is Action.SECRETS_USE
                found.setdefault(type(sample).__name__, set()).add(resource.names_in(sample))
    assert set(found) == {"SubmitJob", "SubmitBulk", "SubmitArray", "SubmitRun", "StageJobs"}
    assert all(("db", "site.pem") in names for names in found.values())
    plain = next(one for one in submits if isinstance(one, messages.SubmitJob))
    kinds = {one.kind: one for one in ROW_OF[messages.SubmitJob].resources}
    named = kinds[ResourceKind.SECRET]
    assert named.names_in(msgspec.structs.replace(plain, options=None)) == ()


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_the_base_of_a_struct_says_who_may_say_it(row: Row) -> None:
    """So that mypy knows at the doors what a row says."""
    if row.struct.__module__ == raft.__name__:
        assert row.directions == (Direction.MEMBER_TO_MEMBER,)
        return
    bases = {base for base in FAMILIES.values() if issubclass(row.struct, base)}
    spoken = {FAMILIES[direction] for direction in row.directions if direction in FAMILIES}
    # An answer to a hello is said on links of every kind, and a reader asks for views as a client.
    if spoken & {messages.MemberMessage, messages.ClientMessage}:
        spoken -= LINKS
    assert bases == spoken


FAMILIES: dict[Direction, type] = {
    Direction.DIALER_TO_ACCEPTER: login_messages.LoginMessage,
    Direction.ACCEPTER_TO_DIALER: login_messages.LoginMessage,
    Direction.CLIENT_TO_MEMBER: messages.ClientMessage,
    Direction.WORKER_TO_MEMBER: messages.WorkerMessage,
    Direction.MEMBER_TO_CLIENT: messages.MemberMessage,
    Direction.MEMBER_TO_WORKER: messages.MemberMessage,
    Direction.MEMBER_TO_MEMBER: messages.PeerMessage,
    Direction.BLOB_CLIENT_TO_SERVER: blob_messages.BlobMessage,
    Direction.BLOB_SERVER_TO_CLIENT: blob_messages.BlobMessage,
    Direction.READER_TO_MEMBER: reader_messages.ReaderMessage,
    Direction.MEMBER_TO_READER: reader_messages.ReaderMessage,
}
LINKS = {blob_messages.BlobMessage, reader_messages.ReaderMessage}
