"""Checkers: separate objects that watch a run and know nothing of each other.

`base` says what a checker is. `consensus`, `replicas` and `keys` watch members, `sessions`,
`attempts`, `batches` and `confirmations` what clients and workers were promised, `workers` each
worker, `drains`, `limits`, `needs` and `served` who is given jobs, `flows` who waits for whom,
`topics` what is kept and read, `schedules` what fires when, `references` blobs, and `times`
durations.
"""
