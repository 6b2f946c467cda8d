"""The numbers of message types. Only numbers: what each message says is in its own struct."""

from __future__ import annotations

import enum


class MessageType(enum.IntEnum):
    """The type byte of a frame. 1 to 27 are the legacy protocol's; a number is never reused."""

    SUBMIT_JOB = 1
    ASSIGN_JOB = 2
    ACK_JOB = 3
    CREDIT = 4
    RESULT = 5
    CACHE_PUT = 6
    CACHE_ACK = 7
    HELLO_CLIENT = 9
    HELLO_WORKER = 10
    NOT_LEADER = 20
    LEADER_HELLO = 21
    APPEND_ENTRIES = 22
    APPEND_RESPONSE = 23
    REQUEST_VOTE = 24
    VOTE_RESPONSE = 25
    INSTALL_SNAPSHOT = 26
    INSTALL_SNAPSHOT_RESPONSE = 27
    # ours, sessions
    WELCOME = 30
    ACCEPTED = 31
    ERROR = 32
    SUBMIT_BULK = 33
    SUBMIT_ARRAY = 34
    CANCEL = 35
    CONFIRM = 36
    QUERY = 37
    ANSWER = 38
    ADMIN = 39
    NACK = 40
    ACK_TAKEN = 41
    HEARTBEAT = 42
    STOP_JOB = 43
    GOODBYE = 44
    BATCH = 45
    PING = 46
    PONG = 47
    ANNOUNCE = 48
    # ours, between members
    RAFT_HEARTBEAT = 60
    RAFT_HEARTBEAT_RESPONSE = 61
    TIMEOUT_NOW = 62
    READ_INDEX = 63
    READ_INDEX_RESPONSE = 64
    ROLL_ANSWER = 65
    HISTORY_FETCH = 66
    HISTORY_ROWS = 67
    MEMBER_REPORT = 68
    # ours, on links for blobs
    HELLO_BLOBS = 70
    BLOB_ASK = 71
    BLOB_HAVE = 72
    BLOB_PUT = 73
    BLOB_GO = 74
    BLOB_CHUNK = 75
    BLOB_STORED = 76
    BLOB_GET = 77
    BLOB_INFO = 78
    BLOB_MORE = 79
    BLOB_DROP = 80
    # ours, sessions again: output while a job runs
    WATCH_OUTPUT = 81
    TELL_OUTPUT = 82
    OUTPUT_CHUNK = 83
    # ours, on links of readers: 84 to 95
    HELLO_READER = 84
    SPAN_ASK = 85
    SPAN_TOLD = 86
    PIECES_ASK = 87
    PIECE_CHUNK = 88
    TABLE_ASK = 92
    TABLE_TOLD = 93
    PART_ASK = 94
    RESULTS_ASK = 95
    # ours, sessions again: staged batches
    STAGE_JOBS = 96
    COMMIT_BATCH = 97
    DROP_BATCH = 98
