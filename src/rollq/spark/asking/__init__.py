"""Queries over the tables of the pipeline; results as plain rows. Nothing here writes.

`queries` runs SQL of users, and `typing_help` completes it in a shell; `figures` collects the data
of a report, with `periods` (a period of time in SQL), `busy` (worker utilisation), `shares` (by
queue and client, and the period before), `incidents` (events of the grid) and `tales` (timelines of
single jobs).
"""
