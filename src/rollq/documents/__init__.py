"""Views of the grid as JSON documents: ids as text, names in snake case, results decoded.

Used by `--json` of the command line and by the HTTP interface. The format is stable: fields may be
added; none is removed or changes its meaning.

Modules: `times`; `jobs` (with results, arrays, batches), `output`, `timeline`, `grid` (queues,
workers, the group), `rules` (settings of operators), `schedules`, `federation`, `rates`, `access`.
Nothing here queries a member, prints, or knows HTTP.
"""
