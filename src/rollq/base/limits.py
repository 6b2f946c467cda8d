"""The bounds of rollq, unit last, each with its reason; those of needs are in `need_limits`."""

from __future__ import annotations

from typing import Final

# Wire. The legacy protocol refuses frames over 4 MiB; `len` counts what follows it.
FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
# Of one body or result in a frame; the rest is for what a member adds: subject, options, blobs.
PAYLOAD_BYTES_MAX: Final = FRAME_BYTES_MAX - 64 * 1024
SUBJECT_BYTES_MAX: Final = 1024
SUBJECT_TOKENS_MAX: Final = 32
HEADER_BYTES_MAX: Final = 16 * 1024
# The first frame comes from a stranger. A worker without the feature `holdings` names in it all
# that it holds, up to CREDIT_MAX attempts in JSON; that much is read of known workers alone.
HELLO_BYTES_MAX: Final = 4 * 1024
HELLO_KNOWN_WORKER_BYTES_MAX: Final = 1024 * 1024
# What is said before the hello comes from a stranger too, each frame of it.
LOGIN_BYTES_MAX: Final = HELLO_BYTES_MAX
LOGIN_PROOF_BYTES_MAX: Final = 512  # a token; signatures and digests are shorter
# Attempts in one message between a worker's hello and its Welcome: some 30 KiB.
HOLDINGS_PER_MESSAGE_MAX: Final = 1_024
# A payload may not inflate to more than a frame could have held uncompressed.
INFLATED_BYTES_MAX: Final = FRAME_BYTES_MAX
# So one read of a socket, 256 KiB, inflates to 16 MiB at most. Text gets 3 to 20 times smaller.
INFLATED_RATIO_MAX: Final = 64
# The legacy protocol bounds what one worker may grant, against a peer that grants 2^31.
CREDIT_MAX: Final = 10_000
PATTERNS_PER_WORKER_MAX: Final = 64
# Of a worker's patterns, the first counted twice: with its name and address they fit in its hello.
PATTERNS_BYTES_MAX: Final = 2_560
# What a field of a message may hold (`wire.fields`), where nothing narrower says it.
ADDRESS_BYTES_MAX: Final = 512  # a host has 253
# Of the bodies or results of a run in one message of a member: others are heard in between.
RUN_BYTES_MAX: Final = 256 * 1024
# A message may have this much more than its fields: a newer peer knows fields that we do not.
NEWER_FIELDS_BYTES_MAX: Final = 64 * 1024
FEATURES_MAX: Final = 64
FEATURE_BYTES_MAX: Final = 64
GROUP_BYTES_MAX: Final = 256
ACTION_BYTES_MAX: Final = 64  # the name of a view, an action, a form, an outcome
TABLE_NAME_BYTES_MAX: Final = 64
CLUSTER_ID_BYTES_MAX: Final = 64
CALL_NONCE_BYTES_MAX: Final = 32
KEY_ID_BYTES_MAX: Final = 16
KEY_BYTES_MAX: Final = 64  # a cluster key, or one member's share of it
MEMBERS_TOLD_MAX: Final = 256  # members, or addresses of members, in one message
IDS_PER_MESSAGE_MAX: Final = 65_536
QUERY_KEY_BYTES_MAX: Final = 1_024
QUERY_ROWS_MAX: Final = 1_000
# What a worker measured of an attempt. A thousand of the largest still add up to 63 bits.
RUN_MS_MAX: Final = 100 * 366 * 24 * 3_600_000
USED_BYTES_MAX: Final = 2**50

# Grid. Larger payloads are blobs; the log carries only their digests.
INLINE_BYTES_MAX: Final = 64 * 1024
QUEUE_NAME_BYTES_MAX: Final = 256
CLIENT_ID_BYTES_MAX: Final = 256
EXEC_NAME_BYTES_MAX: Final = 256
# Programs and functions that a worker names; one with more may be given any job.
PROGRAMS_MAX: Final = 1_024
PRIORITY_MAX: Final = 9  # 0 (default) to 9 (first)
ATTEMPTS_MAX: Final = 100
ARRAY_TASKS_MAX: Final = 10_000_000
BULK_JOBS_MAX: Final = 1_000_000
RUN_JOBS_MAX: Final = 1_024  # one turn of a loop; what a job of it costs does not fall any further
RETRY_EXIT_CODES_MAX: Final = 64
DETAIL_BYTES_MAX: Final = 2_048  # per attempt outcome kept with a dead job
JOBS_MAX: Final = 20_000_000
# References to content, in the log and in memory: some 40 bytes each, so about one inline body.
BLOBS_PER_JOB_MAX: Final = 1_024
BLOB_BYTES_MAX: Final = 1024**4
CACHES_PER_JOB_MAX: Final = 16
CACHE_ID_BYTES_MAX: Final = 256
CACHE_ENTRIES_MAX: Final = 4_096  # with short names they fit ENTRY_BYTES_MAX
CACHE_TARGETS_MAX: Final = 64

