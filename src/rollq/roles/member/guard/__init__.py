"""Permissions of accounts on this member: every message of every link is checked before its
service.

Reading order: `names` (resources of messages, verbs and views as rules name them), `targets`
(owners of jobs, workers and blobs in the applied state), `given` (blobs uploaded by accounts,
before any job refers to them), `sight` (which jobs and blobs a principal can see), `narrowed`
(requests that are permitted in part), `guard` (the check, and the answers to refused messages),
`of_member` (wires it up). Pure; used only if accounts are in use.
"""
