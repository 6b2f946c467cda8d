"""The client. To be read in this order:

1. `machine` (with `standing`, `signals`, `runs`, `delivered`, `doubtful`, `subscribed` and
   `plain`): one session with a group as a pure machine. The simulator runs it too.
   `multi_machine` (with `multi_signals` and `routes`): which group gets which job, likewise.
2. `session`: the machine's shell, a link and timers; `relay_session`: one for somebody else.
   `supplier`: files that go before requests.
3. `engine`: requests and their `answers`, results and whom they are for. `group_engine` and
   `multi_engine` say where requests go, `discovery` which groups there are. `pump`: many requests
   on their way, for all calls that send many. `subjects`, `topic_places`: what is published and
   subscribed to. `deadlines`, `forks`, `naming`: timeouts, no use of a client in a forked child,
   client ids.
4. `jobs`, `batches`, `caches`, `schedules`, `subject_calls`, `admin`, `topics`, `rules`, `access`:
   the calls, on `asking`. They keep no state. `followers`: jobs and webhooks at the end of others.
   `function_calls`, `pickled_calls`, `chains`: functions with Python values. `bulk`, `maps`
   (`mapping`, `function_map`), `keyed`, `executor`: many jobs. `handles`, `subscriptions`: what the
   application holds then.
5. `specs`, `asked_numbers`, `asked_needs`, `asked_parents`, `job_files`, `inputs`, `supply`,
   `alike`, `parts`, `tracing`: jobs on their way out. `results`, `contents`, `outputs`, `streams`,
   `job_events`, `views`: what comes back.
6. `client` and `multi`, and `blocking`, which `bridge` makes of it, on a `loop_thread`; `current`:
   the one that `delay` uses.

The machines do no IO and read no clock.
"""
