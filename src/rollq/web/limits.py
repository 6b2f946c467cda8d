"""Bounds of the web process, and why they are where they are. Those that the group shares are in
`rollq.base.limits`."""

from __future__ import annotations

from typing import Final

# One request.
HEAD_BYTES_MAX: Final = 32 * 1024  # of its first line and headers
HEAD_S: Final = 10.0  # within which they come: whoever sends slower holds a connection for nothing
BODY_BYTES_MAX: Final = 1024 * 1024  # of JSON; files come as parts of a form
BODY_IDLE_S: Final = 30.0  # between two pieces of a body
CALL_S: Final = 10.0  # how long the group has for an answer
KEEP_ALIVE_S: Final = 30
CONNECTIONS_MAX: Final = 2_000
IDS_MAX: Final = 10_000  # in one request

# Forms with files. They lie in a temporary directory until the group has them.
FORM_BYTES_MAX: Final = 4 * 1024**3
FORM_FILES_MAX: Final = 1_000
FORM_JOB_BYTES_MAX: Final = 1024 * 1024  # of the part `job`

# Lists.
PAGE_ROWS: Final = 50
PAGE_ROWS_MAX: Final = 500
FAILURES_LOOKED_AT_MAX: Final = 10_000  # jobs that are grouped by their ends
GROUP_IDS_MAX: Final = 100  # that are named of one group
WALK_ROWS_MAX: Final = 1_000_000  # that a change by filter looks at

# Links and logins. An account has a client and an observer: two connections to members.
LINKS_MAX: Final = 64
LINK_S: Final = 300.0  # after which a token is proved anew: it may count no more
PROVED_S: Final = 1.0  # for which it is believed that whoever brings no token is let in
SESSIONS_MAX: Final = 1_000
SESSION_IDLE_S: Final = 8 * 3_600.0
LOGINS_FAILED_MAX: Final = 10  # of one address within LOGINS_S
LOGINS_S: Final = 60.0
LOGIN_ADDRESSES_MAX: Final = 10_000  # that are remembered

# Live streams.
STREAMS_MAX: Final = 500  # open at once
STREAMS_ACCOUNT_MAX: Final = 100  # of one account
POLL_S: Final = 1.0
POINTS_MAX: Final = 120  # of the curves: two minutes
WATCHED_JOBS_MAX: Final = 50  # of one account, whose changes are told
SLOW_READER_S: Final = 20.0  # for which a stream takes nothing before it is dropped
ALIVE_S: Final = 15.0  # silence after which a stream says that it is alive

LEADER_S: Final = 2.0  # between two looks at what the leader alone knows, and for its answer
UNSERVED_MAX: Final = 20  # queues that are named
VIEWER_EVENTS_MAX: Final = 32  # that wait for one reader

# A search of the history for one answer: how much of it is looked at, in pieces of about this size.
FACTS_BYTES_MAX: Final = 4 * 1024 * 1024
FACTS_PAGE_BYTES: Final = 256 * 1024
FACTS_ENTRIES_MIN: Final = 8
TIMELINE_PARTS_MAX: Final = 10  # that a member gives of what happened to a job

STOP_S: Final = 5.0  # for answers that are under way when the process ends

# The process as a child of a member.
CHILD_AGAIN_S: Final = 0.5  # before it is started again; twice as long each time
CHILD_AGAIN_MAX_S: Final = 30.0
CHILD_STABLE_S: Final = 60.0  # one that ran for so long had no trouble with starting
CHILD_STOP_S: Final = 8.0
