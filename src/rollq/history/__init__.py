"""The history of events: rows, sealed segments, and retention.

Reading order: `schema` (from event to row), `packed` (the events of a log index), `segments` (the
sealed files) with `packed_file` and `lines_file` (their two forms), `retention` (which files go),
`cutting` (lines in pieces for readers), `job_rows` (those of one job); then `columns`, `arrow` and
`arrow_cache` (the same rows as Arrow); `tables` has the columns of the tables of the state.

Nothing here decides what happens to a job. `schema`, `columns` and `tables` are pure.
"""