# Member. One raft entry holds everything that arrived in one turn of the loop, up to this.
ENTRY_BYTES_MAX: Final = 1024 * 1024
# Of a turn: it answers when it is over, and peers that wait for the answers do nothing meanwhile.
# Large turns would have members, workers and clients take turns instead of working at once.
TURN_COMMANDS_MAX: Final = 256
TURN_JOBS_MAX: Final = 1_024  # that are assigned in one
# Of what clients ask for, by weight, in bytes of small jobs; a job without a body weighs this much.
# Sessions save up at this pace for what they ask for.
JOB_WEIGHT: Final = 256
TURN_WEIGHT_MAX: Final = 32 * 1024  # 300 jobs of runs, 120 others or 7 of the largest
SESSION_QUANTUM: Final = 8 * 1024
# What weighs so much comes behind all else in a turn, and not before what was heavy before it is
# applied; so much of it at once, unless it is one command. Others wait for no more than that.
HEAVY_WEIGHT_MIN: Final = 24 * 1024
HEAVY_TURN_MAX: Final = 80 * 1024
# A session of which more waits is not read for now; the others are.
SESSION_REQUESTS_PAUSE: Final = 512
SESSION_WEIGHT_PAUSE: Final = 256 * 1024
OWED_RESULTS_PER_TURN_MAX: Final = 256
# Of all clients together; and a client that has this much to read is sent no page for now.
OWED_BYTES_PER_TURN_MAX: Final = 8 * 1024 * 1024
OWED_AHEAD_BYTES_MAX: Final = 1024 * 1024

# Bodies and results over INLINE_BYTES_MAX, which the leader keeps as blobs: so many are written at
# once, and read at once, one of a session. What fails for now is tried again after this long.
KEEPS_MAX: Final = 16
READS_WHOLE_MAX: Final = 16
KEEP_AGAIN_MS: Final = 500
KEEP_TRIES_MAX: Final = 60
# What the outputs of one job may take before they are packed for a peer that knows no blobs.
WHOLE_RAW_BYTES_MAX: Final = 64 * 1024 * 1024

SPELLINGS_MAX: Final = 4_096  # names of queues whose upper and lower case a leader remembers

# Raft.
APPEND_BYTES_MAX: Final = 1024 * 1024
# A term grows by one an election. A message that is this far ahead is not believed: at four
# elections a second without a break it would take three days to get there.
TERM_LEAP_MAX: Final = 2**20
TERM_MAX: Final = 2**62  # beyond it there is no room to count on
INFLIGHT_APPENDS_MAX: Final = 64
INFLIGHT_BYTES_MAX: Final = 16 * 1024 * 1024
UNCOMMITTED_BYTES_MAX: Final = 64 * 1024 * 1024
SNAPSHOT_CHUNK_BYTES_MAX: Final = 1024 * 1024
# Committed entries in one Ready: who catches up does so in bites, and can vote between two of them.
APPLY_BYTES_MAX: Final = 64 * 1024
APPLY_ENTRIES_MAX: Final = 16  # a few bytes may stand for a thousand jobs to be unpacked
# Reads waiting for a round of heartbeats; one more is told to ask again.
READS_PENDING_MAX: Final = 65_536

