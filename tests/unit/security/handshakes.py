"""A TLS 1.3 handshake in memory, between the holders of two directories of credentials."""

from __future__ import annotations

import ssl
from pathlib import Path

from rollq.security.files import CA, CERTIFICATE, PRIVATE_KEY


def shake(server: Path, client: Path) -> tuple[str, str]:
    """Who the client and the server see: the URI in the certificate of the other.

    Raises:
        ssl.SSLError: one refuses the other.
    """
    ends = (_end(server, is_server=True), _end(client, is_server=False))
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end[0].do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
        (_, server_in, server_out), (_, client_in, client_out) = ends
        server_in.write(client_out.read())
        client_in.write(server_out.read())
        if not waiting:
            break
    assert not waiting, "the handshake does not end"
    assert {end[0].version() for end in ends} == {"TLSv1.3"}
    return _peer(ends[1][0]), _peer(ends[0][0])


def _end(directory: Path, *, is_server: bool) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    purpose = ssl.Purpose.CLIENT_AUTH if is_server else ssl.Purpose.SERVER_AUTH
    context = ssl.create_default_context(purpose, cafile=str(directory / CA))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(directory / CERTIFICATE, directory / PRIVATE_KEY)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return context.wrap_bio(incoming, outgoing, server_side=is_server), incoming, outgoing


def _peer(end: ssl.SSLObject) -> str:
    names = (end.getpeercert() or {}).get("subjectAltName", ())
    assert isinstance(names, tuple)
    (uri,) = [name for kind, name in names if kind == "URI"]
    return str(uri)
