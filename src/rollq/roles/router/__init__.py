"""The router: one address in front of several groups. To be read in this order:

1. `machine` (with `requests`, `work`, `questions`, `merging` and `owners`): what one client asks
   for, and what the groups say, as a pure machine. Which group gets which job is decided by
   `roles.client.multi_machine`. `blob_machine`: its files, likewise.
2. `client_link`: the machine's shell, with a session a group. `blob_links` and `reader_links`: the
   same of files and of those who only look, with links that `upstream` finds. `groups`: where the
   groups are, and whether anybody is there.
3. `node`: the process, which accepts links.
"""