# Store.
RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
SEGMENT_BYTES: Final = 16 * 1024 * 1024
SNAPSHOTS_KEPT: Final = 2
SNAPSHOT_META_BYTES_MAX: Final = 1024 * 1024
SPARE_SEGMENTS_MAX: Final = 2  # recycled log files that wait for the next rotation
PEER_NOTES_MAX: Final = 64  # boots of peers that a disk remembers; a group has at most a few
BROKEN_COPIES_MAX: Final = 16  # damaged files kept for people to look at, per kind
# Of a large file that is written beside the log: a sync of the log waits for no more than this.
SYNC_BYTES: Final = 2 * 1024 * 1024
# Of one that goes to the disk as it comes: so much at a time, and the disk is not further behind.
WRITEBACK_BYTES: Final = 256 * 1024
WRITEBACK_BEHIND_BYTES: Final = 8 * 1024 * 1024
# A write with a sync is done by the loop itself, without a thread, if it is no larger than this and
# if the last few took no longer than that: the loop stands still for as long as it takes.
QUICK_WRITE_BYTES_MAX: Final = 128 * 1024
QUICK_SYNC_MS_MAX: Final = 1
SYNCS_AVERAGED: Final = 8
OPEN_FILES_MAX: Final = 64  # kept open; those with writes that are not synced come on top
# A snapshot is worth it after this much log and history; sooner when there is nothing else to do.
# Some 120,000 short jobs: one of 100,000 results that are kept takes 0.4 s of a processor. After a
# kill as much is applied again.
SNAPSHOT_LOG_BYTES_MIN: Final = 128 * 1024 * 1024
SMALL_SNAPSHOT_BYTES: Final = 4 * 1024 * 1024  # one of so many costs next to nothing
IDLE_SNAPSHOT_LOG_BYTES_MIN: Final = 1024 * 1024
SEALED_PACKED_BYTES_MAX: Final = 4 * 1024 * 1024  # of one history segment; up to 20 times as JSON
LOG_TAIL_BYTES: Final = 8 * 1024 * 1024  # of applied entries in memory, for peers that lag a little
# Bodies of waiting jobs: in memory up to here, then in scratch files of this size.
# A body of this size and more stays where the log has it, and snapshots refer to it there.
LARGE_BODY_BYTES_MIN: Final = 4 * 1024
# A segment that is kept for its bodies alone gives up the last of them when so little of it is
# needed; so much is copied at once.
SPARSE_SHARE: Final = 16
SPARSE_MOVED_BYTES_MAX: Final = 2 * 1024 * 1024
HOT_BODIES_BYTES_MAX: Final = 16 * 1024 * 1024
SPILL_FILE_BYTES: Final = 64 * 1024 * 1024
SPILL_BLOCKS_MAX: Final = 64  # of 64 KiB, cached of what is read back
# Blobs are read and hashed in pieces of this size.
BLOB_PIECE_BYTES: Final = 1024 * 1024
BLOB_ROOM_BYTES: Final = 64 * 1024 * 1024  # blobs leave so much of a disk free, for the log
BLOB_UPLOAD_BYTES: Final = 8 * 1024 * 1024  # one part of an upload to S3, held in memory
BLOB_UPLOAD_PARTS_MAX: Final = 9_000  # S3 takes 10,000; larger blobs go in larger parts

# Worker.
DEDUP_RECORDS_MAX: Final = 4_096

# Grid tables. A full table refuses what is new; it never drops what was accepted.
QUEUES_MAX: Final = 100_000
CLIENTS_MAX: Final = 1_000_000  # idle ones give way, oldest first, before a client is refused
WORKERS_MAX: Final = 100_000
ARRAYS_MAX: Final = 100_000
CACHES_MAX: Final = 10_000
HINTS_MAX: Final = 10_000
# Access. A decision scans the rules of an account and its roles; one of each fits an entry.
ACCOUNTS_MAX: Final = 10_000
ROLES_MAX: Final = 1_000
ACCOUNT_NAME_BYTES_MAX: Final = 64
ACCOUNT_ROLES_MAX: Final = 16
ACCESS_RULES_MAX: Final = 64  # of an account or a role
ACCESS_RESOURCE_BYTES_MAX: Final = 512  # of a rule: a kind, and a pattern of names
TOKENS_PER_ACCOUNT_MAX: Final = 16
TOKEN_ID_BYTES_MAX: Final = 64
KEYS_PER_ACCOUNT_MAX: Final = 16
PUBLIC_KEY_BYTES: Final = 32  # Ed25519
ACCESS_PAGE_ROWS_MAX: Final = 64  # accounts or roles in one answer: the largest still fit
# Refusals of a leader go to the history joined: so many different ones at once, and this often.
REFUSALS_PER_NOTE_MAX: Final = 64
REFUSALS_NOTE_MS: Final = 5_000
# Decisions of a door: accounts, times the queues, programs and clients that they work with.
DECISIONS_KEPT_MAX: Final = 65_536
# Blobs that accounts have given to a leader and no job names yet; older ones are asked for again.
GIVEN_BLOBS_MAX: Final = 100_000
BLOB_WRITERS_MAX: Final = 4_096  # of uploads that broke off, who began them
CACHE_PUTS_MAX: Final = 1_024  # relayed by one leader and not answered by all workers yet
# How a cache is spread: up to this size all workers fetch it from a member, at once.
CACHE_DIRECT_BYTES: Final = 4 * 1024 * 1024
CACHE_TAKERS_PER_SOURCE: Final = 2
CACHE_LOOKS_MAX: Final = 16  # workers that hold it, looked at for one job
CACHE_SOURCES_MAX: Final = 3  # workers that one is pointed to
CACHE_PUTS_AHEAD: Final = 8  # caches that one worker is told of and has not answered
CACHE_AGAIN_MS: Final = 2_000  # a worker that could not is told again, later and later
CACHE_AGAIN_MS_MAX: Final = 300_000
CACHE_SILENT_MS_MAX: Final = 60_000  # a worker that fetches says so more often
CACHE_SWEEP_MS: Final = 1_000
CACHE_ACK_MS_MAX: Final = 600_000  # the longest wait for a worker's answer to a relayed put
BATCHES_KEPT_MAX: Final = 100_000  # bulk keys remembered; the oldest is forgotten first
BATCH_KEY_BYTES_MAX: Final = 256
WORKER_NAME_BYTES_MAX: Final = 256
PATTERN_BYTES_MAX: Final = SUBJECT_BYTES_MAX
LEASE_MS_MIN: Final = 1_000  # the grid's or a job's own: less, and busy workers would lose it
DURATION_MS_MAX: Final = 366 * 24 * 3_600_000  # no delay, lease or TTL is longer than a year
# Results that were not yet taken by the grid; at this many the worker grants no more credit.
UNTAKEN_RESULTS_MAX: Final = 1_024

