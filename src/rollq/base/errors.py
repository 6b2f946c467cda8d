"""The error catalogue: every error has a stable code, a fault and a hint what to do next.

Codes are stable: numbers are never reused and names never change. By `fault` a caller knows whether
a retry can help (`retryable`), and whether the peer violated the protocol (`RemoteError`) or we did
(`LocalError`). Never raise `RollqError` itself.
"""

from __future__ import annotations

import enum


class Fault(enum.StrEnum):
    """Whose fault an error is."""

    PEER = "peer"  # what the other side sent is wrong; sending it again will not help
    LOCAL = "local"  # our own code or configuration is wrong
    STATE = "state"  # the request is well formed but the grid is not in a state to take it
    NOBODY = "nobody"  # a machine, disk or network failed; trying again may help


class ErrorCode(enum.IntEnum):
    """Stable numbers. Add at the end of a block, never renumber."""

    # 1xx: what a peer sent
    BAD_FRAME = 100
    FRAME_TOO_LARGE = 101
    BAD_PAYLOAD = 102
    BAD_ID = 103
    BAD_SUBJECT = 104
    BAD_HANDSHAKE = 105
    UNKNOWN_MESSAGE = 106
    BAD_COMPRESSION = 107
    DECOMPRESSION_BOMB = 108
    BAD_CREDIT = 109
    UNSUPPORTED_VERSION = 110
    BAD_OPTIONS = 111
    LOGIN_REQUIRED = 112  # the link is not authenticated, and this member requires it
    LOGIN_FAILED = 113  # the reason is not disclosed
    TLS_REQUIRED = 114
    # 2xx: the grid's answer to a well-formed request
    NOT_LEADER = 200
    UNKNOWN_JOB = 201
    JOB_CONFLICT = 202
    STALE_ATTEMPT = 203
    WRONG_STATE = 204
    CAP_REACHED = 205
    QUEUE_PAUSED = 206
    GRID_FULL = 207
    BATCH_CONFLICT = 208
    UNKNOWN_WORKER = 209
    ID_CONFLICT = 210
    OVERLOADED = 211
    CANCELLED = 212
    NO_PROGRAM = 213
    JOB_FAILED = 214  # it ended, and not well
    JOB_DEAD = 215  # no attempt gave a result
    ANSWER_TOO_LARGE = 216
    BLOB_MISSING = 217
    BLOB_CORRUPT = 218  # its bytes do not match its digest
    UNKNOWN_CACHE = 219
    CACHE_CONFLICT = 220  # the name is taken by other files
    HISTORY_GONE = 221  # it is beyond the retention of the members
    BATCH_INCOMPLETE = 222  # a part to commit is not complete
    EXPORT_GONE = 223  # exported tables that were removed since
    UNKNOWN_READER = 224  # no reader has this name
    DISMISSED = 225  # to a worker: an operator wants it to end now
    BATCH_FULL = 226  # as many jobs are staged for the batch as one commit may accept
    AMBIGUOUS_ID = 227  # a shortened id that more than one job or array has
    ACCESS_DENIED = 228  # the account has no right to this
    UNKNOWN_ACCOUNT = 229
    UNKNOWN_ROLE = 230
    BAD_ACCESS = 231  # an account, role or rule that is not valid
    NO_SECRET = 232  # the worker's vault has no secret of this name
    NO_RESPONDERS = 233  # a request had no subscriber
    UNKNOWN_TOPIC = 234
    TOPIC_CONFLICT = 235  # its patterns overlap another topic's, or reserved subjects
    DURABLE_TAKEN = 236  # another session uses this durable subscription
    UNKNOWN_SCHEDULE = 237
    UNKNOWN_BATCH = 238
    # 3xx: consensus and membership
    PROPOSAL_DROPPED = 300
    CONFIG_CHANGE_PENDING = 301
    BAD_CONFIG_CHANGE = 302
    NOT_READY = 303
    OUTCOME_UNKNOWN = 304  # it was sent, the response was lost, and a retry might do it twice
    CLOCK_SKEW = 305  # an alarm: the clock of a member is too far from those of the others
    STATE_DIVERGED = 306  # an alarm: a member has another state from the same log
    # 4xx: disk
    DISK_CORRUPT = 400
    DISK_FAILED = 401
    DISK_FULL = 402
    SNAPSHOT_CORRUPT = 403
    WRONG_IDENTITY = 404
    DISK_VERSION = 405
    DISK_BUSY = 406
    BACKUP_CORRUPT = 407
    DISK_LOW = 408  # an alarm: the disk of a member is nearly full
    # 5xx: our own fault, or our operator's
    BUG = 500
    BAD_ADDRESS = 501
    CANNOT_LISTEN = 502
    BAD_SETUP = 503
    BAD_CREDENTIALS = 504  # a file of keys or tokens is missing, damaged or open to others
    BAD_CERTIFICATE = 505
    UNPROTECTED = 506  # others reach a port that asks for neither TLS nor a login
    CERTIFICATE_EXPIRES = 507  # an alarm: a certificate has to be renewed
    NO_SANDBOX = 509  # a layer of the sandbox is not available
    CHECK_FAILED = 510  # tables of the pipeline are inconsistent
    # 6xx: the network
    UNREACHABLE = 600
    DISCONNECTED = 601
    TIMED_OUT = 602


class RollqError(Exception):
    """Base of all errors; carries the code, the fault, and what to do next."""

    fault: Fault = Fault.NOBODY

    def __init__(self, code: ErrorCode, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later or elsewhere."""
        return self.fault in (Fault.NOBODY, Fault.STATE) and self.code in RETRYABLE_CODES

    def __str__(self) -> str:
        text = f"{self.code.name.lower()} ({int(self.code)}): {self.message}"
        return f"{text}; {self.hint}" if self.hint else text


class RemoteError(RollqError):
    """The peer violated the protocol or sent invalid data."""

    fault = Fault.PEER


class LocalError(RollqError):
    """Our code or configuration is wrong."""

    fault = Fault.LOCAL


class StateError(RollqError):
    """A valid request that the grid cannot execute in its present state."""

    fault = Fault.STATE


class DiskError(RollqError):
    """The disk failed, is full, or has corrupt or unexpected content."""

    fault = Fault.NOBODY


class DialError(RollqError):
    """No member could be reached."""

    fault = Fault.NOBODY


class DeadlineError(RollqError, TimeoutError):
    """A timeout."""

    fault = Fault.NOBODY


RETRYABLE_CODES = frozenset(
    {
        ErrorCode.NOT_LEADER,
        ErrorCode.GRID_FULL,
        ErrorCode.OVERLOADED,
        ErrorCode.BLOB_MISSING,
        ErrorCode.PROPOSAL_DROPPED,
        ErrorCode.CONFIG_CHANGE_PENDING,
        ErrorCode.NOT_READY,
        ErrorCode.DISK_FAILED,
        ErrorCode.DISK_FULL,
        ErrorCode.UNREACHABLE,
        ErrorCode.DISCONNECTED,
        ErrorCode.TIMED_OUT,
    }
)

# Access is refused, by the member or by us: a retry changes nothing until credentials, accounts or
# setup change.
NOT_LET_IN_CODES = frozenset(
    {
        ErrorCode.LOGIN_REQUIRED,
        ErrorCode.LOGIN_FAILED,
        ErrorCode.TLS_REQUIRED,
        ErrorCode.ACCESS_DENIED,
        ErrorCode.BAD_CREDENTIALS,
        ErrorCode.BAD_CERTIFICATE,
    }
)
