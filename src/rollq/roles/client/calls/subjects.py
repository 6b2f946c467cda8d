"""Publish, subscribe and request, and events of jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from rollq.base.ids import JobId
from rollq.base.job_events import JobEvent, JobProgress
from rollq.roles.client.calls.facades import GroupCalls
from rollq.roles.client.jobs.specs import as_id
from rollq.roles.client.topics.job_events import last_progress
from rollq.roles.client.topics.subscriptions import Publication, Subscription


class SubjectCalls(GroupCalls):
    """Publishing is live: current subscribers get a message at most once, and it is not stored,
    unless a topic (`put_topic`) stores the messages of its subjects."""

    async def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        *,
        confirm: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Publish a message to the subscribers of a subject.

        Args:
            subject: The subject, such as `prices.eur`.
            payload: Bytes, or text, which is encoded as UTF-8.
            confirm: Whether to wait for the leader's response. Otherwise errors are not reported,
                and a message is lost if the leader fails.
            timeout: How many seconds to wait for a leader, and for its response.

        Returns:
            With `confirm`, the number of subscriptions it was sent to, or its index if a topic
            stores it; else 0.

        Raises:
            LocalError: BAD_SUBJECT, or BAD_PAYLOAD if it is too large.
            StateError: OUTCOME_UNKNOWN, if the leader was lost before its response. It is not sent
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
        """Subscribe to the subjects of a pattern, from now on.

            async with await client.subscribe("prices.*") as prices:
                async for message in prices:
                    print(message.subject, message.payload)

        After a fail-over it continues at the next leader; messages in between are missed. A
        subscription to a topic misses nothing that the topic keeps:

            async for message in await client.subscribe(">", topic="prices", durable="desk-1"):
                ...  # acknowledged when the next one is read; `message.index` identifies repeats

        Args:
            pattern: A subject; `*` matches one part, `>` at the end all that follow.
            queue_group: Each message goes to one of the subscriptions with the same group.
            topic: Read the messages that this topic stores, in order, and then new ones.
            durable: A name under which the group stores the read position; a subscription with
                the same name continues there. One session at a time may use it; a new session
                of the same client id takes it over.
            from_index: Where to begin in the topic without a stored position: 0: new messages;
                -1: all stored ones; else this index.
            timeout: How many seconds to wait for the response.

        Raises:
            LocalError: BAD_SUBJECT.
            StateError: ACCESS_DENIED; OVERLOADED, if there are too many subscriptions;
                UNKNOWN_TOPIC; DURABLE_TAKEN, if another client uses the durable name.
        """
        return await self._engine.subjects.subscribe(
            pattern, queue_group, timeout, topic=topic, durable=durable, from_index=from_index
        )

    def events(self, job_id: JobId | str) -> AsyncGenerator[JobEvent, None]:
        """Iterate over the events of a job from now until its end: state changes, and progress
        (`JobEvent.progress`) if the program reports it, first the last one that is known. Events
        during a leader change are lost, except the end.

        Raises:
            StateError: UNKNOWN_JOB.
        """
        return self._engine.events(as_id(job_id))

    async def progress(self, job_id: JobId | str) -> JobProgress | None:
        """Return the last progress that a running job reported to this leader; None if there is
        none."""
        event = await last_progress(self._engine, as_id(job_id))
        return None if event is None else event.progress

    async def request(
        self, subject: str, payload: bytes | str = b"", *, timeout: float | None = None
    ) -> Publication:
        """Publish a request and return the first response (`Publication.respond`).

        Raises:
            StateError: NO_RESPONDERS, at once, if no subscription matches; OUTCOME_UNKNOWN, if the
                leader was lost before the response.
            DeadlineError: there was no response in time.
        """
        return await self._engine.subjects.request(subject, payload, timeout)
