"""The command line: one file a subcommand. Heavy imports happen inside the commands."""
