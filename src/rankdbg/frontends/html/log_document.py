"""What logs tell of a job -> the document of its page. Pure: who asked, and when, is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankdbg.frontends.html.document import (
    ChainEdge,
    ChainNode,
    ColourClass,
    Colouring,
    Fact,
    PageDocument,
    TimeView,
    VerdictView,
)
from rankdbg.frontends.html.log_ranks import LogRanks, table_of_logs
from rankdbg.frontends.html.node_views import by_gpu_use, node_view
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.plain_pages import (
    as_text,
    colour_class,
    places_of,
    plain_page,
    plain_verdict,
    without_marks,
)
from rankdbg.frontends.html.time_views import time_view
from rankdbg.frontends.reports.causes import cause_texts, message_of, when_text
from rankdbg.frontends.reports.doctor import print_full_diagnosis
from rankdbg.frontends.reports.phases import print_phases
from rankdbg.investigations.collectives.collective_words import capital
from rankdbg.investigations.logs.log_diagnosis import (
    LogDiagnosis,
    failed_where,
    shown_line,
    stall_in_words,
)
from rankdbg.investigations.logs.rank_phases import (
    RankPhases,
    phase_name,
    silence_text,
    step_text,
    who_are,
)
from rankdbg.process.masking import mask_text
from rankdbg.selection import format_numbers
from rankdbg.text.amounts import counted, duration
from rankdbg.text.cutting import cut
from rankdbg.verdicts.failures.job_phases import Course
from rankdbg.verdicts.failures.root_causes import Failure

MOST_EVIDENCE = 8
MOST_CONSEQUENCES = 4  # in the chain; the widest
LONGEST_LINE = 300  # characters
LONGEST_IN_BOX = 40
_PARTS = {
    "root": "failed first",
    "consequence": "follows from it",
    "teardown": "follows from it",
    "other": "not explained by it",
}
# Those that the chain and the evidence say in another way.
_NOT_FACTS = ("explains", "confidence")


def document_of_logs(found: LogDiagnosis, origin: PageOrigin) -> PageDocument:
    ranks = LogRanks(table_of_logs(found.courses, found.diagnosis, found.state))
    overdue = found.stall.courses if found.stall is not None else ()
    times = time_view(found.courses, found.diagnosis, ranks, overdue)
    colourings = [*_by_failure(found, ranks), *_by_phase(found.phases, ranks)]
    page = _page(ranks, _verdict(found, ranks), colourings, times, origin)
    job = found.state.job if found.state is not None else ""
    return {
        **page,
        "job": job,
        "colourings": [*colourings, *by_gpu_use(found.nodes, ranks.table)],
        "nodes": node_view(found.nodes, ranks.table, origin.time),
        "findings": as_text(lambda t: print_full_diagnosis(t, found)),
    }


def document_of_phases(found: RankPhases, origin: PageOrigin) -> PageDocument:
    """Without a search for failures."""
    ranks = LogRanks(table_of_logs(found.courses))
    stalled = [course for course in found.courses if course.stalled]
    times = time_view(found.courses, None, ranks, stalled)
    title = f"{_who(stalled)} logged nothing for too long." if stalled else "No rank is overdue."
    verdict = plain_verdict(title if found.courses else f"{capital(found.summary())}.")
    verdict["culprits"] = ranks.set_of_courses(stalled)
    verdict["mark"] = "overdue"
    page = _page(ranks, verdict, _by_phase(found, ranks), times, origin)
    return {**page, "findings": as_text(lambda terminal: print_phases(terminal, found))}


def _who(courses: Sequence[Course]) -> str:
    return f"{capital(who_are(courses))} {'has' if len(courses) == 1 else 'have'}"


def _page(
    ranks: LogRanks,
    verdict: VerdictView,
    colourings: list[Colouring],
    times: TimeView | None,
    origin: PageOrigin,
) -> PageDocument:
    page = plain_page(ranks.table, verdict, colourings, origin)
    return {**without_marks(page), "times": times}


# --- the verdict --------------------------------------------------------------------------


def _verdict(found: LogDiagnosis, ranks: LogRanks) -> VerdictView:
    if not found.failures:
        return _without_failure(found, ranks)
    root = found.failures[0]
    sure = found.diagnosis.confidence
    nodes, edges = _chain(found, ranks)
    return {
        **plain_verdict(f"The job failed: {root.mode}{failed_where(root)}."),
        "state": "failed",
        "says": ", ".join(filter(None, (when_text(root).removeprefix(", "), _read(found)))),
        "subtitle": root.first.rule.cause,
        "facts": _facts(found, root),
        "confidence": sure.level if sure is not None else "",
        "evidence": _evidence(root, sure.reasons if sure is not None else ()),
        "culprits": ranks.set_of(root.ranks, root.first.origin.actor),
        "mark": "failed first",
        "nodes": nodes,
        "edges": edges,
        "notes": _notes(found),
    }


def _without_failure(found: LogDiagnosis, ranks: LogRanks) -> VerdictView:
    view = plain_verdict("Nothing has failed.")
    view["says"] = _read(found)
    view["notes"] = _notes(found)
    if found.hang is not None:
        view["title"] = capital(found.hang.says)
        view["notes"].append("rankdbg why --html shows who waits for whom")
    elif found.stall is not None:
        view["title"] = "Nothing has failed, but the job is stalled."
        view["subtitle"] = f"{capital(stall_in_words(found.stall))}."
        view["culprits"] = ranks.set_of_courses(found.stall.courses)
        view["mark"] = "stalled"
    return view


def _read(found: LogDiagnosis) -> str:
    return f"{counted(len(found.scans), 'file')} read"


def _facts(found: LogDiagnosis, root: Failure) -> list[Fact]:
    place = f"{root.first.path}:{root.first.line}" if root.first.line else root.first.path
    line = cut(mask_text(message_of(root.first.text)), LONGEST_LINE)
    texts = [("cause", line), *cause_texts(found)]
    return [
        {
            "name": name,
            "text": text,
            "tag": root.mode if name == "cause" else "",
            "more": place if name == "cause" else "",
        }
        for name, text in texts
        if text and name not in _NOT_FACTS
    ]


def _evidence(root: Failure, reasons: Iterable[str]) -> list[str]:
    others = (line for line in root.lines if line != root.first.evidence)
    lines = [cut(shown_line(line), LONGEST_LINE) for line in others]
    return [*map(mask_text, reasons), *lines[:MOST_EVIDENCE]]


def _notes(found: LogDiagnosis) -> list[str]:
    state = found.state
    if state is None:
        return []
    silent = [f"{node}: {why}" for node, why in state.silent_nodes.items()]
    return [*map(mask_text, (*state.notes, *state.hints, *silent))]


def _chain(found: LogDiagnosis, ranks: LogRanks) -> tuple[list[ChainNode], list[ChainEdge]]:
    """What follows, each with an arrow to the cause."""
    root, *others = found.failures
    follows = [each for each in others if each.role in ("consequence", "teardown")]
    follows.sort(key=lambda each: -len(each.ranks))
    shown = follows[:MOST_CONSEQUENCES]
    nodes = [_box(each, ranks, "follows from it") for each in shown]
    edges: list[ChainEdge] = [
        {"source": number, "target": len(shown), "label": _later(root, each)}
        for number, each in enumerate(shown)
    ]
    return [*nodes, _box(root, ranks, "cause")], edges


def _box(failure: Failure, ranks: LogRanks, role: str) -> ChainNode:
    count = len(failure.ranks)
    number = cut(format_numbers(failure.ranks), LONGEST_IN_BOX)
    own = {rank.host for rank in ranks.ranks_of(failure.ranks)} - {""}
    where = failure.host if len(own) < 2 else counted(len(own), "node")
    lines = [f"rank{'s' * (count > 1)} {number}" if count else "", where]
    lines.append(counted(len(failure.findings), "line"))
    return {
        "kind": "rank" if count else "process",
        "role": role,
        "title": cut(failure.mode, LONGEST_IN_BOX),
        "lines": [line for line in lines if line],
        "ranks": ranks.set_of(failure.ranks, failure.first.origin.actor),
        "hot": role == "cause",
    }


def _later(root: Failure, other: Failure) -> str:
    """`` where clocks do not tell, or tell that it was noticed before."""
    times = root.time, other.time
    if None in times or not (root.first.comparable and other.first.comparable):
        return ""
    seconds = (other.time or 0.0) - (root.time or 0.0)
    return f"{duration(seconds)} later" if seconds >= 1 else ""


# --- what the grid is coloured by ---------------------------------------------------------


def _by_failure(found: LogDiagnosis, ranks: LogRanks) -> list[Colouring]:
    """Of several, a rank has the one that is nearest to the cause."""
    if not found.failures:
        return []
    classes: list[ColourClass] = []
    left = {rank.process for rank in ranks.table.ranks}
    for failure in found.failures:
        members = ranks.ranks_of(failure.ranks, failure.first.origin.actor)
        own = [rank for rank in members if rank.process in left]
        left -= {rank.process for rank in own}
        if own:
            odd = failure.role == "root"
            classes.append(
                colour_class(failure.mode, _PARTS[failure.role], ranks.table.set_of(own), odd=odd)
            )
    if left:
        classes.append(
            colour_class("no failure", "", ranks.table.set_of_processes(left), code=False)
        )
    classes.sort(key=lambda each: (each["odd"], -len(places_of(each["ranks"]))))
    return [{"name": "failure", "columns": ["failure", "part"], "classes": classes}]


def _by_phase(found: RankPhases, ranks: LogRanks) -> list[Colouring]:
    groups: dict[tuple[str, str, str], list[Course]] = {}
    for course in found.courses:
        if course.who.rank is not None or course.writers:
            now = course.now
            says = silence_text(course)
            key = phase_name(now) + step_text(now), now.rule.stack, says
            groups.setdefault(key, []).append(course)
    classes = [
        colour_class(text, says, ranks.set_of_courses(those), at=stack, code=False)
        for (text, stack, says), those in groups.items()
    ]
    classes = sorted(
        (each for each in classes if each["ranks"]), key=lambda c: -len(places_of(c["ranks"]))
    )
    known = sum(len(places_of(each["ranks"])) for each in classes)
    if known < len(ranks.table.ranks):
        told = [course for those in groups.values() for course in those]
        classes.append(colour_class("no phase", "", ranks.others_than(told), code=False))
    return [{"name": "last phase", "columns": ["phase", "output"], "classes": classes}]
