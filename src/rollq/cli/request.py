"""`rollq request`: publishes a request and shows the response."""

from __future__ import annotations

import typer

from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout
from rollq.cli.publish import PayloadArgument, SubjectArgument

EPILOG = """\b
Examples:
  rollq request time.now
  rollq request scale.image - --timeout 30 < photo.jpg > small.jpg
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(request)


def request(
    subject: SubjectArgument,
    payload: PayloadArgument = "",
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Publish a request to a subject, and show the first response.

    The payload of the response is written to stdout unchanged; with --json, as one object. Exit
    code 4 if no subscription matches, 3 if there is no response within --timeout.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.published import checked_subject, payload_of, show

    checked_subject(subject)
    data = payload_of(payload)
    answer = with_client(servers, timeout, lambda client: client.request(subject, data))
    show(answer, as_json=as_json, with_subject=False)
