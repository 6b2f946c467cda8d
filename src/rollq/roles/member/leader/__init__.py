"""What exists on the elected leader alone: sessions, requests, proposals, timers of attempts.

Nothing here is replicated, and nothing outlives the loss of leadership. It is pure.
Read `state` first (the parts, and the steps of every turn and every applied entry), then `gateway`
(the handler of each message), then the request families: `clients`, `jobs`, `batches`, `workers`,
`attempts`, `caches`, `admin` (with `admin_arguments` and `reruns`; `schedules` with
`schedule_arguments`), `reads`, `publishing` (on `subscriptions` and `topics`, with `job_events`).
`proposals` has the commands that wait for an entry, `origins` the callback of each, `turns` is the
fair queue among clients, and `joining` merges like commands into runs.

Beside the families: `sessions`, `session_log` and `job_log`; `addressing` (subjects and queues);
`large` and `keeping` (payloads that become blobs first); `cache_relay` (caches of legacy peers);
`output_watches` (output of running jobs); `refusals` (for the history); `flows` (children of ended
jobs); `replies`, `effect_messages` and `runs` (outgoing messages); `shell` (what the leader reads
from the process around it). Clock and random source are passed in; nothing here does I/O.
"""
