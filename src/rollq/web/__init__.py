"""Pages and an HTTP interface: a client of the grid in a process of its own.

`rollq web` runs it anywhere, and `rollq leader --http PORT` beside a member. It reads from the
applied state of a member, and what changes something goes to the leader as from any other client.
It decides nothing and judges nobody: a request is asked of the group with the credentials of
whoever sent it. What a page shows is a document of `rollq.documents`, as the command line shows it.

Reading order: `setup` is what a process is started with, `server` the port, `app` the way of a
request, `guard` what it passes first, `sessions` and `links` who sent it and their way to the
group, `call` what a handler gets, `routes` the table of all handlers: `me`, `overview`, `jobs`,
`views`; `pages` has the files of the pages, `errors` how refusals are told, `limits` all bounds.
`child` keeps the process running beside a member.
"""
