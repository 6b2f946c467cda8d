"""Choices of the elected leader, which are not replicated: which job goes to which worker, and what
has expired. Pure: no clock, no randomness; a decision takes effect only as a command that the group
applies.

Two machines, each fed by the events of applied entries:

    Dispatcher  (every member follows, the leader decides)      Expiry  (the leader alone)
      index      what all members keep from events
      holds      what may not start: caps, decisions          timers   many timers, one next
        limits, limit_room   limits that operators set
      backlog    queues matched with pools of workers             retry    how long until the next
        lanes    order within one queue                                    attempt
        pools    workers by what they serve
          needs       what a job needs of its worker, and what that has left
          placement   which worker of a pool is next
            preferences   how each queue chooses
            holdings      which workers hold which files
      at_once    jobs that are assigned by the entry that accepts them
      shares     how many jobs a turn is, and the runs of a decision
      waiting    why a job does not run, or how it ended, in words
        endings, array_reasons   of jobs that have ended, and of arrays by their tasks
        limit_reasons, need_reasons   of jobs that a limit keeps, or that no worker fits (`lacks`)
        advice   the commands that would help
      hints      how long a lease is                            trimming   topics over age
                                                                firing     schedules that are due

Read `lanes`, `pools`, `backlog`, `holds`, `index`, `dispatch`, in this order; then `timers` and
`expiry`.

Terms: a *session* is one connection of a worker to the leader, with its *credit* (how many more
jobs it may be assigned). A *pool* is the sessions that asked for one pattern, a *part* of it the
sessions that could ever meet one need, and *candidates* those that can take a job now. A *ring* is
a round-robin order: what was served goes to its end. *Reserved* counts decisions that are not
applied yet.
"""