# Client. Requests that wait for an answer, and results remembered as handed over.
CLIENT_PENDING_MAX: Final = 65_536
CLIENT_ASKED_MAX: Final = 65_536  # jobs whose results go to the session that asked and no other
CLIENT_DELIVERED_MAX: Final = 65_536
# Results that came and that no caller took: told again beyond this, if they come again.
CLIENT_UNTAKEN_MAX: Final = 65_536
# Requests on the way, in bytes: all of them are sent again to a new leader, so well under
# LINK_OUTBOX_BYTES_MAX. More waits in the client.
CLIENT_PENDING_BYTES_MAX: Final = 16 * 1024 * 1024
CLIENT_READERS: Final = 4  # jobs whose files are read at once
CLIENT_UPLOADS: Final = 8  # files of a job that are sent at once
CLIENT_DIGESTS_MAX: Final = 65_536  # of files that were read, or are known to be in the grid
CLIENT_UPLOAD_TRIES: Final = 6  # for a job whose blobs a leader says it lacks
CLIENT_FETCH_TRIES: Final = 6  # for a blob that a leader does not have yet
CLIENT_AGAIN_MS: Final = 200  # before such a try, and longer before each further one
SILENCE_BYTES_PER_MS: Final = 8 * 1024  # what a leader is asked at once gives it more time
CONFIRM_JOBS_MAX: Final = 8_192  # in one message
# Jobs of one `submit_many` on the way: enough that no leader waits for the next.
BULK_AHEAD_JOBS: Final = 16_384
BULK_AHEAD_BYTES: Final = 8 * 1024 * 1024
# Results that no call in this process has asked for (yet), in bytes; the oldest give way.
UNCLAIMED_BYTES_MAX: Final = 16 * 1024 * 1024
UNCLAIMED_RESULT_BYTES: Final = 512  # that each takes beside what the program wrote
MAP_WINDOW: Final = 1_024
OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024  # what the outputs of one job may inflate to
# A client of several groups gives jobs of a group that is gone to the others after this long.
MULTI_GRACE_MS: Final = 10_000
# It waits so long after its start for all groups to be up before it gives out the first jobs, and
# gives a group so many that it has not accepted yet: the rest is for groups that come up meanwhile.
MULTI_GATHER_MS: Final = 1_000
MULTI_AHEAD: Final = 1_024
MULTI_COPIES_MAX: Final = 65_536  # copies left behind in a group that is gone, to be cancelled
ARRAY_POLL_MS: Final = 10_000  # tasks whose ids older jobs had send no result: asked this often

