"""The web pages and the HTTP API: a client of the grid in its own process.

`rollq web` runs it anywhere, and `rollq leader --http PORT` as a child of a member. It reads the
applied state of a member; changes are sent to the leader, as by any other client. It makes no
access decisions: requests are sent to the group with the credentials of the user. What a page shows
is a document of `rollq.documents`, as in the output of the command line.

Reading order: `setup` has the settings, `server` the port, `app` the processing of a request,
    `guard`
its first checks, `sessions` and `links` the user's session and connections to the group, `bodies`
the request body, `call` the argument of handlers, `routes` the table of all handlers: `me`
(logins), `overview` (with `live`, the polling for all pages of an account, and `events`, the event
stream), `jobs`, `batches`, `job_output`, `submits`, `orders` (changes), `views`, `rules`
(scheduling settings), `schedules`, `access` (with `facts`, the history search), `history` (tables
of a pipeline), `openapi` (with `answers`, the response types). `pages` has the static files,
`metrics` the metrics of a member, `errors` the error responses, `limits` all limits, and `child`
keeps the process running for a member.
"""
