"""The grid as Spark uses it: rows through programs and functions, and workers in its tasks.

`mapping` is `grid_map` on the driver, with `columns` (what it adds to a row); `task` runs in a task
of Spark, with `flow` (rows to jobs and back) and `guard` (ends the jobs of a task that was killed).
`workers` is `start_workers`; `tending` is one worker in a task.
"""
