"""The command line: one module a command, named as the command (`rollq logs` is `joblogs`).

`main` is the tree of commands; a new command is a module with `register`, or a Typer `app` if it
has subcommands, and its line there. `docs/make_cli.py` then makes its page in `docs/cli`.

What commands share:

- `options`, `credentials`, `config`, `pages`, `ids`: arguments and
  options, their defaults, their help;
- `output`, `results`, `progress`, `failures`: what is printed, and exit codes;
- `grid`, `choosing`, `ending`, `waiting`: a client for one command, and waiting for ends;
- `published`: subjects and messages, for `publish`, `subscribe` and `request`;
- `rows`, `event_lines`: the history as it comes, for `watch` and `history tail`;
- `service`, `notify`, `logs`, `tracing`, `places`: processes that run until a signal;
- `submitting`, `submit_checks`, `needs`, `following`, `joblist`, `filejobs` for `submit`;
  `flow_file` for `flow`; `health` for `doctor`; `jobfollow` for `job`; `fleet` and `audit` for
  `demo`;
  `spark` and `tables` for `sql`, `report` and `pipeline`, `sql_shell` for `sql`,
  `pipeline_serve` and `pipeline_tables` for `pipeline`; `access_credentials` and
  `access_roles` for `access`; `sandboxing` for `worker`;
  `top_look` (asks), `top_screen` (keys and lines, pure), `top_live` and `terminal` for `top`;
  `units` for `init`.

Heavy imports happen inside the commands, because `--help` must be quick. Only `__main__`
imports this package.
"""
