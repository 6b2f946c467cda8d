"""What operators see of a process beside its log: metrics as Prometheus text, and spans
of traces (`traces`).

Numbers are kept where things happen, as plain integers and fixed buckets (`base.counters`); here
they get names, labels and text: `catalog` (every metric and its meaning), `text` (families as
Prometheus reads them), `server` (the two paths that a worker serves), `shipped` (a dashboard and
alert rules). What decides anything does not come in here, nor do pages.
"""
