"""The command line: `rollq`, and `python -m rollq`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line.

    Importing the commands takes a moment. Until then Ctrl-C ends the process by the signal, with
    exit code 130 in a shell, instead of Python's traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rollq.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
