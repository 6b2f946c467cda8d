"""The command line: `rollq`, and `python -m rollq`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command that the arguments name.

    The commands take a moment to import and to build. Ctrl-C in this time ends the process by the
    signal itself, which a shell shows as 130: Python's own handler would print a traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rollq.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