# Silence on a session. The clock is looked at this often. A member that owes answers and says
# nothing for the second time is left; the time is doubled if that did not help, up to the third,
# which is well under a lease. A hello is answered within twice what an election takes; that of a
# worker goes through the log, and may be waited for longer on a slow disk.
LOOK_MS: Final = 100
SILENCE_MS_MIN: Final = 500
SILENCE_MS_MAX: Final = 4_000
SILENCE_FORGIVEN_MS: Final = 30_000  # after so long a good session it is as if nothing had been
GREETING_MS_MAX: Final = 1_000
# A member that says nothing for so long is pinged, and left after the same time again. Of many
# sessions each pings less often, so that all together are no load.
PING_MS: Final = 400
PINGS_PER_S_MAX: Final = 1_250
# A leader closes sessions that ping and were not heard at so many looks, one each PING_MS.
SESSION_QUIET_LOOKS_MAX: Final = 10

# Workers and clients look for the leader at this pace, ± 20 %: a wait must not outlive the fault.
# A client of several groups knows others meanwhile: it waits like a legacy client, up to the third.
REDIAL_MIN_MS: Final = 500
REDIAL_MAX_MS: Final = 1_000
REDIAL_GROUP_MAX_MS: Final = 30_000
REDIAL_REFUSED_MS: Final = 5_000  # where we are not let in: somebody has to change something
PROBE_MS: Final = 1_000  # and looks this often whether the group takes connections again
# A leader that was lost is looked for quickly at first: after 20, 40, 60… ms, so many times.
REDIAL_QUICK_MS: Final = 20
REDIAL_QUICK_TRIES: Final = 12
REDIAL_ADDRESSES_MAX: Final = 64

# Member, continued. Commands and hellos that wait for a turn or for a new leader to be ready.
PENDING_COMMANDS_MAX: Final = 65_536
HELD_MESSAGES_MAX: Final = 65_536
HELD_BYTES_MAX: Final = 64 * 1024 * 1024  # and in bytes; more is sent away to ask again
# And in time, while a member starts or its group comes together: peers of our own ask elsewhere
# before that, others would wait for ever.
EARLY_MS_MAX: Final = 5_000
# Of sealed history, unless a member is told otherwise: some fifty million jobs.
HISTORY_MB_MAX: Final = 10_000
HISTORY_DAYS_MAX: Final = 90
HISTORY_REPLY_BYTES_MAX: Final = 512 * 1024
ANSWER_BYTES_MAX: Final = 3 * 1024 * 1024  # a view must fit a frame with room to spare

# Net. A hello comes at once or never; a reader that leaves this much waiting is cut off.
HELLO_MS_MAX: Final = 5_000
RESOLVE_MS_MAX: Final = 3_000  # for the address of a host name
LOGIN_MS_MAX: Final = 2_000  # for the answer to a login, which waits while a member starts
DIAL_MS_MAX: Final = 1_000  # for the connection: the next member waits meanwhile
LINK_OUTBOX_BYTES_MAX: Final = 64 * 1024 * 1024
LINKS_MAX: Final = 20_000
# Of one address, without a hello yet. All workers of a large machine come at once after a failover;
# a stranger has a tenth of the links, for HELLO_MS_MAX.
HALF_OPEN_MAX: Final = 2_000
TLS_MS_MAX: Final = HELLO_MS_MAX  # for a handshake: those who dial at once wait for each other
TLS_PLAIN_MS: Final = 30_000  # a peer that spoke no TLS is dialed without it so long, if it may be
TLS_PLAIN_MAX: Final = 1_024  # addresses of such peers
CREDENTIALS_LOOK_MS: Final = 1_000  # between two looks whether files of keys have changed
# Partly received frames of all connections; over it the connection with the oldest is aborted.
PARTIAL_FRAMES_BYTES_MAX: Final = 128 * 1024 * 1024
LISTEN_BACKLOG: Final = 1_024
PEER_REDIAL_MS: Final = 100
# A link to a member that owes an answer for so long is closed and dialed anew; twice as long if
# that did not help, so often: its process may be stopped, or its disk slow.
PEER_SILENT_MS: Final = 1_000
PEER_DOUBLINGS_MAX: Final = 3
# Starts of members that are remembered until they answer: more than any group has members.
PEER_CLAIMS_MAX: Final = 64
# TCP_USER_TIMEOUT: a connection whose data is not acknowledged for so long is broken.
PEER_UNACKED_MS_MAX: Final = 2_000
LINK_UNACKED_MS_MAX: Final = 30_000
KEEPALIVE_IDLE_S: Final = 10  # TCP keepalive, for connections on which nothing is sent
KEEPALIVE_TRIES: Final = 3
# Reading from sessions pauses while more commands than this wait for their turn.
PENDING_COMMANDS_PAUSE: Final = 8_192
STOP_MS_MAX: Final = 2_000
# Turns follow each other for so long at most before the member listens again.
TURNS_MS_MAX: Final = 1

