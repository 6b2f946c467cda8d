"""What operators see of a process beside its log: metrics as Prometheus text, and traces.

Numbers are kept where things happen, as plain integers and fixed buckets; here
they get names, labels and text. What decides anything does not come in here, nor does HTTP.
"""
