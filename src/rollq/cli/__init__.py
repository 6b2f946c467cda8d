"""The command line: one module per command, named after it (`rollq logs` is `joblogs`). `main`
is the entry point. `tree` names the commands and imports the one that runs; a new command is a
module with `register`, or a Typer `app` if it has subcommands, and its name in `tree`.
`docs/make_cli.py` generates its page in `docs/cli`.

Shared modules:

- `options`, `credentials`, `config`, `pages`, `ids`: arguments and options, their defaults and
help;
- `output`, `results`, `progress`, `failures`, `stdin`: output and exit codes, and what is read;
- `grid`, `choosing`, `ending`, `waiting`: the client of a command, and waiting for jobs;
- `published`: subjects and messages, for `publish`, `subscribe` and `request`;
- `rows`, `event_lines`: live history rows, for `watch` and `history tail`;
- `service`, `notify`, `logs`, `tracing`, `places`: processes that run until a signal;
- `submit_options`, `submit_checks`, `submitting`, `needs`, `following`, `joblist`, `filejobs` for
  `submit`;
  `flow_file` and `flow_changes` for `flow`; `health` for `doctor`; `jobfollow` for `job`;
  `fleet` and `audit` for `demo`;
  `spark` and `tables` for `sql`, `report` and `pipeline`, `sql_shell` for `sql`,
  `pipeline_serve` and `pipeline_tables` for `pipeline`; `access_credentials` and
  `access_roles` for `access`; `sandboxing` for `worker`;
  `top_look` (queries), `top_screen` (keys and lines, pure), `top_live` and `terminal` for `top`;
  `units` for `init`.

Heavy imports are inside the commands, because `--help` imports them all. Only `__main__` imports
this package.
"""
