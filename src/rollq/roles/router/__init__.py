"""The router: one address in front of several groups. To be read in this order:

1. `machine` (with `requests`, `work`, `pending_requests`, `merging` and `owners`): forwards the
   requests of one client to groups and merges their answers, as a pure machine. Jobs are placed by
   `roles.client.several_groups.machine`. `blob_machine`: blob transfers, likewise.
2. `client_link`: does the IO of the machine, with one session per group. `blob_links` and
   `reader_links`: the same for blobs and readers, over links from `upstream`. `groups`: addresses
   and reachability of the groups.
3. `node`: the process, which accepts links.
"""
