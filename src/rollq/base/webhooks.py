"""The contract between submitters of webhooks and the worker that posts them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

WEBHOOK_EXEC: Final = "rollq.webhook"  # the function that posts: `rollq worker --app rollq.webhook`
# A URL may be a secret: then it is replaced by a name in the worker's vault.
SECRET_URL: Final = "secret:"
# Variables that a worker sets to secrets of its vault, for the time of a call.
URL_VARIABLE: Final = "WEBHOOK_URL"
KEY_VARIABLE: Final = "WEBHOOK_KEY"
ATTEMPTS: Final = 10  # within about five minutes, with at most a minute between two
RETRY_BASE_S: Final = 2.0
RUN_LIMIT_SOFT_S: Final = 30.0  # a receiver that answers a byte at a time is given up then
RUN_LIMIT_S: Final = 60.0
_URL: Final = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?([/?][!-~]*)?", re.IGNORECASE
)
PORT_MAX: Final = 65_535


class Target(NamedTuple):
    """Where a URL leads."""

    is_tls: bool
    host: str
    port: int
    path: str


def target_of(url: str) -> Target | None:
    """The target of a URL; None if nothing is posted there: it is not a plain HTTP or HTTPS URL, or
    has credentials or a fragment."""
    parts = _URL.fullmatch(url)
    if parts is None or "#" in url:
        return None
    scheme, host, port_text, path = parts.groups(default="")
    is_tls = scheme.lower() == "https"
    port = int(port_text or (443 if is_tls else 80))
    if not 0 < port <= PORT_MAX:
        return None
    return Target(is_tls, host.strip("[]"), port, path if path.startswith("/") else f"/{path}")
