"""The replicated state machine: commands in, state, events and effects out. Pure, and the same on
every member: no clock, no randomness, no iteration over a set, no float.

Read in this order:

    commands, access_commands, rule_commands, topic_commands, flow_commands, schedule_commands
      (on stored)                                          what the group is asked to agree on
                                                           command_codec   as bytes of the log
    state, topic_records, edge_records, schedule_records   what it agreed on; bounds: how much of it
                                                           lifecycle       where a job may go next
    apply         one committed entry in; the table of handlers
      submits, arrays, attempts, acks, jobs, workers, clients, queues, caches, staging, unpacking,
      hints, readers, access, policies, limits, topics, schedules
                                                           handlers; runs, outcomes: what they share
      admission   bounds of what may enter                 moves           how records move, counted
      batches     which there are, by name             repeats         a submit that comes again
      refs        blobs and caches, counted                tasks, times    arrays, the group's time
      edges       who waits for whom                       settling        children of what ended
      job_index, seq_index, key_index   jobs and keys in order
                                                           bodies          where bodies of jobs are
    events        what became true (facts builds them)     effects         what the leader must send
    outbox        what is still owed, derived again by a new leader
    snapshot      the state as bytes (snapshot_rows, snapshot_staged, snapshot_topics,
                  snapshot_edges, crowds, chunks), and derive, which rebuilds what is not written
    views, topic_views, rule_views, schedule_views, pages, explanations   what people and tables
                  read
    matching      which jobs a list wants
    invariants    what must always hold; the simulator asks after every entry
    state_hash    members that applied as much have the same

A handler checks everything first and refuses without a change, or does all of it: there is no
rollback. What a handler costs must not grow with the number of jobs; bulk work is bounded by the
size of its command.
"""
