"""Limits of the web process. Those that the whole grid shares are in `rollq.base.limits`."""

from __future__ import annotations

from typing import Final

# Requests.
HEAD_BYTES_MAX: Final = 32 * 1024  # request line and headers
HEAD_S: Final = 10.0  # timeout for them, against slow clients that hold connections
BODY_BYTES_MAX: Final = 1024 * 1024  # of JSON; files are parts of a form
BODY_IDLE_S: Final = 30.0  # timeout between two pieces of a body
CALL_S: Final = 10.0  # timeout of queries to the group
KEEP_ALIVE_S: Final = 30
CONNECTIONS_MAX: Final = 2_000
IDS_MAX: Final = 10_000  # per request

# Forms with files, which are stored in a temporary directory until they are uploaded.
FORM_BYTES_MAX: Final = 4 * 1024**3
FORM_FILES_MAX: Final = 1_000
FORM_JOB_BYTES_MAX: Final = 1024 * 1024  # the part `job`

# Lists.
PAGE_ROWS: Final = 50
PAGE_ROWS_MAX: Final = 500
FAILURES_LOOKED_AT_MAX: Final = 10_000  # jobs examined for grouping
GROUP_IDS_MAX: Final = 100  # ids listed per group
WALK_ROWS_MAX: Final = 1_000_000  # jobs examined by a change with a filter

# Connections and logins. Each account has a client and an observer: two connections to members.
LINKS_MAX: Final = 64
LINK_S: Final = 300.0  # after which a token is verified again, because it may have been revoked
PROVED_S: Final = 1.0  # how long the result of a login check is cached
SESSIONS_MAX: Final = 1_000
SESSION_IDLE_S: Final = 8 * 3_600.0
LOGINS_FAILED_MAX: Final = 10  # per address within LOGINS_S
LOGINS_S: Final = 60.0
LOGIN_ADDRESSES_MAX: Final = 10_000  # addresses whose failures are remembered

# Live streams.
STREAMS_MAX: Final = 500  # in total
STREAMS_ACCOUNT_MAX: Final = 100  # per account
POLL_S: Final = 1.0
POINTS_MAX: Final = 120  # points of a chart: two minutes
WATCHED_JOBS_MAX: Final = 50  # jobs per account whose changes are sent
SLOW_READER_S: Final = 20.0  # after which a stream that is not read is closed
ALIVE_S: Final = 15.0  # interval of keep-alive comments on an idle stream

LEADER_S: Final = 2.0  # poll interval and timeout for what only the leader knows
UNSERVED_MAX: Final = 20  # queues listed as unserved
VIEWER_EVENTS_MAX: Final = 32  # events buffered per page

# A search of the history: bytes examined per response, and per read.
FACTS_BYTES_MAX: Final = 4 * 1024 * 1024
FACTS_PAGE_BYTES: Final = 256 * 1024
FACTS_ENTRIES_MIN: Final = 8
TIMELINE_PARTS_MAX: Final = 10  # pages of events of one job

STOP_S: Final = 5.0  # for running responses at shutdown

# The process as a child of a member.
CHILD_AGAIN_S: Final = 0.5  # restart delay; it doubles each time
CHILD_AGAIN_MAX_S: Final = 30.0
CHILD_STABLE_S: Final = 60.0  # a child that ran this long resets the delay
CHILD_STOP_S: Final = 8.0
