"""Schedule requests of clients: create, resume, run now. Calendar and time are read here, and
become instants in commands."""

from __future__ import annotations

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.schedules import is_schedule_name, owner_of
from rollq.base.stamp import Calendar
from rollq.grid.schedule_commands import PutSchedule, ResumeSchedule, RunSchedule, ScheduleSpec
from rollq.grid.schedules import unknown_schedule
from rollq.roles.member.group_clock import GroupClock
from rollq.roles.member.leader.addressing import Addressing, exec_name
from rollq.roles.member.leader.schedule_arguments import PutScheduleArguments, ScheduleArguments
from rollq.roles.member.leader.sessions import ClientSession
from rollq.roles.member.replica import Replica
from rollq.wire.messages import Admin


class ScheduleRequests:
    """Makes the commands of schedule requests on one leader."""

    def __init__(
        self, replica: Replica, addressing: Addressing, calendar: Calendar, time: GroupClock
    ) -> None:
        self._replica = replica
        self._addressing = addressing
        self._calendar = calendar
        self._time = time

    def command(
        self,
        session: ClientSession,
        message: Admin,
        wanted: PutScheduleArguments | ScheduleArguments,
    ) -> PutSchedule | ResumeSchedule | RunSchedule:
        """The command for a request; a job that is run now gets the request id as its job id.

        Raises:
            RemoteError: BAD_OPTIONS for an invalid name, cron line or zone.
            StateError: UNKNOWN_SCHEDULE.
        """
        if isinstance(wanted, PutScheduleArguments):
            return self._put(session, wanted)
        if message.action == "run_schedule":
            return RunSchedule(wanted.name, message.request_id, session.by)
        return self._resume(session, wanted)

    def _put(self, session: ClientSession, wanted: PutScheduleArguments) -> PutSchedule:
        """Create or change a schedule. Its jobs belong to the account that created it."""
        if not is_schedule_name(wanted.name):
            raise RemoteError(
                ErrorCode.BAD_OPTIONS,
                f"{wanted.name[:64]!r} cannot be the name of a schedule",
                "use a-z, A-Z and 0-9, with _ . / - in between",
            )
        if bool(wanted.cron) is bool(wanted.every_ms):
            raise RemoteError(
                ErrorCode.BAD_OPTIONS,
                "a schedule has either a cron line or an interval",
                "give one of them",
            )
        if 0 < wanted.every_ms < wanted.jitter_ms:  # firings would bunch, and overlap
            raise RemoteError(
                ErrorCode.BAD_OPTIONS,
                f"a jitter of {wanted.jitter_ms // 1_000} s is longer than the interval of "
                f"{wanted.every_ms // 1_000} s",
                "use a jitter up to the interval",
            )
        queue, options = self._addressing.resolve(wanted.queue, wanted.options)
        known = self._replica.state.schedules.by_name.get(wanted.name)
        spec = ScheduleSpec(
            wanted.name,
            # An account that changes the schedule of another does not take over its jobs.
            owner_of(session.account, wanted.name) if known is None else known.spec.client_id,
            queue=queue,
            exec_name=exec_name(wanted.exec_name),
            body=wanted.body,
            options=options,
            caches=wanted.caches,
            cron=wanted.cron,
            zone=wanted.zone if wanted.cron else "",
            every_ms=wanted.every_ms,
            jitter_ms=wanted.jitter_ms,
            overlap=wanted.overlap,
            catch_up=wanted.catch_up,
        )
        return PutSchedule(spec, self._first_ms(spec), session.by)

    def _resume(self, session: ClientSession, wanted: ScheduleArguments) -> ResumeSchedule:
        """Resume a schedule with the first instant from now on."""
        record = self._replica.state.schedules.by_name.get(wanted.name)
        if record is None:
            refusal = unknown_schedule(wanted.name)
            raise StateError(refusal.code, refusal.message)
        first_ms = self._first_ms(record.spec)
        return ResumeSchedule(record.name, first_ms, session.by, record.version)

    def _first_ms(self, spec: ScheduleSpec) -> int:
        """The first instant from now on. Intervals count from a whole second."""
        time_ms = self._time.now_ms()
        if spec.every_ms:
            return time_ms - time_ms % 1_000 + spec.every_ms
        return self._calendar.next_ms(spec.cron, spec.zone, time_ms)
