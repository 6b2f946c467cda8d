"""The engine of a client: all of its state, behind the stateless calls. To be read in this order:

1. `base`: sends requests, matches responses by id, delivers results to their targets.
2. `supplier`: uploads the files of a request before it, and downloads blobs.
3. `one_group`: the engine of a client of one group. That of several groups is beside them.

No public call lives here.
"""
