"""Calls of a client that publish to subjects and subscribe to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from rollq.base.ids import JobId
from rollq.base.job_events import JobEvent, JobProgress
from rollq.roles.client.answers import decode_known
from rollq.roles.client.asking import GroupCalls
from rollq.roles.client.specs import as_id
from rollq.roles.client.subscriptions import Publication, Subscription


class SubjectCalls(GroupCalls):
    """Publishing is live: whoever listens now gets it, at most once, and nothing is kept. Unless a
    topic (`put_topic`) keeps what is published to the subject."""

    async def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        *,
        confirm: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Hand a message to everybody who listens to a subject.

        Args:
            subject: Where, as in `prices.eur`.
            payload: Bytes, or a text, which is sent as UTF-8.
            confirm: Wait until the leader has handed it on. Otherwise it is sent and not looked
                after: what is refused, or lost with its leader, is lost without a word.
            timeout: How many seconds to wait for a leader, and for its answer.

        Returns:
            With `confirm`, how many subscriptions it went to, or its index if a topic keeps it;
            else 0.

        Raises:
            LocalError: BAD_SUBJECT, or BAD_PAYLOAD if it is too large.
            StateError: OUTCOME_UNKNOWN, if the leader was lost before its answer. It is not sent
                again.
        """
        return await self._engine.subjects.publish(
            subject, payload, confirm=confirm, timeout_s=timeout
        )

    async def subscribe(
        self,
        pattern: str,
        *,
        queue_group: str = "",
        topic: str = "",
        durable: str = "",
        from_index: int = 0,
        timeout: float | None = None,
    ) -> Subscription:
        """Get what is published to the subjects of a pattern, from now on.

            async with await client.subscribe("prices.*") as prices:
                async for message in prices:
                    print(message.subject, message.payload)

        It goes on at the next leader by itself; what is published in between is missed. One that
        reads a topic misses nothing that the topic keeps:

            async for message in await client.subscribe(">", topic="prices", durable="desk-1"):
                ...  # done with when the next is asked for: `message.index` tells repeats

        Args:
            pattern: A subject; `*` is any one part of it, a closing `>` all that follow.
            queue_group: Of all subscriptions that name the same group, one gets each message.
            topic: Read what this topic keeps of the pattern, in order, and what follows.
            durable: The group remembers under this name which messages are done with: whoever
                subscribes with it goes on behind them. One session has it at a time; the same
                client id takes over from itself.
            from_index: Where to begin in the topic, if the group knows no such durable name: 0:
                with what is new; -1: with all that is kept; else with this index.
            timeout: How many seconds to wait for the answer.

        Raises:
            LocalError: BAD_SUBJECT.
            StateError: ACCESS_DENIED; OVERLOADED, if there are too many subscriptions;
                UNKNOWN_TOPIC; DURABLE_TAKEN, if another client has the durable name.
        """
        return await self._engine.subjects.subscribe(
            pattern, queue_group, timeout, topic=topic, durable=durable, from_index=from_index
        )

    def events(self, job_id: JobId | str) -> AsyncGenerator[JobEvent, None]:
        """What happens to a job from now on, until its end: the turns of its life, and how far it
        is (`JobEvent.progress`), if its program says so. Live: what happens while a leader changes
        is left out, but for the end.

        Raises:
            StateError: UNKNOWN_JOB.
        """
        return self._engine.events(as_id(job_id))

    async def progress(self, job_id: JobId | str) -> JobProgress | None:
        """How far a running job said that it is; None: it said nothing, or not to this leader."""
        event = decode_known(await self._query("progress", as_id(job_id)), JobEvent)
        return None if event is None else event.progress

    async def request(
        self, subject: str, payload: bytes | str = b"", *, timeout: float | None = None
    ) -> Publication:
        """Ask whoever listens to a subject, and wait for the first answer (`Publication.respond`).

        Raises:
            StateError: NO_RESPONDERS, at once, if no subscription matches; OUTCOME_UNKNOWN, if the
                leader was lost before the answer came.
            DeadlineError: no answer came in time.
        """
        return await self._engine.subjects.request(subject, payload, timeout)
