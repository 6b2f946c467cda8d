"""The grid in Spark: rows as jobs of programs and functions, and workers in Spark tasks.

`mapping` is `grid_map` on the driver, with `columns` (the added columns); `task` runs in a Spark
task, with `flow` (rows to jobs, results to rows) and `guard` (cancels the jobs of a killed task).
`workers` is `start_workers`; `tending` runs one worker in a task.
"""
