"""What answers the tools that look: each calls the Python API and returns its document."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rankdbg.errors import BadInput, NodeFailed, NoJob, NoLogs, RankdbgError
from rankdbg.files import private_files
from rankdbg.frontends.mcp import texts
from rankdbg.investigations.connection import JobConnection
from rankdbg.investigations.documents import json_text
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.hangs.verdicts_with_logs import of_ended_job
from rankdbg.investigations.job_view import JobView
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.nodes.node_health import read_kernels
from rankdbg.investigations.read_only import NotReadOnly, check_read_only
from rankdbg.investigations.replicas.results import KINDS

Document = dict[str, Any]


class Answered(NamedTuple):
    """`summary`: the result in one line; empty if its text begins with one. `lines`: a text of the
    whole answer, where that of a page would mislead."""

    document: Document
    summary: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """`view`: the ranks that are asked; `stop`: set when the call is cancelled; `saved`: where
    snapshots go."""

    connection: JobConnection
    view: JobView
    arguments: dict[str, Any]
    allowed: frozenset[str]
    stop: threading.Event
    saved: Path

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]


# Of the list of ranks: what tells who and where a rank is. `rankdbg ps --json` has more.
_ALWAYS = ("job", "rank", "host", "pid", "state", "where")
_IF_THERE = ("role", "coordinates", "detail", "step")


def list_jobs(call: Call) -> Answered:
    document = call.connection.jobs(call["ranks"], call["job"]).as_json()
    document["ranks"] = [
        {name: rank[name] for name in _ALWAYS}
        | {name: rank[name] for name in _IF_THERE if rank[name] not in (None, "", {})}
        for rank in document["ranks"]
    ]
    document["jobs"] = [job for job in document["jobs"] if job["count"]]
    return Answered(document, lines=tuple(texts.jobs(document)))


def why(call: Call) -> Answered:
    try:
        found = call.view.why(
            seconds=call["seconds"], longest=max(6.0, call["seconds"]), outside=call["outside"]
        )
    except (NoJob, NodeFailed) as error:
        found = _ended(call.view, error)
    return Answered(verdict_document(found))


def verdict_document(found: JobVerdict) -> Document:
    """The evidence of the first finding is that of the verdict, and is left out there."""
    document = found.as_json()
    for finding in document["findings"][:1]:
        del finding["evidence"], finding["processes"]
    return document


def _ended(view: JobView, error: RankdbgError) -> JobVerdict:
    """By the logs that a job has left; raises the error if there are none."""
    try:
        return of_ended_job(view.doctor())
    except (NoJob, NoLogs, NodeFailed):
        raise error from None


def stacks(call: Call) -> Answered:
    found = call.view.stacks(
        threads=call["threads"],
        samples=call["samples"],
        engine=call["engine"],
        with_locals=call["locals"],
    )
    document = found.as_json()
    del document["tree"]  # the same frames once more
    sources = document["sources"]
    if {*sources.values()} <= {"agent"}:
        document["sources"] = {}
    document["groups"].sort(key=lambda group: group["ranks"] not in document["odd"])
    return Answered(document, found.summary())


def ask(call: Call) -> Answered:
    if "ask" not in call.allowed:
        try:
            check_read_only(call["expression"])
        except NotReadOnly as error:
            hint = f"without --allow ask, {error.hint}; rankdbg mcp --allow ask admits any"
            raise BadInput(error.what, hint=hint) from None
    found = call.view.ask(call["expression"], frame=call["frame"])
    return Answered(found.as_json(), found.masked().summary())


def collectives(call: Call) -> Answered:
    found = call.view.collectives()
    return Answered(found.as_json(), found.summary())


def doctor(call: Call) -> Answered:
    return diagnosed(call.view.doctor())


def diagnosed(found: LogDiagnosis) -> Answered:
    return Answered(found.as_json(), found.summary() if found.failures else "")


def logs(call: Call) -> Answered:
    names = ("since", "until", "grep")
    wanted = {name: call[name] for name in names if call[name]}
    found = call.view.logs(tail=call["tail"], **wanted)
    return Answered(found.as_json(), found.summary())


def history(call: Call) -> Answered:
    found = call.view.history()
    return Answered(found.as_json(), found.summary())


def diverge(call: Call) -> Answered:
    more = [kind for kind in ("gradient", "optimizer") if call[_OPTIONS[kind]]]
    across = [name.strip() for name in (call["equal_across"] or "").split(",") if name.strip()]
    found = call.view.diverge(kinds=[*KINDS, *more], equal_across=across)
    return Answered(found.as_json(), found.summary())


_OPTIONS = {"gradient": "gradients", "optimizer": "optimizer"}


def profile(call: Call) -> Answered:
    """Its files are for viewers, which an agent has not: they are removed."""
    folder = Path(tempfile.mkdtemp(prefix="rankdbg-mcp-"))
    try:
        found = call.view.profile(call["seconds"], output=folder / "profile", stop=call.stop)
        document = {**found.as_json(), "files": []}
        summary = found.summary()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for rank in document["ranks"]:
        rank.pop("files", None)
    return Answered(document, summary)


def node_health(call: Call) -> Answered:
    found = call.view.node_health()
    silent = {
        n: told.in_one_line() for n, told in found.health.items() if isinstance(told, RankdbgError)
    }
    ranks = call.view.ranks
    messages = [
        {"node": scan.file.node if scan.file else "", "text": hit.text}
        for scan in read_kernels(found.health, ranks).scans
        for hit in scan.hits
    ]
    return Answered({"nodes": found.as_json(), "messages": messages, "no_response_nodes": silent})


def snapshot(call: Call) -> Answered:
    """With the verdict beside it, as `rankdbg watch` keeps it."""
    job = str(call["job"] or "job")
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in job)[:60]
    name = f"{safe.lstrip('.') or 'job'}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder = _new_folder(call.saved, name)
    verdict = _verdict(call.view)
    saved = call.view.save(folder)
    if verdict is not None:
        with private_files.open_file(folder / "report.json", "w", "utf-8") as file:
            file.write(json_text("why", verdict.as_json()))
    document = {
        **saved.as_json(),
        "snapshot": f"snapshot:{folder}",
        "resource": f"rankdbg://snapshot/{folder.name}",
    }
    return Answered(document)


def _verdict(view: JobView) -> JobVerdict | None:
    try:
        return view.why()
    except RankdbgError:
        return None


def _new_folder(parent: Path, name: str) -> Path:
    """One that is not there yet: several calls may come in one second."""
    for folder in (parent / name, *(parent / f"{name}-{number}" for number in range(2, 100))):
        if not folder.exists():
            return folder
    raise BadInput(f"too many snapshots of this second in {parent}")
