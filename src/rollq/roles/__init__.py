"""The processes: `member`, `worker`, `client`, `router` and `reader`. A role imports no other role,
but for the router, which is a client of its groups.

Each of the first four has a pure machine that decides and a shell around it with sockets and disk.
What they share lies beside them:

- `door`: every message of an accepted link passes it; `login`: who a link is; `access`: who may
  send what;
- `dialogue`, `redial`, `silence`, `refusals`, `offers`: parts of the machines of worker and client:
  a session with one member, whom to dial next, a member that says nothing, or that does not let us
  in, a legacy leader;
- `persist`: the thread that waits for the disk; `service`: ending tasks, clocks, random
  numbers; `process`: what the system knows of this process;
- `blobs`: moving files between any two of them.
"""
