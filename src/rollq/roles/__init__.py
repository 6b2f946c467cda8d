"""The processes: `member`, `worker`, `client`, `router` and `reader`. A role imports no other role,
but for the router, which is a client of its groups.

Each of the first four has a pure machine that decides and a shell around it with sockets and disk.
Shared parts:

- `door`: entry of every message of an accepted link; `login`: authentication; `access`:
  authorization;
- `dialogue`, `redial`, `silence`, `refusals`, `offers`: parts of the machines of worker and client:
  events and instructions of a session, the next address to dial, silent members, refused sessions,
  legacy leaders;
- `persist`: the thread for disk work; `service`: ending tasks, clocks, random numbers;
  `process`: metrics of the process;
- `blobs`: file transfer between any two of them."""
