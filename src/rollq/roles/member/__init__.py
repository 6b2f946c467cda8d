"""The member process (`rollq leader`): one replica of the group, which may be elected its leader.

Reading order:

1. `node`: the process: sockets, clock, persist thread, and the loop of turns around the driver;
   `setup`: what it is told at its start; `calendar`: when cron lines come next.
2. `driver`: one turn, in the only order that is safe. Pure, as is everything that it imports; the
   simulator runs it on a virtual disk, clock and network. `outputs`: what it hands out to be sent.
3. `leader`: what exists on the elected leader alone; `leader.gateway` takes messages of sessions.
4. `replica`, `history_log`, `read_points`: what follows from the applied log on every member;
   `queries` (keys: `query_keys`): what may be asked of it.
5. `work`, `recovery`, `states`, `snapshot_schedule`, `snapshot_order`, `snapshot_runner`, `fork`:
   the disk, from the start of the process to snapshots beside the loop.
6. `rollcall`, `keyring`, `peers`, `membership`, `reports`, `group_clock`: the other members;
   `status`, `status_log`, `node_log`, `metrics`: how the group stands and what was counted, for its
   operators; `federation`: what other groups are told of it.
7. `session_links`, `peer_links`, `cluster_login`: links, behind `roles.door`; `guard`: what
   accounts may ask for on them; `inlining`: blobs put into messages; `shell_figures`: numbers of
   the process around the driver.
8. `blobs`, `readers`, `tables`: files, and answers for analytics, beside the turns.

What goes wrong, and which module handles it how:

- a message out of bounds, or from the wrong role
    wire.connection, roles.door: an error; at most that link is closed
- a handler raises what it must not
    leader.gateway, driver.peer_message: logged, that session or link is closed; the state is
    untouched
- a client or worker does not read
    net.link; leader.shell.has_room: nothing more is owed at once; over the bound the link is
    closed
- too much waits for the log
    leader.proposals, session_links: sessions are not read; submits are refused as OVERLOADED
- a worker's connection breaks
    leader.workers, policy.expiry: its attempts are lost after the grace
- a worker is silent
    leader.workers.leave_silent: it gets no more jobs; its attempts are lost with their leases
- a worker does not send all attempts that its hello counts
    leader.workers.leave_silent: its connection is closed; an older session of it goes on
- leadership is lost
    driver._follow_role, leader.state.lose: sessions are redirected; what they asked is asked again
    by the same ids
- somebody dials before the member has read its disk
    early_links: messages wait, bounded, until it serves
- a member is elected before it has applied all
    early_messages: messages wait, bounded, until it leads or another does
- a member is silent on an open link
    peers.tick: the link is closed and dialed again
- an older copy of a disk is started
    rollcall: the process stops with WRONG_IDENTITY
- somebody speaks as a member without the cluster key
    keyring, peers.refusal: nothing of it is heard, and its link is closed
- a follower lacks log that is compacted
    raft, work: it gets a snapshot, and the history from its peers
- states of members differ
    reports: an alarm names the member; nothing is repaired by itself
- a clock of a member is wrong
    reports, group_clock: the group's time follows the majority; an alarm
- a write or sync fails
    work, node._fail: the process stops, and acknowledges nothing more
- a snapshot fails
    snapshot_runner: logged; the next one is later
- the disk was cut by a power failure
    recovery, store.repair: the torn tail is cut; damage before it is repaired from peers or
    refused
"""
