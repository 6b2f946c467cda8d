"""The history as tables: bronze events, silver jobs and attempts, gold figures.

A batch of new events updates all tables, and one commit makes it visible.

Reading order: `run` (splits the history into batches), `feed` (the source of events), `batch` (one
batch), `manifest`; `catalog` (tables and columns), then the tables: `bronze`, `silver`, `crowds`,
`gold`, `levels`; `checks` (invariants over all tables) and `dictionary` (the meaning of columns).
`storage` is the interface of table formats, `formats` selects one; `parquet` implements it with
files, which `tables` reads and writes and `compact` merges; `lake` with tables of Iceberg and Delta
(`lake_formats`): a `lake_batch` is visible once it is listed in `lake_batches`. `upkeep` has other
operations on tables; `day` rebuilds one day, `forgetting` selects the events to delete. `profile`
is what a batch touches; `dialect` and `settings` adapt Spark, `failures` its errors. `export` and
`hints` are outputs: copies of tables, and run time estimates for the grid. `lineage` tells a
lineage backend of runs, by `lineage_events`.
"""
