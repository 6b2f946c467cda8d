"""The public calls of the clients. They are stateless: all state is in the engine.

`facades` is the base of all. `jobs` submits and inspects jobs, with `maps` and `followers` (what
runs after a job); `batches` stages many and commits them at once; `caches`, `schedules`,
`subjects`, `topics`, `rules`, `admin` and `access` are what their names say.

A new call is a method in one of these. Then run `python docs/make_blocking.py`.
"""
