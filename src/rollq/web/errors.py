"""Error responses: an HTTP status, and a document with code, message and hint. The codes are those
of `rollq.base.errors`."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec
from starlette.responses import Response

from rollq.base.errors import ErrorCode, Fault, RemoteError, RollqError

log = logging.getLogger("rollq.web")

JSON: Final = "application/json"
encode_json = msgspec.json.Encoder().encode
E = ErrorCode
STATUS: Final[dict[ErrorCode, int]] = {
    **dict.fromkeys((E.LOGIN_REQUIRED, E.LOGIN_FAILED), 401),
    **dict.fromkeys((E.ACCESS_DENIED, E.UNPROTECTED), 403),
    **dict.fromkeys(
        (
            *(E.UNKNOWN_JOB, E.UNKNOWN_WORKER, E.UNKNOWN_CACHE, E.UNKNOWN_ACCOUNT),
            *(E.UNKNOWN_SCHEDULE, E.UNKNOWN_BATCH),
            *(E.UNKNOWN_ROLE, E.UNKNOWN_READER, E.BLOB_MISSING, E.HISTORY_GONE),
        ),
        404,
    ),
    **dict.fromkeys((E.BAD_OPTIONS, E.BAD_ID, E.BAD_PAYLOAD, E.BAD_SUBJECT, E.BAD_ACCESS), 400),
    E.BAD_ADDRESS: 400,
    **dict.fromkeys((E.FRAME_TOO_LARGE, E.ANSWER_TOO_LARGE), 413),
    **dict.fromkeys(
        (
            *(E.NOT_LEADER, E.GRID_FULL, E.OVERLOADED, E.PROPOSAL_DROPPED, E.NOT_READY),
            *(E.OUTCOME_UNKNOWN, E.UNREACHABLE, E.DISCONNECTED, E.TIMED_OUT),
            E.BAD_HANDSHAKE,  # the pages were started for another group
        ),
        503,
    ),
    **dict.fromkeys((E.ID_CONFLICT, E.CONFIG_CHANGE_PENDING, E.BAD_CONFIG_CHANGE), 409),
    E.BUG: 500,
    E.DISK_FULL: 507,
}
BY_FAULT: Final = {Fault.PEER: 400, Fault.STATE: 409, Fault.LOCAL: 500, Fault.NOBODY: 503}


class RequestError(RemoteError):
    """A request that this process refuses, with its own status."""

    def __init__(self, status: int, code: ErrorCode, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.status = status


def status_of(error: RollqError) -> int:
    """The HTTP status for an error."""
    if isinstance(error, RequestError):
        return error.status
    return STATUS.get(error.code, BY_FAULT[error.fault])


def error_document(error: RollqError) -> dict[str, Any]:
    """The body of an error response."""
    return {
        "error": {"code": error.code.name, "message": error.message, "todo": error.hint},
    }


def error_response(error: RollqError) -> Response:
    """The response for an error."""
    status = status_of(error)
    if status in (500, 507):
        log.error("a request failed: %s", error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return Response(encode_json(error_document(error)), status, headers, media_type=JSON)


def bad_request(message: str, hint: str = "") -> RequestError:
    """The error for an invalid request."""
    return RequestError(400, ErrorCode.BAD_OPTIONS, message, hint)


def not_found(message: str, hint: str = "") -> RequestError:
    """The error for an unknown path or name."""
    return RequestError(404, ErrorCode.UNKNOWN_MESSAGE, message, hint)
