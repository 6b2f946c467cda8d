"""What every package may use: values, names and bounds. Imports nothing of ours.

- `errors`, `limits`: every error with its code, every bound with its reason.
- `ids`, `digests`, `names`, `globs`, `environ`, `amounts`: identities, and what names and amounts
  from outside may be.
- `jobs`, `job_secrets`, `staged`, `hints`, `requests`, `outcomes`, `reasons`, `sealed`: values that
  the wire, the log and users share; their formats may only grow.
- `access`, `access_rules`, `access_roles`, `access_checks`, `access_table`: principals, actions and
  resources; accounts, rules and the decision; the built-in roles; what may be; all of a group.
- `stamp`, `counters`: clock and chance as values handed in, and the numbers of a running process.
- `traces`: what a trace context may be.
- `log_events`, `repeats`: what is written to logs, and how seldom.
"""
