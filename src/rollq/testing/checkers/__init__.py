"""Checkers: independent objects that verify invariants during a run.

`base` defines a checker. `consensus`, `replicas` and `keys` check members; `sessions`, `attempts`,
`batches` and `confirmations` the guarantees to clients and workers; `workers` each worker;
`drains`, `limits`, `needs` and `served` the assignment of jobs; `flows` dependencies; `topics`
retained messages; `schedules` firings; `references` blobs; and `times` durations.
"""
