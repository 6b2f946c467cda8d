"""Moving blobs between members, workers and clients: both ends of a link, and their shells.

Read in this order: `orders` (what a machine asks for), `machine` with its halves `sending` and
`receiving`, then `client_machine` and `server_machine`: all pure. `carrier` carries orders out on
threads, at a `pace`; `client_session` and `server_session` are one link each; `client` and `server`
are what others use, with `files` for sources and sinks outside a store, `turns` for who may write
now, `relay` for blobs that are passed on while they come in, `proving` for those whose giver must
show to have them, `failures` for errors on the wire and when to fetch again, and `counted` for
how much came and went.

Nothing here knows jobs, commands or consensus: which blobs are needed is told from outside.
"""
