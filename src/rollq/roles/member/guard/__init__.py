"""What accounts may do on this member: every message of every link is judged before its service.

Reading order: `names` (resources of messages, verbs and views as rules name them), `targets` (whose
a job, a worker or a blob is, by the applied state), `given` (blobs that accounts gave, before any
job names them), `sight` (which jobs and blobs are there for a principal), `narrowed` (requests of
which only a part is allowed), `guard` (the judgement, and what is said to whoever is refused),
`of_member` (puts it together). Pure; only there where accounts are asked for.
"""
