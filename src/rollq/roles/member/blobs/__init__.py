"""The blobs of a member: stored, served, copied to the other members, verified and evicted.

`member` is the whole of it, as the node sees it. `member_store` is the store with the index of what
is pinned and used, `majority` what the leader knows of the other members, `copies` moves blobs
between members, `relays` passes an upload on while it comes, `care` works in the background, and
`blob_work` does for the driver what needs the bytes of blobs.
"""
