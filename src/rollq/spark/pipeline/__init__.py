"""The history as tables: bronze events, silver jobs and attempts, gold figures.

A batch of new events changes all tables, and one commit makes that visible.

Reading order: `run` (history in batches), `feed` (where events come from), `batch` (one of them),
`manifest`; `catalog` (the tables and their columns), then the tables themselves: `bronze`,
`silver`, `crowds`, `gold`, `levels`; `checks` (what must be so in all of them) and `dictionary`
(what columns mean). `storage` is what a format of tables must do, `formats` names them; `parquet`
does it with files, which `tables` reads and writes and `compact` joins; `lake` with tables of
Iceberg and Delta (`lake_formats`), to which a `lake_batch` is written that counts when it is among
the `lake_batches`. `upkeep` is what else is done to tables; `forgetting` says which events go when
some are removed. `profile` says what a batch touches; `dialect` and `settings` adapt Spark,
`failures` its errors. `export` and `hints` are what leaves: copies of tables, estimates for the
grid.
"""
