"""Keys, tokens and certificates: what a process proves itself with, and checks others by.

Reading order: `credentials` is what one process has, `secret` how a secret is held, `files` how
both are read from one directory, `accounts` which account they stand for, `mode` how much is asked
of links; `identity` is what a certificate says of its holder; `tokens` and `signing` prove an
account without one, `cluster_key` members to each other, `federation_key` groups to each other, and
`legacy_accounts` has those who cannot prove any. `certificates` makes certificates and reads them,
`authority` keeps and gives them out as files, `expiry` says when to renew them, `tls` makes
contexts of them and judges those of others. `vault` has the secrets of jobs, `masking` takes
them out of what jobs print, `memory` keeps those of a process to itself; `exec_digests` is the list
of programs that may run. No link and no message comes in here: `net` and `roles` use these.
"""
