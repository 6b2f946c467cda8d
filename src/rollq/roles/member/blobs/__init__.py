"""The blobs of a member: stored, served, copied to the other members, verified and evicted.

`member` wires it up for the node. `member_store` is the store with the index of pinned and used
blobs, `majority` the leader's view of the other members' blobs, `copies` moves blobs between
members, `relays` forwards an upload while it arrives, `care` works in the background, and
`blob_work` carries out the driver's orders on blob contents.
"""
