"""A client of several groups. To be read in this order:

1. `routes`: the groups, their weights and the routes of jobs. `signals`, `machine`: assigns jobs to
   groups, as a state machine. A router runs it too.
2. `engine`: runs the machine, with one session per group. `discovery`: finds the groups of a
   federation.
3. `client`: `MultiClient`.

The machine does no IO and reads no clock.
"""
