"""The command `rankdbg`."""

from __future__ import annotations

import sys


def main() -> None:
    from rankdbg.frontends import cli

    sys.exit(cli.main(sys.argv[1:]))


if __name__ == "__main__":
    main()
