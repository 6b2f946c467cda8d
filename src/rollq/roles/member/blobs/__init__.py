"""The blobs of a member: kept, served, copied to the others, looked after.

`member` is the whole of it, as the node sees it. `shelf` is the store with its books, `book` what
the leader knows of the others, `copies` moves blobs between members, `care` is what goes on in the
background.
"""