# Worker, continued: executions. Two tails in JSON and their frame must fit INLINE_BYTES_MAX.
STREAM_BYTES_MAX: Final = 28 * 1024  # kept of stdout, and of stderr: the end of each
ARCHIVE_RAW_BYTES_MAX: Final = 256 * 1024  # outputs larger than this are not even zipped inline
ARCHIVE_FILES_MAX: Final = 1_000
OUTPUT_PATTERNS_MAX: Final = 64  # of one job, to choose outputs by
STREAM_WHOLE_BYTES_MAX: Final = 1024**3  # kept of stdout, and of stderr, as a blob: the beginning
VALUE_BYTES_MAX: Final = 64 * 1024**3  # of what a function returns: a disk should hold that
JOB_ARGS_MAX: Final = 4_096
JOB_ENV_MAX: Final = 256  # environment variables of one job
JOB_ENV_BYTES_MAX: Final = 16 * 1024  # of their names and values together
SECRETS_PER_JOB_MAX: Final = 16  # references, which are in the log with every job
SECRET_NAME_BYTES_MAX: Final = 128  # of a name in a vault, and of the variable that it is given in
# Copies of programs in the memory of a worker that runs only what is listed.
SEALED_EXECS_MAX: Final = 64
SEALED_EXECS_BYTES_MAX: Final = 1024**3
NOTE_BYTES_MAX: Final = 1_024  # what the worker remarks on a result
SLOTS_MAX: Final = 1_024
CPU_CAP_MIN: Final = 0.10  # of the computer: a worker takes no more while it is busier
CPU_CAP_MAX: Final = 0.95
AHEAD_MAX: Final = 4_096  # jobs fetched beyond the slots; see docs/worker.md
RESULT_TABLE_BYTES: Final = 4 * 1024 * 1024  # zero-filled ahead, twice; more only if it must
APPS_MAX: Final = 64
# How many of its starts a disk remembers, to know itself from an older copy.
LIVES_MAX: Final = 64
# A batch is split when its payload is larger, so that it always fits a frame.
BATCH_BYTES_MAX: Final = 1024 * 1024
# The same in bytes; beyond the second, a request is refused for now.
PENDING_BYTES_PAUSE: Final = 32 * 1024 * 1024
PENDING_BYTES_MAX: Final = 128 * 1024 * 1024
# Descriptors that connections leave for the log, snapshots, peers and whatever else a process has.
DESCRIPTORS_KEPT: Final = 256
# How long a member that stops lets its last words be read.
HANG_UP_MS_MAX: Final = 500

# Files. Names of inputs, outputs and archive entries: what every common file system can hold.
FILE_NAME_BYTES_MAX: Final = 1_024
FILE_NAME_PART_BYTES_MAX: Final = 255
FILE_NAME_PARTS_MAX: Final = 32
# An archive comes in a frame. An honest one inflates by less than the ratio, or to less than the
# slack: a short file of zeros packs a thousandfold.
ARCHIVE_PACKED_BYTES_MAX: Final = FRAME_BYTES_MAX
ARCHIVE_ENTRIES_MAX: Final = 10_000
ARCHIVE_RATIO_MAX: Final = 200
ARCHIVE_SLACK_BYTES: Final = 1024 * 1024
# Folders open at once while a tree is removed; what lies deeper is moved up first.
REMOVAL_DEPTH_MAX: Final = 32

