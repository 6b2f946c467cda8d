"""What exists on the elected leader alone: sessions, requests, proposals, timers of attempts.

Nothing here is replicated, and nothing outlives the loss of leadership. It is pure.
Read `state` first (the parts, and what happens once a turn and after every applied entry), then
`gateway` (which handler takes which message), then a family: `clients`, `jobs`, `batches`,
`workers`, `attempts`, `caches`, `admin` (with `admin_arguments` and `reruns`; `schedules` with
`schedule_arguments`), `reads`,
`publishing` (on `subscriptions` and `topics`, with `job_events`). `proposals` has what waits for
its entry, `origins` says who waits for a command, `turns` whose is next, and `joining` makes runs
of what is alike.

Beside the families: `sessions`, `session_log` and `job_log`; `addressing` (subjects and queues);
`large` and `keeping` (payloads that become blobs first); `cache_relay` (caches of legacy peers);
`output_watches` (output of running jobs); `refusals` (for the history); `flows` (children of
what ended); `replies`, `effect_messages` and `runs` (what is sent); `shell` (what the leader asks
of the process around it). Clock and chance are handed in; nothing here reads a socket or a file.
"""
