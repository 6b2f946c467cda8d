"""Blob transfers between members, workers and clients: both ends of a link, and their IO.

Read in this order: `orders` (the instructions of a machine), `machine` with its halves `sending`
and `receiving`, then `client_machine` and `server_machine`: all pure. `carrier` executes orders on
a thread pool, throttled by `pace`; `client_session` and `server_session` are one link each;
`client` and `server` are the interface for other packages, with `files` for sources and sinks
outside a store, `turns` for limits on concurrent transfers, `relay` for blobs that are forwarded
while they are received, `proving` for uploads as proof of possession, and `failures` for errors on
the wire and retries.

Nothing here knows jobs, commands or consensus: callers decide which blobs are transferred.
"""
