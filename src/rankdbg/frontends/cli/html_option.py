"""`--html FILE` of verbs that show a job: the place is checked first, the page is written last."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput

if TYPE_CHECKING:
    from rankdbg.frontends.html.document import PageDocument
    from rankdbg.frontends.html.page_origin import PageOrigin


def add_html(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="write a page to look at and to send: one file that opens offline",
    )


def check_html(options: argparse.Namespace, follows: bool = False) -> None:
    """Before a long question is asked."""
    if options.html is not None:
        from rankdbg.frontends.html.page_files import check_place

        if follows:
            raise BadInput(
                "--html and --follow cannot be used together: a page shows one moment",
                hint="leave one of them out",
            )
        check_place(options.html)


def logs_origin(options: argparse.Namespace) -> str:
    """Where the logs are from."""
    return ", ".join(options.paths) or ", ".join(options.target or ()) or "local"


def write_html(
    options: argparse.Namespace,
    document_of: Callable[[PageOrigin], PageDocument],
    verb: str,
    target: str,
    saved: str = "",
) -> None:
    """`target`: where the data is from; `saved`: when, if not now."""
    from rankdbg.frontends.html.page_files import write_page
    from rankdbg.frontends.html.page_origin import PageOrigin
    from rankdbg.text.escapes import visible_line

    time = saved or datetime.now(timezone.utc).isoformat(timespec="seconds")
    write_page(document_of(PageOrigin(f"rankdbg {verb}", target, time)), options.html)
    sys.stderr.write(f"report: {visible_line(options.html)}\n")
