"""The client. To be read in this order:

1. `machine` (with `standing`, `signals`, `runs`, `delivered` and `plain`): one session with a group
   as a pure machine. The simulator runs it too. `multi_machine`: which group gets which job,
   likewise.
2. `session`: the machine's shell, a link and timers. `supplier`: files that go before requests.
3. `engine`: requests and their `answers`, results and whom they are for. `group_engine` and `multi`
   say where requests go. `pump`: many requests on their way, for all calls that send many.
   `deadlines`, `forks`, `naming`: timeouts, no use of a client in a forked child, client ids.
4. `jobs`, `batches`, `caches`, `admin`, `access`: the calls, on `asking`. They keep no state.
   `bulk`, `mapping`, `keyed`, `executor`: many jobs. `handles`: what the application holds then.
5. `specs`, `inputs`, `supply`, `parts`, `tracing`: a job on its way out. `results`, `contents`,
   `outputs`, `streams`, `views`: what comes back.
6. `client`, and `blocking`, which `bridge` makes of it, on a `loop_thread`.

The machines do no IO and read no clock.
"""
