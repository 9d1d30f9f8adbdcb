"""How a watch reaches its job, again and again, and how it shows a verdict."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable

from rankdbg.frontends.reaching import default_target, open_session
from rankdbg.frontends.reports.verdicts import print_verdict
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.session import Session


def opener(options: argparse.Namespace) -> Callable[[], Session]:
    """Opens sessions by these options; the target that is found is printed once."""

    def open_again() -> Session:
        options.target = options.target or default_target()
        return open_session(options)

    return open_again


class ReportsOfVerdicts:
    """What a watch writes for people."""

    def text(self, verdict: JobVerdict) -> str:
        text = io.StringIO()
        print_verdict(Terminal(text), verdict)
        return text.getvalue()

    def page(self, verdict: JobVerdict, target: str, time: str) -> str:
        from rankdbg.frontends.html.job_document import document_of
        from rankdbg.frontends.html.page_files import page_text
        from rankdbg.frontends.html.page_origin import PageOrigin

        return page_text(document_of(verdict, PageOrigin("rankdbg why", target, time)))
