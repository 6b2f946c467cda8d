"""The client. To be read in this order:

1. `machine` (with `session_state`, `signals`, `runs`, `delivered`, `doubtful`,
   `subscribe_requests` and `legacy_jobs`): one session with a group as a state machine without IO.
   The simulator runs it too. `multi_machine` (with `multi_signals` and `routes`): the same for
   several groups, with routing.
2. `session`: runs the machine on a connection and timers; `relay_session`: the same for a router
   that acts for another client. `supplier`: uploads files before the requests that use them.
3. `engine`: sends requests, matches responses (`answers`) and delivers results. `group_engine` and
   `multi_engine` are its implementations for one group and for several, `discovery` finds the
   groups of a federation. `pump`: a window of requests in flight, for all bulk calls. `subjects`,
   `topic_positions`: publish and subscribe. `deadlines`, `forks`, `client_ids`: timeouts, the
   check that a client is not used in a forked child, generated client ids.
4. `jobs`, `batches`, `caches`, `schedules`, `subject_calls`, `admin`, `topics`, `rules`, `access`:
   the public calls, on `facades`. They are stateless. `followers`: jobs and webhooks that run
   after another job. `function_calls`, `pickled_calls`, `chains`: functions with Python values.
   `bulk`, `maps` (`mapping`, `function_map`), `keyed`, `executor`: many jobs. `handles`,
   `subscriptions`: the objects that these calls return.
5. `specs`, `option_numbers`, `option_needs`, `option_parents`, `job_files`, `inputs`, `supply`,
   `alike`, `parts`, `tracing`: encode jobs. `results`, `contents`, `outputs`, `streams`,
   `job_events`, `views`: decode results, output, events and views.
6. `client` and `multi`; `blocking`, which `bridge` generates from them, on a `loop_thread`;
   `current`: the default client, which `delay` uses.

The machines do no IO and read no clock.
"""
