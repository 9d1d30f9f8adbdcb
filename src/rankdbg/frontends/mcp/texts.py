"""Documents in few lines, for models and people: what matters first, equal things once.

Texts are made from documents whose texts have been cleaned (job_text.py). What a rank has said
itself (a value, a message, an output) is in quotes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from rankdbg.frontends.mcp.text_parts import (
    LONGEST_LINE,
    LONGEST_RANKS,
    Document,
    notes,
    numbers_text,
    place,
    quoted,
    ranks_text,
    row,
    silent_lines,
)
from rankdbg.process.user_code import innermost_user_frame, is_user_code
from rankdbg.text.amounts import counted
from rankdbg.text.cutting import cut

Text = Callable[[Document], list[str]]

MOST_EVIDENCE = 6
MOST_FRAMES = 6


# --- jobs, verdicts -----------------------------------------------------------------------


def jobs(document: Document) -> list[str]:
    lines = []
    for job in document["jobs"]:
        mesh = " ".join(f"{name}={size}" for name, size in job["mesh"].items())
        head = f"job {job['job']}: {_counted(job)} {mesh}"
        lines.append(head.rstrip())
        lines += _folded([rank for rank in document["ranks"] if rank["job"] == job["job"]])
    return [*lines, *silent_lines(document), *notes(document)]


def _counted(job: Document) -> str:
    text = counted(job["count"], "rank")
    return f"{text} ({cut(job['ranks'], LONGEST_RANKS)})"


def _folded(ranks: Iterable[Document]) -> list[str]:
    same: dict[tuple[str, ...], list[Document]] = {}
    for rank in ranks:
        step = "" if rank.get("step") is None else f"step {rank['step']}"
        told = (rank.get("role") or "", rank["state"], place(rank.get("where")), step)
        same.setdefault(told, []).append(rank)
    lines = []
    for key, some in sorted(same.items(), key=lambda item: -len(item[1])):
        hosts = dict.fromkeys(str(rank["host"]) for rank in some)
        where = next(iter(hosts)) if len(hosts) == 1 else f"{len(hosts)} nodes"
        pid = f"pid {some[0]['pid']}" if len(some) == 1 else ""
        lines.append(f"  {numbers_text(some)}: {', '.join(filter(None, [*key, where, pid]))}")
    return lines


def why(document: Document) -> list[str]:
    findings = document["findings"]
    lines = [cut(document["says"], LONGEST_LINE)]
    if findings:
        first = findings[0]
        lines += row("culprit", ranks_text(document["culprit"]) + _processes(document["processes"]))
        lines += row("cause", f"{first['says']} [{first['cause']}]")
        lines += row("", first.get("why"), 220)
        lines += row("waiting", ranks_text(document["waiting"]) if document["waiting"] else "")
        lines += row("chain", _chain(document["chain"]), 240)
        lines += row("next", document["next"])
        lines += row("confidence", document["confidence"])
        proofs = document["evidence"]
        lines += [f"- {cut(proof, 160)}" for proof in proofs[:MOST_EVIDENCE]]
        lines += (
            [f"- and {len(proofs) - MOST_EVIDENCE} more"] if len(proofs) > MOST_EVIDENCE else []
        )
        for other in findings[1:3]:
            who = ranks_text(other["culprit"])
            lines.append(cut(f"also: {who}: {other['says']} [{other['cause']}]", 200))
        lines += [f"and {len(findings) - 3} more findings"] if len(findings) > 3 else []
    else:
        lines += [
            cut(f"{ranks_text(each['ranks'])}: {each['says']}{_moving(each)}", 200)
            for each in document["ranks"][:6]
        ]
    lines += row("ended or not started", document.get("absent"), 120)
    lines += (
        failures({"failures": document.get("failures", [])[:2]}) if document.get("failures") else []
    )
    return [line.removeprefix(": ") for line in lines]


def _moving(each: Document) -> str:
    if not each.get("moving"):
        return ""
    return f" (moving: {each['progress'][0]})" if each.get("progress") else " (moving)"


def _processes(processes: Sequence[Document]) -> str:
    if len(processes) != 1 or not processes[0].get("pid"):
        return ""
    return f" ({processes[0]['host']}, pid {processes[0]['pid']})"


def _chain(chain: Sequence[Document]) -> str:
    """rank 5 waits for the named pipe shard-0007 to be opened by no other process"""
    return "; ".join(f"{link['who']} {link['what']} {link['whom']}" for link in chain[:4])


def failures(document: Document) -> list[str]:
    lines = []
    for number, failure in enumerate(document["failures"]):
        ranks = f", {ranks_text(failure['ranks'])}" if failure["ranks"] else ""
        host = f" ({failure['host']})" if failure.get("host") else ""
        lines.append(f"{failure['role']}: {failure['mode']}{ranks}{host}")
        lines += [f"  {quoted(line, 240)}" for line in failure.get("lines", ())[:1]]
        if number == 0:
            lines += row("  cause", failure["cause"]) + row("  next", failure["next"])
    return lines


def doctor(document: Document) -> list[str]:
    lines = failures(document) or ["Nothing has failed that a rule knows."]
    sure = document.get("confidence")
    lines += row("confidence", ": ".join(filter(None, _confidence(sure))) if sure else "")
    if hang := document.get("hang"):
        lines += row("hang", hang["says"])
    cluster = document.get("cluster") or {}
    lines += row("ended ranks", cluster.get("gone"), 80) + row(
        "missing ranks", cluster.get("missing"), 80
    )
    lines += [f"value: {cut(str(trend), 160)}" for trend in document.get("trends", ())[:3]]
    lines += node_complaints(document.get("nodes") or {})
    return [*lines, *silent_lines(cluster), *notes(cluster)]


def _confidence(sure: Document) -> list[str]:
    return [str(sure["level"]), "; ".join(map(str, sure["reasons"]))]


# --- stacks, values -----------------------------------------------------------------------


def stacks(document: Document) -> list[str]:
    odd = {*document["odd"]}
    lines = []
    for group in document["groups"]:
        mark = "  <- odd one out" if group["ranks"] in odd else ""
        thread = "" if group["thread"] == "main thread" else f", thread {cut(group['thread'], 40)}"
        moving = ", moving" if group["moving"] else ""
        lines.append(f"{ranks_text(group['ranks'], group['count'])}{thread}{moving}{mark}")
        lines += [f"  {text}" for text in _frames(group["frames"])]
        lines += _locals(group)
    for name in ("details", "why"):
        told = dict.fromkeys(str(text) for text in (document.get(name) or {}).values())
        lines += [f"note: {cut(text, LONGEST_LINE)}" for text in [*told][:3]]
    return [*lines, *silent_lines(document)]


def _frames(frames: Sequence[Document]) -> list[str]:
    """The innermost, and those of the program; libraries between them are counted."""
    if not frames:
        return ["(no Python frame)"]
    first = innermost_user_frame(frame["file"] for frame in frames)
    shown = [0, *range(first, len(frames))] if first else [*range(len(frames))]
    own = [i for i in shown if i == 0 or i == first or is_user_code(frames[i]["file"])]
    kept = own[:MOST_FRAMES]
    lines, last = [], -1
    for i in kept:
        if i - last > 1:
            lines.append(f"... {_frames_between(i - last - 1)} of libraries")
        lines.append(place(frames[i]))
        last = i
    rest = len(frames) - 1 - last
    return lines + ([f"... {_frames_between(rest)} further out"] if rest > 0 else [])


def _frames_between(count: int) -> str:
    return "1 frame" if count == 1 else f"{count} frames"


def _locals(group: Document) -> list[str]:
    """The variables of the innermost frame of the program, of one rank."""
    for rank, frames in (group.get("locals") or {}).items():
        index = innermost_user_frame(frame["file"] for frame in group["frames"])
        values = frames[index] if index < len(frames) else {}
        shown = [f"    {name} = {quoted(value, 120)}" for name, value in [*values.items()][:12]]
        return [f"  variables of {ranks_text(rank)}:", *shown] if shown else []
    return []


def ask(document: Document) -> list[str]:
    lines = []
    for group in document["groups"]:
        mark = "  <- odd one out" if group["odd"] else ""
        lines.append(
            f"{ranks_text(group['ranks'], group['count'])}: {quoted(group['value'])}{mark}"
        )
    if spread := document.get("spread"):
        figures = ", ".join(f"{name} {spread[name]}" for name in ("min", "median", "max"))
        lines.append(f"spread over {spread['count']} ranks: {figures}")
    return [*lines, *silent_lines(document)]


def logs(document: Document) -> list[str]:
    lines = []
    for each in document["lines"]:
        who = ranks_text(each["ranks"]) if each["ranks"] else ", ".join(each["others"][:2])
        clock = str(each["time"] or "")[11:23]
        lines.append(f"{clock} {who}: {quoted(each['text'])}".strip())
    return [*(lines or ["no messages"]), *notes(document)]


# --- collectives, histories, replicas, profiles, nodes --------------------------------------


def collectives(document: Document) -> list[str]:
    lines = [cut(str(each["text"]), LONGEST_LINE) for each in document["culprits"]]
    lines += [cut(f"mismatch: {each['text']}", LONGEST_LINE) for each in document["mismatches"][:5]]
    for group in document["groups"][:6]:
        name = group.get("description") or group["group"]
        lines.append(cut(f"group {name}: {ranks_text(group['members'])}", 120))
        for some in group.get("ranks", ())[:4]:
            entered = some.get("entered") or some.get("finished") or {}
            if not entered:
                lines.append(f"  {ranks_text(some['ranks'])}: entered nothing")
                continue
            number = f" #{entered['number']}" if entered.get("number") is not None else ""
            what = f"{entered['operation']}{number}"
            at = place(entered.get("where"))
            doing = "waits in" if some.get("waiting") else "last:"
            lines.append(cut(f"  {ranks_text(some['ranks'])}: {doing} {what} {at}".rstrip(), 200))
    lines += row("without records", document["without_evidence"], 80)
    return [*lines, *silent_lines(document)]


def history(document: Document) -> list[str]:
    lines = []
    if compared := document.get("compared"):
        lines.append(f"compared: steps {compared[0]} to {compared[-1]}")
    for each in document["departures"][:5]:
        step = "" if each["step"] is None else f" in step {each['step']}"
        lines.append(f"{ranks_text(each['ranks'])} parted from {ranks_text(each['others'])}{step}")
        for name, key in (
            ("last in common", "common"),
            ("then they", "theirs"),
            ("others", "others_did"),
        ):
            lines += row(f"  {name}", _event(each.get(key)))
    return lines


def _event(event: Document | None) -> str:
    if not event:
        return "nothing more"
    number = f" #{event['number']}" if event.get("number") is not None else ""
    file = str(event.get("file") or "").rpartition("/")[2]
    value = f" = {quoted(event['value'], 60)}" if event.get("value") not in (None, "") else ""
    return f"{event['kind']} {event.get('name') or ''}{number}{value} {file}:{event.get('line')}"


def diverge(document: Document) -> list[str]:
    lines = []
    for each in document["differences"]:
        odd = f"odd: {ranks_text(each['odd'])}" if each["odd"] else "no majority"
        small = ", within rounding" if each.get("within_rounding") else ""
        most = [
            g.get("max_difference") for g in each["groups"] if g.get("max_difference") is not None
        ]
        far = f", max difference {most[0]:g}" if most and isinstance(most[0], (int, float)) else ""
        since = (each.get("since") or {}).get("step")
        when = f", since step {since}" if since is not None else ""
        lines.append(cut(f"{each['kind']} {each['name']}: {odd}{far}{small}{when}", LONGEST_LINE))
    for cause in (document.get("first") or {}).get("causes", ()):
        lines += row("cause", cause["text"])
    return [*lines, *silent_lines(document)]


def profile(document: Document) -> list[str]:
    lines = []
    for each in document["rows"][:20]:
        calls = f" > {cut(str(each['calls']), 60)}" if each.get("calls") else ""
        odd = f", odd: {ranks_text(each['odd'])}" if each.get("odd") else ""
        waits = ", waits for others" if each.get("waits") else ""
        lines.append(f"{100 * each['mean']:5.1f} %  {place(each['where'])}{calls}{waits}{odd}")
    return [*lines, *silent_lines(document)]


def node_complaints(nodes: Document) -> list[str]:
    """The same of several nodes once."""
    found: dict[tuple[str, str], list[str]] = {}
    for node, told in nodes.items():
        for each in told.get("complaints", ()):
            found.setdefault((str(each["text"]), str(each.get("next") or "")), []).append(node)
    lines = []
    for (text, fix), where in found.items():
        more = f" and {len(where) - 3} more" if len(where) > 3 else ""
        lines.append(cut(f"{', '.join(where[:3])}{more}: {text}", LONGEST_LINE))
        lines += row("  next", fix)
    return lines


def node_health(document: Document) -> list[str]:
    lines = node_complaints(document["nodes"]) or ["Nothing is wrong with the nodes that answered."]
    for node, told in [*document["nodes"].items()][:4]:
        gpus = told.get("gpus") or []
        free = told.get("memory", {}).get("available")
        memory = f"{free / 2**30:.1f} GiB of memory available" if free else ""
        many = f"{len(gpus)} GPUs" if gpus else ""
        lines += row(node, ", ".join(filter(None, [many, memory])))
    lines += [f"kernel of {m['node']}: {quoted(m['text'], 200)}" for m in document["messages"][-5:]]
    return [*lines, *silent_lines(document)]


# --- what was done ------------------------------------------------------------------------


def snapshot(document: Document) -> list[str]:
    return [
        f"saved {counted(document['ranks'], 'rank')} ({document['bytes'] // 1024} KiB)",
        f"ask it with target {document['snapshot']}; its report: {document['resource']}",
    ]


def breaks(document: Document) -> list[str]:
    lines = []
    for group in document["groups"]:
        told = {key: value for key, value in group.items() if key != "ranks" and value}
        lines.append(
            f"{ranks_text(group['ranks'])}: {cut(json.dumps(told, default=str), LONGEST_LINE)}"
        )
    return [*lines, *silent_lines(document)]


def pause(document: Document) -> list[str]:
    lines = [
        f"{ranks_text(each['rank'])}: {each['state']} {place(each['where'])}".rstrip()
        for each in document["ranks"][:20]
    ]
    return [*lines, *silent_lines(document)]


def cast(document: Document) -> list[str]:
    lines = []
    for group in document["groups"]:
        lines.append(f"{ranks_text(group['ranks'], group['count'])} ({group['state']}):")
        lines += [f"  {quoted(line)}" for line in str(group["output"]).splitlines()[:20]]
    for each in document["running"][:10]:
        lines.append(f"{ranks_text(each['rank'])} has not returned: {place(each.get('where'))}")
    lines += row("not stopped", document["not_stopped"], 80)
    return [*lines, *silent_lines(document)]
