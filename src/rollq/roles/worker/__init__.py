"""The worker: takes assignments, runs them, keeps results durable until the grid has taken them.

The machine decides and is pure; everything else carries out its instructions. Reading order:

1. `signals`: events and instructions of the machine;
2. `machine`: the invariants, and the part that handles each event; `orders` collects instructions;
3. `session` (connection, leases, programs), `assignments` (one attempt from assignment to report),
   `attempts` (phases and slots), `acks` (reports), `credit` (free slots, prefetch, CPU cap): the
   parts, all pure;
4. `node`: the process around the machine: socket, timers, result table (`writer`, `results`);
   `setup`: its start options; `cpu`: samples for the CPU cap; `capacity`: resources of the machine
   and their use; `worker_log`, `tracing`; `counted`: metrics;
5. `executor`: runs jobs: `programs` (with `directories`, `inputs`, `outputs`, `program_streams`,
   `capture`, `execs`, `sealed_execs`, `environment`, `given_secrets`), `calls` of Python functions
   (`warm`, `warm_main`, `app`, `call_files`, `bundles`), `fitting` of results, and the processes
   themselves (`child_processes`, `spawn`, `exits`, `fd_poller`, `guard_main`), in the layers of
   the package `sandbox`;
6. files: `blobs` (the worker's store; `verified`, `neighbours`), `preparations` (inputs before a
   start), `parent_results` (results of parent jobs as inputs), `output_uploads` (large outputs
   before a result), `pending_uploads` (until it is taken), `caches`, `cache_index` and
   `cache_files` (caches in a directory of a legacy worker);
7. `live_output`, `live_output_sender`, `progress`: output and progress of running jobs for
   watching clients.

| Failure | Effect |
|---|---|
| the leader | attempts run on, and are announced to the next leader |
| the worker process | stored results are offered at the next start; the rest runs again elsewhere |
| the disk of the result table | the worker stops; nothing that was not synced was acknowledged |
| a secret or a listed program is missing | nack: no attempt, another worker may have it |
| an input: missing, damaged, no room | nack: another worker may succeed |
| a file, stream or value that a job leaves: no room | nack, counted as an attempt: it ran |
| a layer of the sandbox | nack, not counted as an attempt |
| an input: its name or digest is invalid | the job fails with the cause |
| a stored input: corrupt | it is quarantined and fetched again |
| an output that the leader lacks | uploaded again, then the ack is repeated; if it is lost, nack |
"""
