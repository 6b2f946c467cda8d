"""The client. Its public calls are methods of the classes in `calls`. To be read in this order:

1. `session`: the session with a group, as a state machine and on a connection.
2. `jobs`: what an application submits, encoded.
3. `engine`: the state of a client: requests, uploads, and whom results are for. `topics`: publish
   and subscribe.
4. `results`: results, output, handles and views. `many`: calls that send many jobs, on one pump.
5. `calls`: the public calls. `functions`: functions with Python values.
6. `client`; `several_groups`: the client of several groups; `blocking`: the clients for callers
   without an event loop, generated from these.

Each may import what is named before it. `answers` (errors of members, and views from bytes),
`addresses` and `forks` (a client is not used in a forked child) are for all of them.
"""
