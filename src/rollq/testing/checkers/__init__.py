"""Checkers: separate objects that watch a run and know nothing of each other.

`base` says what a checker is. `consensus`, `replicas` and `keys` watch members, `sessions`,
`attempts`, `batches` and `confirmations` what clients and workers were promised, `workers` each
worker, `drains` who is given jobs, `references` blobs, and `times` durations.
"""
