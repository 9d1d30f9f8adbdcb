"""docs/reference/causes.md: what `rankdbg why` can name, from the rules that it goes by.

python docs/make_reference.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rankdbg.verdicts import hangs
from rankdbg.verdicts.hang_rules import UNKNOWN, HangRule, load_hang_rules

PAGE = Path(__file__).parent / "reference/causes.md"

HEAD = """\
# Causes

What `rankdbg why` can name, and `cause` in its [JSON](json.md). Words such as PLACE stand for
what was seen. The role says what it means for the other ranks: [roles](rules.md#roles). A cause
that is seen in several ways has a paragraph for each. The [gallery](../gallery.md) shows verdicts
on real jobs.

This page is made from the rules: `make reference`.
"""

ALONE = "## Seen in one rank\n"

COMPARED = """\
## Seen by comparing ranks

No rule finds these: they come of what torch's flight recorders say of all ranks, or of a rank
that should be there and is not.
"""

# As verdicts/hangs.py has them, for one rank.
SAID_OF_CULPRITS = {
    "mismatch": "it has come to a collective with another operation, size or type than the others",
    "missing": "it has left out a collective in which others wait, and waits in another",
    "not started": "its GPU has not begun the collective that the others are inside of",
}
OF_ABSENCE = [
    HangRule(
        cause="rank-died",
        says="its process is gone",
        why="The process ended, or was killed; the others wait for it.",
        fix="rankdbg doctor LOGS says why; look at dmesg for an OOM kill",
    ),
    HangRule(
        cause="rank-never-started",
        says="no process of this rank",
        why="The others wait at the start until all ranks have come.",
        fix="look at the launcher's own output: did it start there, did it fail at import?",
    ),
    HangRule(
        cause="kernel-never-ends",
        says="all ranks wait for their GPUs, and nobody is missing from a collective",
        why="A kernel that runs on the GPU does not end: one of the program's own, or a "
        "collective's.",
        fix="rankdbg stacks --cuda names the kernel; for collectives, rankdbg collectives",
    ),
]


def causes() -> str:
    """The text of the page."""
    by_rules = _by_cause([*load_hang_rules(), UNKNOWN])
    compared = [
        HangRule(cause=cause, says=SAID_OF_CULPRITS[reason], why=why, fix=fix)
        for reason, (cause, why, fix) in hangs._OF_CULPRITS.items()
    ]
    by_comparing = _by_cause([*compared, *OF_ABSENCE])
    names = ", ".join(f"[`{cause}`](#{cause})" for cause in sorted({*by_rules, *by_comparing}))
    sections = [_section(cause, rules) for cause, rules in by_rules.items()]
    others = [_section(cause, rules, role=False) for cause, rules in by_comparing.items()]
    return "\n".join([HEAD, f"{names}\n", ALONE, *sections, COMPARED, *others])


def _by_cause(rules: Iterable[HangRule]) -> dict[str, list[HangRule]]:
    found: dict[str, list[HangRule]] = {}
    for rule in rules:
        found.setdefault(rule.cause, []).append(rule)
    return found


def _section(cause: str, rules: list[HangRule], role: bool = True) -> str:
    told = dict.fromkeys(_paragraph(rule, role) for rule in rules)
    return f"### {cause}\n\n" + "\n".join(told)


def _paragraph(rule: HangRule, role: bool) -> str:
    """One item of a list: what is said, why it is so, what to do."""
    means = f" (role `{rule.role}`)" if role else ""
    lines = [f"- *{_said(rule.says)}*{means}", _said(rule.why), f"Do: {_said(rule.fix)}"]
    return "\\\n  ".join(lines) + "\n"


def _said(text: str) -> str:
    """The words that are filled in as capitals; nothing in it shall be taken for markup."""
    text = re.sub(r"\{(\w+)\}", lambda word: word[1].upper(), text)
    return text.replace("__", r"\_\_").replace("<", r"\<")


if __name__ == "__main__":
    PAGE.write_text(causes(), "utf-8")
