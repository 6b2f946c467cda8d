"""Readers of the history and of tables, each served by a thread of its own.

The thread reads files and makes answers, which may take seconds, and requests from the loop only
small slices of its memory (`reader_context`). The loop keeps the socket (`net.thread_stream`). Any
member serves, so analytics need not load the leader.

Reading order: `server`, `session`, `handlers` (with views), `reader_context`; then `pieces`
(history), `timeline` (history of one job), `tables` (state and results), `backups` (all of the
state), and `copies_keeper` with `copies_maker` (sealed history as JSON `lines` and as Arrow
`columns`).
"""
