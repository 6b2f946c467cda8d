"""What comes back: to be read in this order:

1. `result`: the end of a job, on `contents` (its streams and value) and `outputs` (its files).
2. `streams`: the output of a job while it runs.
3. `handles`: a submitted job, and many that were submitted together.
4. `views`: what queries return.

Nothing here submits; a handle asks its engine.
"""
