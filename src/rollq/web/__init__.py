"""Pages and an HTTP interface: a client of the grid in a process of its own.

`rollq web` runs it anywhere, and `rollq leader --http PORT` beside a member. It reads from the
applied state of a member, and what changes something goes to the leader as from any other client.
It decides nothing and judges nobody: a request is asked of the group with the credentials of
whoever sent it. What a page shows is a document of `rollq.documents`, as the command line shows it.
"""
