"""Ranks that wait for child processes: what the children do explains the wait.

A child is examined like a rank, and has a sign by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rankdbg.verdicts.hangs import hang_rules
from rankdbg.verdicts.hangs.evidence import Seen
from rankdbg.verdicts.hangs.hang_rules import UNKNOWN, HangRule, Known, Role, Sign
from rankdbg.wire.answers import Child


def find_signs(ranks: Iterable[Seen], rules: Sequence[HangRule]) -> list[Sign]:
    """Of 10,000 ranks most look alike: these are compared with the rules once."""
    known: Known = {}
    return [find_sign(seen, rules, known) for seen in ranks]


def find_sign(seen: Seen, rules: Sequence[HangRule], known: Known | None = None) -> Sign:
    sign = hang_rules.find_sign(seen, rules, known)
    if not sign.rule.children or not seen.children:
        return sign
    children = [find_sign(child, rules, known) for child in seen.children]
    if sign.rule.child_forked:
        if any(map(_may_wait_for_copied_lock, children)):
            return sign
        sign = hang_rules.find_sign(seen, [rule for rule in rules if not rule.child_forked])
    return _explained(sign, children)


_LOCKS = {"unknown", "waits-for-lock", "lock-cycle", "import-lock", "fork-with-lock"}


def _may_wait_for_copied_lock(sign: Sign) -> bool:
    """In the same system call a child may wait for an event, or for another process."""
    child = sign.seen.after
    return isinstance(child, Child) and child.forked and sign.rule.cause in _LOCKS


def has_unseen_children(sign: Sign) -> bool:
    """Whether the rank waits and its children could be examined, but have not been."""
    seen = sign.seen
    can_be_asked = any(child.start for child in seen.after.workers)
    return bool(sign.rule.children) and not seen.children and not seen.stirred and can_be_asked


def _explained(sign: Sign, children: Sequence[Sign]) -> Sign:
    at_work = next((child for child in children if _progresses(child)), None)
    if at_work is not None:
        rule = replace(sign.rule, role="working", unsure=False)
        return _naming_child(replace(sign, rule=rule, progresses=True), at_work, " makes progress")
    asked = [child for child in children if child.rule.role != "idle"]
    if asked:
        return _blamed(sign, max(asked, key=lambda child: child.level))
    return _all_idle(sign, children) if sign.rule.children == "must" else sign


def _progresses(sign: Sign) -> bool:
    """Whether a child is at work: it was woken from waits, or is found in one function after
    another. One that computes in a single function of Python may go round in circles."""
    seen = sign.seen
    if sign.rule.role in ("held", "idle"):
        return False
    if seen.seconds <= 0:  # it has just been started
        return True
    if seen.gets_results or seen.computes_outside_python:
        return True
    return sign.progresses or seen.roams or (seen.stirred and not seen.computes)


def _blamed(sign: Sign, child: Sign) -> Sign:
    """By the child that is surely stuck, or most probably."""
    leaf = child.child or child
    if sign.rule.children == "may":
        return _naming_child(sign, leaf)
    why = leaf.rule.why if leaf.rule is not UNKNOWN else sign.rule.why
    rule = replace(sign.rule, role=_role(leaf), why=why, unsure=False, fix=_fix(sign, leaf))
    return _naming_child(replace(sign, rule=rule, child=leaf), leaf)


def _role(leaf: Sign) -> Role:
    """How patient one has to be with a rank that waits for this child."""
    if leaf.rule.role == "held":
        return "held"
    if leaf.rule is UNKNOWN or not leaf.seen.motionless:
        return "working"
    return "own" if leaf.rule.role in ("collective", "store") else leaf.rule.role


def _fix(sign: Sign, leaf: Sign) -> str:
    """A rule's advice about a rank does not fit a process that has no number."""
    look = f"rankdbg stacks {sign.words['rank']} --children --threads all"
    if leaf.rule is UNKNOWN or "{rank}" in leaf.rule.fix:
        return _literal(look)
    return _literal(f"{look}; {leaf.fix}")


def _naming_child(sign: Sign, child: Sign, verb: str = "") -> Sign:
    """... ; child process 4711: waiting to open /x, in read data.py:3 [waits-for-file]"""
    if child.rule is UNKNOWN and child.seen.place is None:  # it is not Python: nothing to tell
        return sign
    added = f"; child process {child.seen.rank.pid}{verb}: {child.says} [{child.rule.cause}]"
    return replace(sign, rule=replace(sign.rule, says=sign.rule.says + _literal(added)))


def _all_idle(sign: Sign, children: Iterable[Sign]) -> Sign:
    """The process that had the work has exited, or has lost it."""
    standing = [child for child in children if child.seen.motionless]
    if len(standing) != len([*children]):
        return sign
    pids = ", ".join(str(child.seen.rank.pid) for child in standing)
    many = len(standing) > 1
    added = f"; child process{'es' * many} {pids}: waiting for work [idle-worker]"
    rule = replace(
        sign.rule,
        role="own",
        says=sign.rule.says + _literal(added),
        why="No child process has work: the one that had it has died, or its result was lost.",
        fix=_literal("check dmesg for an OOM kill, and the program's log for a lost worker"),
        unsure=False,
    )
    return replace(sign, rule=rule, child=standing[0])


def _literal(text: str) -> str:
    """For a rule's text, in which braces name words."""
    return text.replace("{", "{{").replace("}", "}}")
