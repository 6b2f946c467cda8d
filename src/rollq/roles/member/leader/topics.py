"""Topics of the leader: publishes that become commands, and readers of topics.

A reader is a subscription that names a topic. It is sent the messages of the topic from its cursor
on, at most TOPIC_WINDOW ahead of what it has consumed, as fast as its session reads. The cursor of
a durable one is replicated, and one session has it at a time: a second one is refused, unless it is
of the same client, which has reconnected. Consumed positions go into the log together, every
CURSORS_MOVE_MS; if the leader is lost in between, readers get some messages again.

Nothing else is replicated; readers subscribe again on the next leader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial

import msgspec

from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.base.ids import NIL_ID, MessageId
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.base.topic_limits import (
    CURSOR_MOVES_MAX,
    CURSORS_MOVE_MS,
    TOPIC_PUMP_BYTES,
    TOPIC_READERS_MAX,
    TOPIC_SCAN_MAX,
    TOPIC_WINDOW,
    TOPICS_TRIM_MS,
)
from rollq.grid.commands import Command
from rollq.grid.effects import Applied, Kept, Outcome, Refused, SendKept, TellTopic
from rollq.grid.topic_commands import CursorMove, MoveCursors, OpenCursor, PublishKept
from rollq.grid.topic_records import TopicRecord
from rollq.grid.topics import start_of
from rollq.policy.trimming import over_age
from rollq.roles.member.leader.origins import Origin
from rollq.roles.member.leader.proposals import Proposals
from rollq.roles.member.leader.reads import Reads
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.sessions import ClientSession, Session, Sessions
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.outputs import Outputs
from rollq.roles.member.replica import Replica
from rollq.subjects.grammar import SEPARATOR, parse_pattern, parse_subject
from rollq.subjects.matcher import matches
from rollq.subjects.overlap import covers
from rollq.subjects.trie import Trie
from rollq.wire.subject_messages import Consumed, Deliver, Missed, Publish, Subscribe


class TopicReader(msgspec.Struct, eq=False):
    """One subscription that reads a topic."""

    session: int
    number: int
    request_id: MessageId  # of its Subscribe; errors are sent with it
    owner: str  # client or worker; another session of it may take over
    topic: str
    durable: str  # empty: its cursor is not replicated
    pattern: str
    takes_all: bool = False  # its pattern covers those of the topic
    opened: bool = False  # its cursor is known
    next_index: int = 0  # the next index to look at
    unconsumed: deque[int] = msgspec.field(default_factory=deque)  # indexes that were sent
    noted_index: int = 0  # consumed up to here, as proposed or to be proposed


class TopicRequests:
    """Handles topics and their readers on one leader."""

    def __init__(
        self,
        replica: Replica,
        sessions: Sessions,
        proposals: Proposals,
        replies: Replies,
        *,
        reads: Reads,
        shell: Shell,
        outputs: Outputs,
    ) -> None:
        self._replica = replica
        self._sessions = sessions
        self._proposals = proposals
        self._replies = replies
        self._reads = reads
        self._shell = shell
        self._outputs = outputs
        self._trie: Trie[str] | None = None  # topics by their patterns; None: to be built
        self._by_session: dict[int, dict[int, TopicReader]] = {}  # by subscription number
        self._by_topic: dict[str, dict[tuple[int, int], TopicReader]] = {}
        self._holders: dict[tuple[str, str], TopicReader] = {}  # by topic and durable
        self._count = 0  # of all readers
        # Readers that could not be sent all in their last turn.
        self._behind: dict[tuple[int, int], TopicReader] = {}
        self._moves: dict[tuple[str, str], int] = {}  # cursors to propose
        self._move_at_ms = self._trim_at_ms = 0

    # --- publishing

    def topic_of(self, subject: str) -> str:
        """The topic of a subject; empty: none."""
        topics = self._replica.state.topics.by_name
        if not topics:
            return ""
        if self._trie is None:
            self._trie = Trie()
            for topic in topics.values():
                for pattern in topic.patterns:
                    self._trie.insert(pattern, topic.name)
        found = self._trie.match(subject)
        return found[0] if found else ""

    def publish(self, session: Session, message: Publish, topic: str) -> None:
        """Propose a message; it is answered and delivered once it is applied.

        Raises:
            RemoteError: BAD_PAYLOAD if it is too large for a topic.
            StateError: OVERLOADED.
        """
        if len(message.payload) > INLINE_BYTES_MAX:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"payload of {len(message.payload)} bytes; a topic keeps up to {INLINE_BYTES_MAX}",
                "put it into a blob or a cache, and publish its name",
            )
        self._proposals.check_room()
        subject = SEPARATOR.join(parse_subject(message.subject))
        replies = (message.reply_to,) if message.reply_to else ()
        command = PublishKept(topic, (subject,), (message.payload,), replies)
        origin = Origin(self._settle_publish, session.number, message.request_id)
        self._proposals.add_request(command, origin)

    def _settle_publish(
        self, origin: Origin, command: PublishKept, outcome: Outcome, applied: Applied
    ) -> None:
        if origin.request_id == NIL_ID or self._sessions.get(origin.session) is None:
            return
        if isinstance(outcome, Kept):
            self._replies.accept(origin.session, origin.request_id, outcome.index)
        else:
            self._replies.settle_request(origin, command, outcome, applied)

    # --- readers

    def subscribe(self, session: Session, message: Subscribe) -> None:
        """Begin to read a topic. A durable subscription goes on after leadership is confirmed, as a
        former leader does not know its position, and so is UNKNOWN_TOPIC answered.

        Raises:
            RemoteError: BAD_SUBJECT, BAD_OPTIONS.
            StateError: DURABLE_TAKEN; OVERLOADED.
        """
        topic = self._replica.state.topics.by_name.get(message.topic)
        if topic is None:
            self._reads.check_room()
            self._reads.once_current(partial(self._refuse_unknown, session.number, message))
            return
        if message.queue_group or not message.number:
            raise RemoteError(
                ErrorCode.BAD_OPTIONS,
                "a subscription that reads a topic cannot have a queue group, and needs a number",
                "to share work among several, submit jobs",
            )
        self.unsubscribe(session, message.number)
        if self._count >= TOPIC_READERS_MAX:
            raise StateError(ErrorCode.OVERLOADED, "too many readers of topics", "ask again later")
        reader = TopicReader(
            session.number,
            message.number,
            request_id=message.request_id,
            owner=_owner(session),
            topic=topic.name,
            durable=message.durable,
            pattern=SEPARATOR.join(parse_pattern(message.pattern)),
        )
        if not message.durable:
            self._add(reader)
            self._open(reader, topic, start_of(topic, message.from_index))
            return
        is_known = message.durable in topic.cursors
        if is_known:
            self._reads.check_room()
        self._take_over(reader)
        self._add(reader)
        if is_known:
            self._reads.once_current(partial(self._reopen, reader))
        else:
            command = OpenCursor(topic.name, message.durable, message.from_index)
            origin = Origin(self._settle_open, session.number, message.request_id)
            self._proposals.add_request(command, origin)

    def _refuse_unknown(self, session: int, message: Subscribe) -> None:
        unknown = StateError(
            ErrorCode.UNKNOWN_TOPIC,
            f"no topic {message.topic[:64]!r}",
            "`rollq topic list` shows them, `rollq topic create` makes one",
        )
        self._replies.error(session, message.request_id, unknown)

    def unsubscribe(self, session: Session, number: int) -> bool:
        """End a reader; false if the subscription with this number reads no topic."""
        reader = self._by_session.get(session.number, {}).get(number)
        if reader is not None:
            self._remove(reader)
        return reader is not None

    def consumed(self, session: Session, message: Consumed) -> None:
        """A reader has consumed everything up to an index."""
        reader = self._by_session.get(session.number, {}).get(message.number)
        if reader is None:
            return  # it was taken over, or the topic was removed
        index = min(message.index, reader.next_index - 1)
        while reader.unconsumed and reader.unconsumed[0] <= index:
            reader.unconsumed.popleft()
        self._note(reader, index)
        self._pump(reader)

    def held_by(self, session: int) -> list[Subscribe]:
        """The topic subscriptions of a session as messages, to check them against new rules."""
        readers = self._by_session.get(session, {}).values()
        return [
            Subscribe(NIL_ID, one.number, one.pattern, topic=one.topic, durable=one.durable)
            for one in readers
        ]

    def gone(self, session: Session) -> None:
        """A session was removed."""
        for reader in list(self._by_session.get(session.number, {}).values()):
            self._remove(reader)

    def _take_over(self, reader: TopicReader) -> None:
        """End the present reader of a durable cursor, if this session may take it over."""
        holder = self._holders.get((reader.topic, reader.durable))
        if holder is None:
            return
        taken = StateError(
            ErrorCode.DURABLE_TAKEN,
            f"{reader.durable!r} of topic {reader.topic!r} is read by {holder.owner}",
            "end that subscription, or use another name: each name has its own position",
        )
        if holder.owner != reader.owner:
            raise taken
        self._end(holder, taken)

    def _place_of(self, topic: TopicRecord, durable: str) -> int:
        """The index after the last consumed one of a durable cursor."""
        noted = self._moves.get((topic.name, durable), 0)
        return max(topic.cursors[durable].index, noted) + 1

    def _settle_open(
        self, origin: Origin, command: OpenCursor, outcome: Outcome, applied: Applied
    ) -> None:
        reader = self._holders.get((command.topic, command.durable))
        if reader is None or reader.request_id != origin.request_id:
            return  # unsubscribed meanwhile
        topic = self._replica.state.topics.by_name.get(command.topic)
        if isinstance(outcome, Refused):
            self._remove(reader)
            self._replies.settle_request(origin, command, outcome, applied)
        elif topic is not None and command.durable in topic.cursors:
            self._open(reader, topic, self._place_of(topic, command.durable))
        elif topic is not None:  # the same entry has deleted the cursor
            self._end(reader, _deleted(reader))

    def _reopen(self, reader: TopicReader) -> None:
        if self._holders.get((reader.topic, reader.durable)) is not reader:
            return  # it has ended meanwhile
        topic = self._replica.state.topics.by_name[reader.topic]
        if reader.durable in topic.cursors:
            self._open(reader, topic, self._place_of(topic, reader.durable))
        else:  # deleted meanwhile
            self._end(reader, _deleted(reader))

    def _open(self, reader: TopicReader, topic: TopicRecord, next_index: int) -> None:
        reader.opened = True
        reader.takes_all = _covers_all(reader.pattern, topic)
        reader.next_index = next_index
        reader.noted_index = next_index - 1
        self._replies.accept(reader.session, reader.request_id, next_index)
        self._pump(reader)

    def _add(self, reader: TopicReader) -> None:
        key = reader.session, reader.number
        self._by_session.setdefault(reader.session, {})[reader.number] = reader
        self._by_topic.setdefault(reader.topic, {})[key] = reader
        if reader.durable:
            self._holders[reader.topic, reader.durable] = reader
        self._count += 1

    def _remove(self, reader: TopicReader) -> None:
        key = reader.session, reader.number
        of_session, of_topic = self._by_session[reader.session], self._by_topic[reader.topic]
        del of_session[reader.number], of_topic[key]
        if not of_session:
            del self._by_session[reader.session]
        if not of_topic:
            del self._by_topic[reader.topic]
        if reader.durable:
            del self._holders[reader.topic, reader.durable]
        self._behind.pop(key, None)
        self._count -= 1

    def _end(self, reader: TopicReader, error: RollqError) -> None:
        """The leader ends a reader, with an error."""
        self._remove(reader)
        self._replies.error(reader.session, reader.request_id, error)

    # --- effects of applied entries

    def kept(self, effect: SendKept) -> None:
        """A topic has new messages: send them to its readers."""
        for reader in list(self._by_topic.get(effect.topic, {}).values()):
            self._pump(reader)

    def changed(self, effect: TellTopic) -> None:
        """A topic was created, changed or removed, or one of its cursors was deleted."""
        self._trie = None
        topic = self._replica.state.topics.by_name.get(effect.topic)
        # A cursor that is created again under the same name begins where its subscription says.
        for key in [key for key in self._moves if key[0] == effect.topic]:
            if topic is None or key[1] not in topic.cursors:
                del self._moves[key]
        for reader in list(self._by_topic.get(effect.topic, {}).values()):
            if topic is None:
                gone = f"topic {effect.topic!r} was removed"
                self._end(reader, StateError(ErrorCode.UNKNOWN_TOPIC, gone))
            elif reader.opened and reader.durable and reader.durable not in topic.cursors:
                self._end(reader, _deleted(reader))
            else:
                reader.takes_all = _covers_all(reader.pattern, topic)

    # --- once a turn

    def due(self, now_ms: int, time_ms: int) -> Iterator[Command]:
        """The commands to propose: cursor moves, and trimming of topics. Sends more to readers
        that are behind."""
        for reader in list(self._behind.values()):
            self._pump(reader)
        if self._moves and now_ms >= self._move_at_ms:
            self._move_at_ms = now_ms + CURSORS_MOVE_MS
            yield MoveCursors(tuple(self._take_moves()))
        if now_ms >= self._trim_at_ms:  # proposals of the last check are applied by now
            self._trim_at_ms = now_ms + TOPICS_TRIM_MS
            yield from over_age(self._replica.state, time_ms)

    def _take_moves(self) -> Iterator[CursorMove]:
        for key in list(self._moves)[:CURSOR_MOVES_MAX]:
            yield CursorMove(*key, self._moves.pop(key))

    def clear(self) -> None:
        """Leadership is lost or gained."""
        self._trie = None
        self._by_session.clear()
        self._by_topic.clear()
        self._holders.clear()
        self._behind.clear()
        self._moves.clear()
        self._count = self._move_at_ms = self._trim_at_ms = 0

    # --- helpers

    def _pump(self, reader: TopicReader) -> None:
        """Send a reader as much as its window and its session permit."""
        topic = self._replica.state.topics.by_name.get(reader.topic)
        if topic is None or not reader.opened:
            return
        mail = self._outputs.mail(reader.session)
        if reader.next_index < topic.first_index:
            missed = topic.first_index - reader.next_index
            mail.append(Missed(missed, reader.number, topic.first_index))
            reader.next_index = topic.first_index
        end = min(topic.last_index + 1, reader.next_index + TOPIC_SCAN_MAX)
        left_bytes = TOPIC_PUMP_BYTES if self._shell.has_room(reader.session) else 0
        while reader.next_index < end and left_bytes > 0 and len(reader.unconsumed) < TOPIC_WINDOW:
            deliver = self._message_at(reader, topic)
            if deliver is not None:
                mail.append(deliver)
                reader.unconsumed.append(reader.next_index)
                left_bytes -= len(deliver.payload)
            reader.next_index += 1
        if not reader.unconsumed and reader.next_index - reader.noted_index > TOPIC_WINDOW:
            self._note(reader, reader.next_index - 1)  # so that they are not scanned again
        is_behind = reader.next_index <= topic.last_index and len(reader.unconsumed) < TOPIC_WINDOW
        if is_behind:
            self._behind[reader.session, reader.number] = reader
        else:
            self._behind.pop((reader.session, reader.number), None)

    def _message_at(self, reader: TopicReader, topic: TopicRecord) -> Deliver | None:
        """The next message, if it matches the reader's pattern."""
        kept = topic.messages[reader.next_index]
        if not reader.takes_all and not matches(reader.pattern, kept.subject):
            return None
        return Deliver(
            kept.subject,
            self._replica.state.bodies.load(kept.payload),
            kept.reply_to,
            topic=topic.name,
            index=reader.next_index,
            stamp_ms=kept.stamp_ms,
            number=reader.number,
        )

    def _note(self, reader: TopicReader, index: int) -> None:
        """Note how far a reader has consumed."""
        if index > reader.noted_index:
            reader.noted_index = index
            if reader.durable:
                self._moves[reader.topic, reader.durable] = index


def _owner(session: Session) -> str:
    """The owner of a session: a new session of the same owner may take over its readers."""
    if isinstance(session, ClientSession):
        return f"client {session.client_id}"
    return f"worker {session.worker_id.hex()}"


def _deleted(reader: TopicReader) -> StateError:
    gone = f"{reader.durable!r} of topic {reader.topic!r} was deleted by an operator"
    return StateError(ErrorCode.UNKNOWN_TOPIC, gone)


def _covers_all(pattern: str, topic: TopicRecord) -> bool:
    return all(covers(pattern, one) for one in topic.patterns)
