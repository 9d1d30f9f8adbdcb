"""The command `rankdbg`."""

from __future__ import annotations

import gc
import sys

from rankdbg.frontends import interrupts

# Of the garbage collector: with the usual ones it takes half of a command about 10,000 ranks, whose
# values are in use to the end.
_THRESHOLDS = (100_000, 50, 100)


def main() -> None:
    gc.set_threshold(*_THRESHOLDS)
    interrupts.end_at_once()  # the imports take most of the time of a short command
    from rankdbg.frontends import cli

    try:
        status = cli.main(sys.argv[1:])
        interrupts.end_at_once()
    except KeyboardInterrupt:
        interrupts.die()
        status = 130  # where SIGINT is ignored or blocked
    gc.freeze()  # the end of the interpreter looks for garbage once more, in all there is
    sys.exit(status)


if __name__ == "__main__":
    main()