# Blobs. A chunk is what a link is blocked by, and what the loop copies at once.
BLOB_CHUNK_BYTES: Final = 256 * 1024  # what we send
BLOB_CHUNK_BYTES_MAX: Final = 1024 * 1024  # what we take
# What may be on its way before the receiver has written it: of one transfer, and of one link.
BLOB_WINDOW_BYTES: Final = 4 * 1024 * 1024
BLOB_CHUNKS_HELD_MAX: Final = 1_024  # of one transfer, not written yet: crumbs cost more than bytes
BLOB_TRANSFERS_MAX: Final = 16  # of one link, in each direction; a client lets more wait
BLOB_UPLOADS_MAX: Final = 16  # of one server: each may fill its window; more wait their turn
BLOB_DOWNLOADS_MAX: Final = 64  # the same
BLOB_WRITE_BYTES: Final = 512 * 1024  # written to disk at once
BLOB_ASK_MAX: Final = 4_096  # digests in one message
BLOB_ASKS_MAX: Final = 64  # of one link, not answered yet; beyond it nothing is read
BLOB_GREETING_MS: Final = 2_000  # for the answer to a hello
BLOB_ALIVE_MS: Final = 1_000  # a server that owes an answer says that it is at it
BLOB_SILENT_TICKS_MAX: Final = 4  # one that said nothing for so many of these is gone
BLOB_STALL_TICKS_MAX: Final = 30  # a client that brings or takes nothing for so many of them is too
# An upload gives way to others that wait if for so many of these it brought less than that in each.
BLOB_SLOW_TICKS_MAX: Final = 3
BLOB_SLOW_BYTES: Final = 64 * 1024
BLOB_READ_BYTES: Final = 512 * 1024  # read from disk at once, and what a transfer gets in its turn
BLOB_THREADS: Final = 4  # for disk and digests, of one server or client

# Output while a job runs. What a worker keeps of a stream that is watched (else: STREAM_BYTES_MAX);
# a chunk; how far a stream is sent beyond what the watcher has taken.
OUTPUT_KEPT_BYTES: Final = 256 * 1024
OUTPUT_CHUNK_BYTES_MAX: Final = 64 * 1024
OUTPUT_WINDOW_BYTES: Final = 256 * 1024
# Of one worker, all watches together: so much a second, given out in shares at this pace.
OUTPUT_BYTES_PER_S: Final = 4 * 1024 * 1024
OUTPUT_PACE_MS: Final = 50
OUTPUT_WATCHES_MAX: Final = 1_024  # of one leader
OUTPUT_WATCHES_PER_WORKER_MAX: Final = 64
OUTPUT_WATCHES_PER_JOB_MAX: Final = 16

# Blobs of members. What is asked for or brought stays so long, if nothing refers to it; a leader
# relies on that for half of the time.
BLOB_LEASE_MS: Final = 3_600_000
BLOB_AGE_MS: Final = 7 * 86_400_000  # what nothing refers to stays so long after its last use
BLOB_LEFTOVER_MS: Final = 86_400_000  # what is left of an upload that was cut, or was rotten
BLOB_BOOK_MAX: Final = 32_768  # blobs that a leader knows to be on a majority; more are asked for
BLOB_LOOKS_MAX: Final = 64  # blobs that a leader looks for at once because a command names them
BLOB_BEHIND_MAX: Final = 256  # copies that are owed to one member; what it needs, it fetches later
BLOB_FETCHES_MAX: Final = 4  # blobs that a member fetches at once
BLOB_FETCH_AGAIN_MS: Final = 500  # after a failure; twice as long after the next
BLOB_FETCH_AGAIN_MS_MAX: Final = 30_000
BLOB_PEER_PATIENCE_MS: Final = 3_000  # for a member that does not answer; there are others
BLOB_RELAYS_MAX: Final = 8  # uploads that are passed on as they come; others when they are whole
BLOB_RELAY_SLOW_TICKS_MAX: Final = 2  # so long a member that takes less than a window is waited for
BLOB_EVICT_EVERY_MS: Final = 60_000
BLOB_SCRUB_EVERY_MS: Final = 1_000
BLOB_SCRUB_BYTES: Final = 4 * 1024 * 1024  # read again at each step
BLOB_SCRUB_ROUND_MS: Final = 86_400_000  # a round is not begun more often

