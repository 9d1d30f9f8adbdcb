"""What a tab asks beside its looks: values of an expression, and messages of logs.

Each question is asked in a thread of its own: a node that does not answer delays neither the page nor
the end of the server. One of each kind is under way, and the newest one waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from rankdbg.errors import RankdbgError, shortened
from rankdbg.frontends.html.page_files import without_hidden_text
from rankdbg.frontends.web.asked_values import colouring_of
from rankdbg.investigations.answers import Answers
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.job_view import JobView
from rankdbg.investigations.logs.merged_logs import MergedLogs
from rankdbg.investigations.logs.merged_messages import label
from rankdbg.investigations.read_only import check_read_only
from rankdbg.process.masking import mask_text

MOST_MESSAGES = 200
LONGEST_MESSAGE = 2000  # characters


@dataclass
class TabQuestions:
    """`wake`: in the thread that serves, when there is an answer."""

    job: JobView
    loop: asyncio.AbstractEventLoop
    wake: Callable[[], None]
    _asked: set[str] = field(default_factory=set)  # kinds that are not answered yet
    _newer: dict[str, Callable[[], None]] = field(default_factory=dict)  # that wait for these
    _answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def ask(self, expression: str) -> None:
        def values() -> Any:
            check_read_only(expression)
            return self.job.ask(expression)

        self._begin("answer", {"expression": expression}, values)

    def read_logs(self, ranks: str, grep: str) -> None:
        def messages() -> Any:
            chosen = self.job.select(ranks) if ranks else self.job
            return chosen.logs(grep=grep, tail=MOST_MESSAGES)

        self._begin("logs", {"ranks": ranks, "grep": grep}, messages)

    def _begin(self, kind: str, question: dict[str, Any], find: Callable[[], Any]) -> None:
        if kind in self._asked:
            self._newer[kind] = lambda: self._begin(kind, question, find)
            return
        self._asked.add(kind)

        def run() -> None:
            found, problem = None, ""
            try:
                found = find()
            except RankdbgError as error:
                problem = str(error)
            except Exception as error:
                problem = f"internal error in rankdbg: {type(error).__name__}: {error}"
            with suppress(RuntimeError):  # the server has ended
                self.loop.call_soon_threadsafe(end, found, problem)

        def end(found: Any, problem: str) -> None:
            self._asked.discard(kind)
            if begin_newer := self._newer.pop(kind, None):
                begin_newer()
                return
            self._answers[kind] = {**question, "found": found, "problem": problem}
            self.wake()

        threading.Thread(target=run, name=f"rankdbg web {kind}", daemon=True).start()

    def take_answers(self, shown: JobVerdict | None) -> dict[str, Any]:
        """Those that have come since. `shown`: of the document that the page has: sets of ranks are
        places in it."""
        if shown is None:
            return {}
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            found = answer.pop("found")
            if isinstance(found, Answers):
                answer["colouring"] = colouring_of(found, shown)
            elif isinstance(found, MergedLogs):
                answer |= _messages(found)
        return without_hidden_text(answers)


def _messages(logs: MergedLogs) -> dict[str, Any]:
    return {
        "messages": [
            {
                "time": _iso(each.first),
                "ranks": label(each.who),
                "text": shortened(mask_text(each.text), LONGEST_MESSAGE),
            }
            for each in logs.folds
        ],
        "notes": [*logs.notes],
    }


def _iso(time: float | None) -> str:
    if time is None:
        return ""
    return datetime.fromtimestamp(time, timezone.utc).isoformat(timespec="milliseconds")
