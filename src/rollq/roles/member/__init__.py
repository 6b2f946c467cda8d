"""The member process (`rollq leader`): one replica of the group. Any member may be elected leader.

Reading order:

1. `node`: the process: sockets, clock, persist thread, and the loop of turns around the driver;
   `setup`: its start options; `timers`: what wakes the loop without input; `calendar`: the next
   firing time of a cron line.
2. `driver`: one turn, in the only safe order. Pure, as is everything that it imports; the
   simulator runs it on a virtual disk, clock and network. `outputs`: what it returns to be sent.
3. `leader`: what exists on the elected leader alone; `leader.gateway` handles session messages.
4. `replica`, `history_log`, `read_points`: state derived from the applied log on every member;
   `queries` (keys: `query_keys`): the queries on it.
5. `work`, `recovery`, `states`, `snapshot_schedule`, `snapshot_order`, `snapshot_runner`, `fork`:
   the disk, from recovery to snapshots written beside the loop.
6. `rollcall`, `keyring`, `peers`, `membership`, `reports`, `group_clock`: the other members;
   `status`, `status_log`, `node_log`, `metrics`: status and metrics of the group for operators;
   `federation`: what it publishes to other groups.
7. `session_links`, `peer_links`, `cluster_login`: links, behind `roles.door`; `guard`: permissions
   of accounts; `inlining`: blobs put into messages; `shell_figures`: metrics of the process around
   the driver; `disk_meter`: what is used and free of its disk.
8. `blobs`, `readers`, `tables`: blob transfer, and reads for analytics, beside the turns.

Failures, and the module that handles each:

- a message out of bounds, or from the wrong role
    wire.connection, roles.door: an error; at most that link is closed
- a handler raises an unexpected exception
    leader.gateway, driver.peer_message: logged, that session or link is closed; the state is
    untouched
- a client or worker does not read
    net.link; leader.shell.has_room: deliveries to it pause; over the bound the link is closed
- the backlog of proposals is too large
    leader.proposals, session_links: sessions are not read; submits are refused as OVERLOADED
- a worker's connection breaks
    leader.workers, policy.expiry: its attempts are lost after the grace period
- a worker is silent
    leader.workers.leave_silent: it gets no more jobs; its attempts are lost when leases expire
- a worker does not send all attempts that its hello counts
    leader.workers.leave_silent: its connection is closed; an older session of it goes on
- leadership is lost
    driver._follow_role, leader.state.lose: sessions are redirected; they retry their requests with
    the same ids
- a peer dials before the member has read its disk
    early_links: messages wait, bounded, until it serves
- a member is elected before it has applied all committed entries
    early_messages: messages wait, bounded, until it or another member leads
- a member is silent on an open link
    peers.tick: the link is closed and dialed again
- an older copy of a disk is started
    rollcall: the process stops with WRONG_IDENTITY
- a peer claims to be a member without the cluster key
    keyring, peers.refusal: its messages are ignored, and its link is closed
- a follower lacks log that is compacted
    raft, work: it gets a snapshot, and the history from its peers
- states of members diverge
    reports: an alarm names the member; there is no automatic repair
- a member's clock is wrong
    reports, group_clock: the group's time follows the majority; an alarm
- a disk is nearly full
    disk_meter, reports: an alarm
- a write or sync fails
    work, node._fail: the process stops, and acknowledges nothing more
- a snapshot fails
    snapshot_runner: logged; the next one is delayed
- a power failure cut the log
    recovery, store.repair: the torn tail is cut; damage before it is repaired from peers or
    refused
"""
