"""Calls that send many jobs. All of them send through `pump`: a window of requests in flight, one
timeout, one place to wait. To be read in this order:

1. `pump`.
2. `bulk`: jobs with consecutive ids.
3. `map_run`: one program, many arguments. `function_run`: one function; its calls are combined.
4. `keyed`: jobs that may have been submitted before.

What stages a batch is beside its calls, and the executor beside the blocking clients.
"""
