"""The engine of a client: all of its state, behind the stateless calls. To be read in this order:

1. `base`: sends requests, matches responses by id, delivers results to their targets; with
   `deadlines` (timeouts of calls) and `client_ids` (ids that are made here).
2. `supplier`: uploads the files of a request before it, and downloads blobs.
3. `one_group`: the engine of a client of one group. That of several groups is beside them.

No public call lives here.
"""
