"""What every package may use: values, names and bounds. Imports nothing of ours.

- `errors`, `limits`, `bundle_limits`, `flow_limits`, `need_limits`, `router_limits`,
  `schedule_limits`, `subject_limits`, `topic_limits`, `federation_limits`: every error with its
  code, every bound with its reason.
- `ids`, `digests`, `names`, `texts`, `globs`, `environ`, `amounts`: identities, and what names,
  texts and amounts from outside may be.
- `jobs`, `job_secrets`, `edges`, `staged`, `hints`, `requests`, `outcomes`, `reasons`, `sealed`:
  values that the wire, the log and users share; their formats may only grow.
- `celery_names`: options of jobs as Celery calls them.
- `job_events`, `parents`, `webhooks`: what is said of jobs while they live; what a job is told of
  those that it waited for; what those who ask for a webhook and those who post it agree on.
- `schedules`: words of schedules, and what follows from a name and an instant.
- `needs`: what a job needs and a worker has, as people write it, and what fits.
- `access`, `access_rules`, `access_roles`, `access_checks`, `access_table`: principals, actions and
  resources; accounts, rules and the decision; the built-in roles; what may be; all of a group.
- `stamp`, `counters`, `disk_use`: clock, chance and calendar as values handed in, the numbers of a
  running process, and what a member takes of its disk.
- `traces`: what a trace context may be.
- `log_events`, `repeats`: what is written to logs, and how seldom.
"""
