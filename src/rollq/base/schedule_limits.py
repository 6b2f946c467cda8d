"""Every bound of schedules, unit last, each with its reason."""

from __future__ import annotations

from typing import Final

# All of them are in the head of every snapshot, each with its request.
SCHEDULES_MAX: Final = 10_000
SCHEDULE_BODY_BYTES_MAX: Final = 16 * 1024
SCHEDULE_NAME_BYTES_MAX: Final = 64  # with an instant it is the key of a job
CRON_BYTES_MAX: Final = 256
ZONE_BYTES_MAX: Final = 64
# Every firing is an entry and a job: more often than this is a loop of the program's own.
EVERY_MS_MIN: Final = 1_000
JITTER_MS_MAX: Final = 24 * 3_600_000
# An instant that is later than this was missed, and the catch-up rule counts for it. A change of
# leader takes less: it costs no firing of any schedule.
MISSED_AFTER_MS: Final = 10_000
# Instants that one look at a schedule passes over; the next look goes on from there.
MISSED_STEPS_MAX: Final = 1_000
# A firing whose entry was lost with its leader, or for which no next instant could be found, is
# looked at again.
FIRE_AGAIN_MS: Final = 1_000
FIRINGS_PER_TURN_MAX: Final = 1_024
# Instants that one turn looks at, of all schedules: about 10 us each, and an election begins after
# some hundred ms. After an outage every schedule has missed many.
INSTANTS_PER_TURN_MAX: Final = 4_096
