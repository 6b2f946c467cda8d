"""Job requests of clients: submit one, a run, many or an array, cancel, confirm results.

A body that is too large for the log is stored as a blob first (`large`); the request continues with
a reference once a majority of the members holds the blob.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from rollq.base.errors import RollqError
from rollq.base.ids import ClientId
from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid import commands
from rollq.roles.member.leader.addressing import Address, Addressing, exec_name
from rollq.roles.member.leader.large import LargeMessages, is_large
from rollq.roles.member.leader.origins import Origin
from rollq.roles.member.leader.proposals import Proposals
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.runs import RunAnswer, submits_of
from rollq.roles.member.leader.sessions import ClientSession, Sessions
from rollq.roles.member.leader.shell import Shell
from rollq.wire import messages
from rollq.wire.run_messages import SubmitRun

Submit: TypeAlias = messages.SubmitJob | messages.SubmitBulk | messages.SubmitArray | SubmitRun


class JobRequests:
    """Handles job requests on one leader."""

    def __init__(
        self,
        sessions: Sessions,
        proposals: Proposals,
        replies: Replies,
        *,
        addressing: Addressing,
        shell: Shell,
        large: LargeMessages,
    ) -> None:
        self._sessions = sessions
        self._proposals = proposals
        self._replies = replies
        self._settle = replies.settle_request
        self._addressing = addressing
        self._shell = shell
        self._large = large

    def submit(self, session: ClientSession, message: messages.SubmitJob) -> None:
        """Submit one job."""
        # Resolved before it may wait: permissions were checked with the names of this moment.
        number, client_id, to = session.number, session.client_id, self._address(message)
        if is_large(message.body):
            go_on = partial(self._submit, number, client_id, to)
            self._large.job(number, client_id, message, go_on)
        else:
            self._submit(number, client_id, to, message)

    def submit_run(self, session: ClientSession, message: SubmitRun) -> None:
        """Submit jobs that differ only in their columns; one answer for all of them."""
        to = self._address(message)
        self._proposals.check_room()
        answer = RunAnswer(self._replies, self._sessions, session.number, message)
        positions: Sequence[int] = range(len(message.bodies))
        if any(message.blobs):
            positions = [at for at in positions if self._holds_blobs(message, at, answer)]
        for part, command in submits_of(message, session.client_id, to, positions):
            self._proposals.add_request(command, answer.origin(part))

    def _holds_blobs(self, message: SubmitRun, position: int, answer: RunAnswer) -> bool:
        """Whether the group has the input files of a job; if not, the job is refused."""
        try:
            self._shell.check_held(message.blobs[position])
        except RollqError as error:
            answer.refuse(position, error)
            return False
        return True

    def submit_bulk(self, session: ClientSession, message: messages.SubmitBulk) -> None:
        """Submit many jobs of one queue and program."""
        number, client_id, to = session.number, session.client_id, self._address(message)
        if any(map(is_large, (item.body for item in message.items))):
            go_on = partial(self._submit_bulk, number, client_id, to)
            self._large.items(number, client_id, message, go_on)
        else:
            self._submit_bulk(number, client_id, to, message)

    def submit_array(self, session: ClientSession, message: messages.SubmitArray) -> None:
        """Submit an array of tasks that share one body."""
        number, client_id, to = session.number, session.client_id, self._address(message)
        if is_large(message.body):
            go_on = partial(self._submit_array, number, client_id, to)
            self._large.array(number, client_id, message, go_on)
        else:
            self._submit_array(number, client_id, to, message)

    def cancel(self, session: ClientSession, message: messages.Cancel) -> None:
        """Cancel jobs."""
        command = commands.CancelJobs(message.job_ids, session.by)
        self._proposals.add_request(
            command, Origin(self._settle, session.number, message.request_id)
        )

    def confirm(self, session: ClientSession, message: messages.Confirm) -> None:
        """The client has these results: they are no longer owed."""
        for at in range(0, len(message.job_ids), RUN_JOBS_MAX):
            job_ids = b"".join(message.job_ids[at : at + RUN_JOBS_MAX])
            self._proposals.add(commands.ConfirmRun(session.client_id, job_ids))

    def _submit(
        self, number: int, client_id: ClientId, to: Address, message: messages.SubmitJob
    ) -> None:
        self._proposals.check_room()
        if message.blobs:
            self._shell.check_held(message.blobs)
        self._proposals.add_request(
            commands.SubmitRun(
                client_id,
                to.queue,
                to.exec_name,
                message.job_id,
                (message.body,),
                to.options,
                message.caches,
                message.job_key,
                (message.blobs,) if message.blobs else (),
            ),
            Origin(self._settle, number, message.job_id),
        )

    def _address(self, message: Submit) -> Address:
        queue, options = self._addressing.resolve(message.subject, message.options)
        return Address(queue, exec_name(message.exec_name), options)

    def _submit_bulk(
        self, number: int, client_id: ClientId, to: Address, message: messages.SubmitBulk
    ) -> None:
        self._proposals.check_room()
        for item in message.items:
            if item.blobs:
                self._shell.check_held(item.blobs)
        self._proposals.add_request(
            commands.SubmitBulk(
                client_id,
                to.queue,
                to.exec_name,
                message.items,
                to.options,
                message.batch_key,
                message.caches,
            ),
            Origin(self._settle, number, message.request_id),
        )

    def _submit_array(
        self, number: int, client_id: ClientId, to: Address, message: messages.SubmitArray
    ) -> None:
        self._proposals.check_room()
        if message.blobs:
            self._shell.check_held(message.blobs)
        self._proposals.add_request(
            commands.SubmitArray(
                message.array_id,
                client_id,
                to.queue,
                to.exec_name,
                message.body,
                message.task_count,
                to.options,
                message.running_max,
                message.blobs,
                message.caches,
                message.first_task,
            ),
            Origin(self._settle, number, message.array_id),
        )
