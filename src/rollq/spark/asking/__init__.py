"""Questions about what happened, put to the tables of the pipeline; answers as plain rows.

`queries` is SQL by anyone; `figures` asks what a report needs, with `periods` (a period of time in
SQL), `busy` (how busy workers were) and `tales` (the lives of single jobs). Nothing here writes.
"""
