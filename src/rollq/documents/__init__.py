"""Views of the grid as documents: ids in text, names in snake case, results opened.

The command line prints them with `--json`, and the HTTP interface answers with them. They are a
promise: fields may be added, none is removed or changes its meaning.

To read: `times`; `jobs` (with results, arrays, batches), `timeline`, `grid` (queues, workers, the
group), `rules` (what operators set), `schedules`, `federation`, `rates`, `access`. What asks a
member, prints, or knows HTTP does not come in here.
"""
