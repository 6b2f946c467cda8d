"""Questions about what happened, put to the tables of the pipeline; answers as plain rows.

`queries` is SQL by anyone, and `typing_help` what a shell knows of it; `figures` asks what a report
needs, with `periods` (a period of time in SQL), `busy` (how busy workers were), `shares` (queues,
clients, the time before), `incidents` (what befell the grid) and `tales` (the lives of single
jobs). Nothing here writes.
"""
