"""Pages and an HTTP interface: a client of the grid in a process of its own.

`rollq web` runs it anywhere, and `rollq leader --http PORT` beside a member. It reads from the
applied state of a member, and what changes something goes to the leader as from any other client.
It decides nothing and judges nobody: a request is asked of the group with the credentials of
whoever sent it. What a page shows is a document of `rollq.documents`, as the command line shows it.

Reading order: `setup` is what a process is started with, `server` the port, `app` the way of a
request, `guard` what it passes first, `sessions` and `links` who sent it and their way to the
group, `bodies` what it brings, `call` what a handler gets, `routes` the table of all handlers: `me`
(logins), `overview` (with `live`, what is looked at for all pages of an account, and `events`, how
it is sent), `jobs`, `batches`, `job_output`, `submits`, `orders` (what changes something), `views`,
`rules` (what operators set about scheduling), `schedules`, `access` (with `facts`, the search of
the history), `history` (tables of a pipeline), `openapi` (with `answers`, the forms of answers).
`pages` has the files of the pages, `metrics` what a member counts, `errors` how refusals are told,
`limits` all bounds, and `child` keeps the process running beside a member.
"""
