"""What exists on the elected leader alone: sessions, requests, proposals, timers of attempts.

Nothing here is replicated, and nothing outlives the loss of leadership. It is pure.
Read `state` first (the parts, and what happens once a turn and after every applied entry), then
`gateway` (which handler takes which message), then a family: `clients`, `jobs`, `batches`,
`workers`, `attempts`, `caches`, `admin`, `reads`. `proposals` says who waits for a command.
"""
