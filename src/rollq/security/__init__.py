"""Keys, tokens and certificates: the credentials of a process, and the verification of peers.

Reading order: `credentials` are those of one process, `secret` holds a secret value, `files` reads
both from a directory, `accounts` derives the account of credentials, `mode` the protection that
links require; `identity` is the subject of a certificate; `tokens` and `signing` authenticate an
account without a certificate, `cluster_key` members to each other, `federation_key` nodes of a
federation, and `legacy_accounts` maps peers that cannot authenticate. `certificates` creates and
parses certificates, `authority` manages their files, `expiry` warns of their end, `tls` builds
contexts and checks peers. `vault` holds the secrets of jobs, `masking` removes them from output,
`memory` protects a process against inspection; `exec_digests` is the list of allowed programs. No
links and no messages here: `net` and `roles` use these modules.
"""