# Readers of the history. Each has a connection and a thread of a member; more are sent elsewhere.
READER_LINKS_MAX: Final = 64
READER_SILENT_MS_MAX: Final = 600_000  # one that asks nothing, or does not read what it asked for
READER_WAIT_MS_MAX: Final = 2_000  # a member that has not applied so far waits so long for it
READER_WAIT_STEP_MS: Final = 5
STREAM_UNSENT_BYTES_MAX: Final = 2 * 1024 * 1024  # of a thread: enough that it never waits idly
STREAM_INBOX_MAX: Final = 64  # messages for a thread; its peer waits for answers, so few are ahead
READER_CHUNK_BYTES: Final = 256 * 1024  # in one frame: what is copied at once beside the loop
READER_PIECE_BYTES: Final = 2 * 1024 * 1024  # of lines in a piece, if one index has not more
READER_INDEXES_MAX: Final = 2_048  # taken at once of what is not sealed: the loop waits meanwhile
READER_CUTS_MAX: Final = 65_536  # told at once
READERS_MAX: Final = 64  # that are known by name: each may hold all of the history back
READER_NAME_BYTES_MAX: Final = 256
READER_HOLD_MS_MAX: Final = 7 * 86_400_000  # one that is not heard of holds nothing back any more
# Arrow copies of sealed history, made by a process at the lowest priority.
COLUMNS_BYTES_MIN: Final = 256 * 1024  # of lines: shorter segments have no Arrow copies
COLUMNS_PACKED_BYTES_MIN: Final = 8 * 1024  # the same of packed segments
COLUMNS_PIECE_BYTES: Final = 4 * 1024 * 1024  # of lines in one batch: some 15,000 rows
COPIES_CHECK_MS: Final = 3_000
COPIES_WAIT_MS_MAX: Final = 40_000  # of a member that is never idle: then they are made anyway
COPIES_AGAIN_MS_MAX: Final = 600_000  # after failures
COPIES_SPARED_BYTES: Final = 1024 * 1024 * 1024  # left for the log: no copy is begun with less
MEMBER_FREE_BYTES_MIN: Final = 2 * COPIES_SPARED_BYTES  # less free is an alarm, before copies end;
MEMBER_FREE_PERCENT_MIN: Final = 10  # but not on a small disk that has this share free
READER_GREETING_MS: Final = 2_000  # for the answer to a hello of a reader
READER_ANSWER_MS: Final = 10_000  # for the next word: one that waits or writes says so before
READER_AGAIN_MS: Final = 100  # before members that could not serve are asked again

# The group's time. Below the first its distance from the wall clocks is let be.
LEAP_MS_MIN: Final = 2_000
LEAP_MS_MAX: Final = 100 * 366 * 86_400_000
LEAPS_KEPT_MAX: Final = 64  # those before count as one with the oldest of them
CLOCK_SKEW_MS_MAX: Final = 5_000  # a clock further from the middle of the members' is an alarm
REPORT_TICKS: Final = 20  # of a member that follows, to its leader
REPORT_MS_MAX: Final = 30_000  # an older report says nothing
STATE_HASH_BYTES_MAX: Final = 64
HASH_EVERY: Final = 64  # entries: where all members note the hash of their state
HASHES_KEPT_MAX: Final = 1_024

# Staged batches. They live in memory and in snapshots until they are committed or dropped.
JOB_KEY_BYTES_MAX: Final = 256  # what its owner calls a job
STAGED_BYTES_MAX: Final = 256 * 1024 * 1024
STAGED_JOBS_MAX: Final = 5_000_000
STAGED_BATCHES_MAX: Final = 1_000
STAGED_PARTS_MAX: Final = 10_000  # of one batch
STAGED_MS_MAX: Final = 3_600_000  # a batch without an addition or a commit for so long is dropped
# Of one batch: a commit looks at every id once, all in one entry, at about 0.3 ms a thousand; at 2
# if the job is known already, because then it is compared with what was staged.
BATCH_JOBS_MAX: Final = 1_000_000
# One message of a part, and so one step of unpacking: other clients wait for no more than this.
STAGE_CHUNK_JOBS_MAX: Final = 2_000
STAGE_CHUNK_JOBS: Final = 256
STAGE_CHUNK_BYTES: Final = 128 * 1024
STAGE_CHUNKS_AHEAD: Final = 64  # of one part, not accepted
UNPACKS_AHEAD: Final = 1  # steps that a leader has proposed and not seen applied

# Tables of the state, written down for those who read them. So many are kept at once, each so large
# and in parts of so much; one that is not read goes after a while, or when its room is needed.
EXPORTS_MAX: Final = 64
EXPORTS_BYTES_MAX: Final = 8 * 1024**3  # all together
EXPORT_BYTES_MAX: Final = 4 * 1024**3
EXPORT_SPARED_BYTES: Final = 1024**3  # of the disk: they are left to the log
EXPORT_PART_ROWS: Final = 50_000
EXPORT_PART_BYTES: Final = 32 * 1024 * 1024
EXPORT_IDLE_MS_MAX: Final = 3_600_000
EXPORT_USED_MS: Final = 60_000  # one that was read within this time is not pushed out
EXPORT_ALIVE_MS: Final = 1_000  # how often a reader that waits for one hears that it comes
RESULTS_ASK_MAX: Final = 10_000  # ids in one message
RESULTS_SLICE: Final = 200  # looked up at once: the loop waits meanwhile
