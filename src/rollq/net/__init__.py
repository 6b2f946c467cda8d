"""Sockets: links that carry wire connections.

Reading order: `link` (one connection), `tls_layer` (TLS below it), `handshake_turns` (when its
handshakes go on), `listener` and `dialer` (how
links begin), `arrival` (whether an accepted socket speaks TLS), `thread_stream` (a link that a
thread uses by blocking calls), `login` and `logging_in` (what a dialer says before its hello),
`partial_frames` (a bound on the memory of all partly received frames), `half_open` (one on links
without a hello), `ports` (free local ports), `addresses` (hosts that are this machine),
`packing` (when a link compresses), `counted` (what all links carry), `loops` (the event loop below
all of it), `standard` (stdin, stdout and stderr that are closed).

Nothing here knows what a message means or who may send it: that is `roles.door`.
"""
