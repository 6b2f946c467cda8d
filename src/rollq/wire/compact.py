"""The compact dialect: a message as a msgpack array of its fields, without a tag.

The type byte of the frame tells which struct the array is, so the tag that msgspec would put in
front is left out. Each struct has an untagged twin that is decoded into, made here from the
struct's own fields. A batch is one array of tagged arrays. An array may be
longer than we know (a newer peer) or shorter by fields with defaults (an older one).

Messages between members name their group in the subject: `cluster.<group>.<area>`.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import BATCH_BYTES_MAX
from rollq.raft import types as raft
from rollq.wire import blob_messages as b
from rollq.wire import messages as m
from rollq.wire import output_messages as o
from rollq.wire import reader_messages as r
from rollq.wire import staging_messages as s
from rollq.wire import table_messages as t
from rollq.wire.frame import Frame
from rollq.wire.kinds import MessageType

Message: TypeAlias = (
    m.SessionMessage
    | m.PeerMessage
    | raft.RaftMessage
    | b.BlobMessage
    | r.ReaderMessage
    | t.TableMessage
)

TYPE_OF: Final[dict[type[msgspec.Struct], MessageType]] = {
    m.SubmitJob: MessageType.SUBMIT_JOB,
    m.AssignJob: MessageType.ASSIGN_JOB,
    m.AckJob: MessageType.ACK_JOB,
    m.Credit: MessageType.CREDIT,
    m.Result: MessageType.RESULT,
    m.CachePut: MessageType.CACHE_PUT,
    m.CacheAck: MessageType.CACHE_ACK,
    m.HelloClient: MessageType.HELLO_CLIENT,
    m.HelloWorker: MessageType.HELLO_WORKER,
    m.NotLeader: MessageType.NOT_LEADER,
    m.LeaderHello: MessageType.LEADER_HELLO,
    raft.AppendEntries: MessageType.APPEND_ENTRIES,
    raft.AppendResponse: MessageType.APPEND_RESPONSE,
    raft.RequestVote: MessageType.REQUEST_VOTE,
    raft.VoteResponse: MessageType.VOTE_RESPONSE,
    raft.InstallSnapshot: MessageType.INSTALL_SNAPSHOT,
    raft.InstallSnapshotResponse: MessageType.INSTALL_SNAPSHOT_RESPONSE,
    m.Welcome: MessageType.WELCOME,
    m.Accepted: MessageType.ACCEPTED,
    m.Error: MessageType.ERROR,
    m.SubmitBulk: MessageType.SUBMIT_BULK,
    m.SubmitArray: MessageType.SUBMIT_ARRAY,
    m.Cancel: MessageType.CANCEL,
    m.Confirm: MessageType.CONFIRM,
    m.Query: MessageType.QUERY,
    m.Answer: MessageType.ANSWER,
    m.Admin: MessageType.ADMIN,
    m.Nack: MessageType.NACK,
    m.AckTaken: MessageType.ACK_TAKEN,
    m.Heartbeat: MessageType.HEARTBEAT,
    m.StopJob: MessageType.STOP_JOB,
    m.Goodbye: MessageType.GOODBYE,
    m.Ping: MessageType.PING,
    m.Pong: MessageType.PONG,
    m.Announce: MessageType.ANNOUNCE,
    raft.Heartbeat: MessageType.RAFT_HEARTBEAT,
    raft.HeartbeatResponse: MessageType.RAFT_HEARTBEAT_RESPONSE,
    raft.TimeoutNow: MessageType.TIMEOUT_NOW,
    raft.ReadIndex: MessageType.READ_INDEX,
    raft.ReadIndexResponse: MessageType.READ_INDEX_RESPONSE,
    m.RollAnswer: MessageType.ROLL_ANSWER,
    m.HistoryFetch: MessageType.HISTORY_FETCH,
    m.HistoryRows: MessageType.HISTORY_ROWS,
    m.MemberReport: MessageType.MEMBER_REPORT,
    b.HelloBlobs: MessageType.HELLO_BLOBS,
    b.BlobAsk: MessageType.BLOB_ASK,
    b.BlobHave: MessageType.BLOB_HAVE,
    b.BlobPut: MessageType.BLOB_PUT,
    b.BlobGo: MessageType.BLOB_GO,
    b.BlobChunk: MessageType.BLOB_CHUNK,
    b.BlobStored: MessageType.BLOB_STORED,
    b.BlobGet: MessageType.BLOB_GET,
    b.BlobInfo: MessageType.BLOB_INFO,
    b.BlobMore: MessageType.BLOB_MORE,
    b.BlobDrop: MessageType.BLOB_DROP,
    o.WatchOutput: MessageType.WATCH_OUTPUT,
    o.TellOutput: MessageType.TELL_OUTPUT,
    o.OutputChunk: MessageType.OUTPUT_CHUNK,
    r.HelloReader: MessageType.HELLO_READER,
    r.SpanAsk: MessageType.SPAN_ASK,
    r.SpanTold: MessageType.SPAN_TOLD,
    r.PiecesAsk: MessageType.PIECES_ASK,
    r.PieceChunk: MessageType.PIECE_CHUNK,
    s.StageJobs: MessageType.STAGE_JOBS,
    s.CommitBatch: MessageType.COMMIT_BATCH,
    s.DropBatch: MessageType.DROP_BATCH,
    t.TableAsk: MessageType.TABLE_ASK,
    t.TableTold: MessageType.TABLE_TOLD,
    t.PartAsk: MessageType.PART_ASK,
    t.ResultsAsk: MessageType.RESULTS_ASK,
}

# The part of a member that a message between members is for; the last token of its subject.
AREA_OF: Final[dict[int, str]] = {
    MessageType.LEADER_HELLO: "roll",
    MessageType.ROLL_ANSWER: "roll",
    MessageType.HISTORY_FETCH: "history",
    MessageType.HISTORY_ROWS: "history",
    MessageType.MEMBER_REPORT: "report",
    **{int(TYPE_OF[struct]): "raft" for struct in typing.get_args(raft.RaftMessage)},
}


def encode_compact(message: Message, group: str = "") -> Frame:
    """The frame of a message in the compact dialect; `group` is for messages between members."""
    kind = TYPE_OF[type(message)]
    payload = ENCODE(msgspec.structs.astuple(message))
    area = AREA_OF.get(kind)
    return Frame(kind, subject=f"cluster.{group}.{area}" if area else "", payload=payload)


def decode_compact(frame: Frame) -> Message:
    """The message that a frame in the compact dialect holds.

    Raises:
        RemoteError: UNKNOWN_MESSAGE, BAD_PAYLOAD or BAD_ID.
    """
    try:
        decode, build = DECODERS[frame.type]
    except KeyError:
        raise RemoteError(
            ErrorCode.UNKNOWN_MESSAGE, f"no message has the type {frame.type}"
        ) from None
    try:
        message: Message = build(*msgspec.structs.astuple(decode(frame.payload)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad_payload(build, error) from None
    return message


def encode_batch(messages: Sequence[Message]) -> list[Frame]:
    """Frames that carry many messages each: one array of [type, field, …] arrays."""
    payload = ENCODE(messages)
    if len(payload) <= BATCH_BYTES_MAX or len(messages) == 1:
        return [Frame(MessageType.BATCH, payload=payload)]
    half = len(messages) // 2
    return encode_batch(messages[:half]) + encode_batch(messages[half:])


def decode_batch(frame: Frame) -> list[m.SessionMessage]:
    """The messages that a batch holds.

    Raises:
        RemoteError: BAD_PAYLOAD or BAD_ID.
    """
    try:
        return BATCH_DECODER.decode(frame.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        code = ErrorCode.BAD_ID if ID_REFUSED in str(error) else ErrorCode.BAD_PAYLOAD
        raise RemoteError(code, f"batch: {error}") from None


def _bad_payload(build: type[msgspec.Struct], error: Exception) -> RemoteError:
    """Name the field by its name: a peer's author does not count array slots."""
    names = build.__struct_fields__

    def name_slot(found: re.Match[str]) -> str:
        slot = int(found[1])
        return f"`{names[slot]}" if slot < len(names) else found[0]

    text = re.sub(r"`\$\[(\d+)\]", name_slot, str(error))
    code = ErrorCode.BAD_ID if ID_REFUSED in text else ErrorCode.BAD_PAYLOAD
    return RemoteError(code, f"{build.__name__}: {text}")


ID_REFUSED: Final = "`bytes` of length"  # how msgspec words a breach of `Id`, the only such bound


def _twin(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same fields without the tag, so that the array holds them alone."""
    hints = typing.get_type_hints(struct, include_extras=True)
    fields: list[Any] = []
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        fields.append((field.name, hint) if field.required else (field.name, hint, field.default))
    return msgspec.defstruct(
        f"{struct.__name__}Fields", fields, array_like=True, frozen=True, gc=False
    )


ENCODE: Final = msgspec.msgpack.Encoder().encode
BATCH_DECODER: Final = msgspec.msgpack.Decoder(list[m.SessionMessage])
DECODERS: Final[dict[int, tuple[Callable[[bytes], Any], type[Any]]]] = {
    kind: (msgspec.msgpack.Decoder(_twin(struct)).decode, struct)
    for struct, kind in TYPE_OF.items()
}
