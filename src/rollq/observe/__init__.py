"""Observability of a process: metrics as Prometheus text, and spans of traces (`traces`).

Numbers are counted in place, as plain integers and fixed buckets (`base.counters`); here they get
names, labels and text: `catalog` (every metric and its meaning), `text` (Prometheus exposition),
`server` (the two paths that a worker serves), `shipped` (a dashboard and alert rules). No decisions
and no web pages here.
"""
