"""The history as tables: bronze events, silver jobs and attempts, gold figures.

A batch of new events becomes files of all tables, and one manifest makes them visible together.

Reading order: `run` (history in batches), `feed` (where events come from), `batch` (one of them),
`manifest`; `catalog` (the tables and their columns), then the tables themselves: `bronze`,
`silver`, `crowds`, `gold`, `levels`. `tables` reads and writes files, `compact` makes large ones of
small ones, `profile` says what a batch touches; `dialect` and `settings` adapt Spark, `failures`
its errors. `export` and `hints` are what leaves: tables in other formats, estimates for the grid.
"""
