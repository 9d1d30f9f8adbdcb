"""One call of a tool: from its arguments to its document and text."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankdbg.errors import BadInput, ChooseJob, NoJob, PlacedError, RankdbgError, shortened
from rankdbg.frontends.mcp import job_text, pages, text_parts
from rankdbg.frontends.mcp.asking import Answered, Call, Document, diagnosed, verdict_document
from rankdbg.frontends.mcp.parameters import check_arguments
from rankdbg.frontends.mcp.sharing import SharedConnection, SharedConnections
from rankdbg.frontends.mcp.tools import BY_NAME, TOOLS, Tool
from rankdbg.frontends.reaching import default_target
from rankdbg.investigations.documents import finite
from rankdbg.investigations.hangs.verdicts_with_logs import of_ended_job
from rankdbg.investigations.logs.ended_jobs import diagnose_ended

ALL = "all"


@dataclass(frozen=True)
class ServerSettings:
    """`targets`: the only ones that may be asked (none: any), the first one unless a call names
    another; `job`: unless a call names another; `saved`: where snapshots and reports are."""

    saved: Path
    targets: tuple[str, ...] = ()
    job: str | None = None
    allowed: frozenset[str] = frozenset()

    def tools(self) -> list[Tool]:
        return [tool for tool in TOOLS if not tool.needs or tool.needs in self.allowed]


@dataclass(frozen=True)
class Reply:
    text: str
    document: Document | None = None
    is_error: bool = False


@dataclass
class Running:
    """A call on its way, for its thread and for the one that reports its progress."""

    stop: threading.Event = field(default_factory=threading.Event)
    shared: SharedConnection | None = None


class Calls:
    def __init__(self, settings: ServerSettings, connections: SharedConnections) -> None:
        self.settings = settings
        self._connections = connections
        self._cursors = pages.Cursors()

    def answer(self, name: str, given: Mapping[str, Any] | None, running: Running) -> Reply:
        """What is wrong with the call itself is an error; all else is a result."""
        try:
            tool = self._tool(name)
            arguments = check_arguments(tool.parameters, given)
            return self._answer(tool, arguments, running)
        except BadInput as error:
            return Reply(_sentence(error), is_error=True)

    def _tool(self, name: str) -> Tool:
        tool = BY_NAME.get(name)
        if tool is None:
            names = ", ".join(each.name for each in self.settings.tools())
            raise BadInput(f"unknown tool {shortened(name)!r}", hint=f"there are: {names}")
        if tool.needs and tool.needs not in self.settings.allowed:
            raise BadInput(
                f"refused: {name} changes the job",
                hint=f"rankdbg mcp --allow {tool.needs} admits it",
            )
        return tool

    def _answer(self, tool: Tool, arguments: dict[str, Any], running: Running) -> Reply:
        if arguments.get("cursor"):
            rest = self._cursors.take(tool.name, arguments["cursor"])
            return self._reply(tool, rest.document, Answered(rest.document), rest.place, arguments)
        targets = self._targets(arguments["target"])
        head = {"schema": f"rankdbg.{tool.document}/1", "target": " ".join(targets)}
        try:
            answered = self._ask(tool, targets, arguments, running)
        except BadInput:
            raise
        except RankdbgError as error:
            return _problem(tool, head, error)
        return self._reply(tool, head, answered, 0, arguments)

    def _targets(self, named: str | None) -> tuple[str, ...]:
        admitted = self.settings.targets
        targets = tuple((named or "").split())
        if admitted and not {*targets} <= {*admitted}:
            raise BadInput(
                f"refused: target {shortened(named or '')}",
                hint=f"this server was started for {' '.join(admitted)} alone",
            )
        return targets or admitted[:1] or tuple(default_target())

    def _ask(
        self, tool: Tool, targets: tuple[str, ...], arguments: dict[str, Any], running: Running
    ) -> Answered:
        arguments["job"] = arguments["job"] or self.settings.job
        try:
            with self._connections.use(targets, running.stop) as (connection, running.shared):
                view = connection.of(arguments["job"])
                ranks = arguments.get("ranks") or ALL
                view = view if ranks == ALL else view.select(ranks)
                allowed, saved = self.settings.allowed, self.settings.saved
                return tool.answer(Call(connection, view, arguments, allowed, running.stop, saved))
        except NoJob:
            diagnosis = diagnose_ended(targets) if tool.document in ("why", "doctor") else None
            if diagnosis is None:
                raise
            if tool.document == "why":
                return Answered(verdict_document(of_ended_job(diagnosis)))
            return diagnosed(diagnosis)

    def _reply(
        self, tool: Tool, head: Document, answered: Answered, place: int, arguments: dict[str, Any]
    ) -> Reply:
        room = arguments["max_chars"]
        document, cursor, left = answered.document, None, {}
        if tool.paged:
            items = document[tool.paged]
            page, end = pages.page_of(items, place, int(room * pages.SHARE), tool.from_end)
            if end < len(items):
                whole = {**document, "schema": head["schema"], "target": head["target"]}
                cursor = self._cursors.keep(tool.name, whole, end)
                left = {tool.paged: len(items) - end}
            document = {**document, tool.paged: page}
        document, cut = pages.fitted(document, room, tool.paged)
        cleaned: Document = job_text.clean(finite(document))
        lines = [job_text.clean_text(line) for line in answered.lines] or tool.text(cleaned)
        if answered.summary:
            lines = [job_text.clean_text(answered.summary), *lines]
        if cursor:
            lines += [f"{left[tool.paged]} more {tool.paged}: cursor {cursor}"]
        document = {
            "schema": head["schema"],
            "target": job_text.clean_text(head["target"]),
            **cleaned,
            "from_job": tool.from_job.split(),
            "left_out": {**cut, **left},
            **({"next_cursor": cursor} if tool.paged else {}),
        }
        return Reply(text_parts.fit(lines, min(tool.text_room, room)), document)


def _problem(tool: Tool, head: Document, error: RankdbgError) -> Reply:
    """A target that does not answer, or a job that is not there, is a result too."""
    hint = error.hint
    if isinstance(error, ChooseJob):
        hint = "give one of them as job"
    said = job_text.clean_text("; ".join([error.what, *error.why]))
    document = {**head, "problem": said, "hint": job_text.clean_text(hint, "hint")}
    text = f"{said}\nhint: {document['hint']}" if hint else said
    return Reply(text, {**document, "from_job": [], "left_out": {}})


def _sentence(error: RankdbgError) -> str:
    """Without the caret below the place, which needs lines."""
    why = error.why[2:] if isinstance(error, PlacedError) else error.why
    hint = [f"hint: {error.hint}"] if error.hint else []
    return job_text.clean_text("; ".join([error.what, *why, *hint]), "hint", longest=600)
