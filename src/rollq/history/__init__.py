"""Events leaving the group: rows, sealed segments, and how long they are kept.

Reading order: `schema` (from event to row), `segments` (rows in sealed files), `retention` (which
files go), `cutting` (a segment in pieces for readers); then `columns`, `arrow` and `arrow_cache`
(the same rows as Arrow); `tables` has the columns of the tables of the state.

Nothing here decides what happens to a job. `schema`, `columns` and `tables` are pure.
"""
