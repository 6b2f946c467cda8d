"""The session with one group: which request waits for an answer, and what a new leader is told.
To be read in this order:

1. `signals`: what goes into the machine and comes out of it; only records.
2. `machine`: the session as a state machine, with `runs` (similar jobs in one message),
   `delivered` (each end of a job reaches the application once) and `older_leaders`. The
   simulator runs it too.
3. `group_session`: runs the machine on a connection, timers and callbacks. `relay_session` is the
   same in a router, for another client.

The machine does no IO and reads no clock. Nothing here knows of jobs' files, handles or calls.
"""
