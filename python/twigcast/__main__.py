"""The program ``twigcast``, also ``python -m twigcast``."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    # While modules are imported there is nothing to clean up: Ctrl-C ends the program, without a traceback.
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from twigcast.cli import execute

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    status = execute()
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while Python shuts down, likewise
    sys.exit(status)


if __name__ == "__main__":
    main()
