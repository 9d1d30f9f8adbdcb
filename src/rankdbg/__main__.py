"""The command `rankdbg`."""

from __future__ import annotations

import sys

from rankdbg.frontends import interrupts


def main() -> None:
    interrupts.end_at_once()  # the imports take most of the time of a short command
    from rankdbg.frontends import cli

    try:
        status = cli.main(sys.argv[1:])
        interrupts.end_at_once()
    except KeyboardInterrupt:
        interrupts.die()
        status = 130  # where SIGINT is ignored or blocked
    sys.exit(status)


if __name__ == "__main__":
    main()
