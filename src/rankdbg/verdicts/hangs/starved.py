"""Who gets no processor. What such a rank, thread or process owes may come once it runs: it is no culprit,
and neither is a rank that waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rankdbg.verdicts.hangs.accusations import Accusation
from rankdbg.verdicts.hangs.case import WAITING, Case
from rankdbg.verdicts.hangs.chain_ends import ends_for_good
from rankdbg.verdicts.hangs.hang_rules import ROLES, Sign
from rankdbg.verdicts.waits.wait_links import Party, place_of, process_at


def find(case: Case, finding: Accusation, waiting: Sequence[Sign]) -> tuple[Party, ...]:
    """Of those for whom others wait by a finding; none if it holds whatever runs."""
    starved = case.evidence.owners.starved
    strangers = [] if _is_certain(finding) else [p for p in _parties(finding) if p.place in starved]
    return tuple(dict.fromkeys((*among(_concerned(case, finding, waiting)), *strangers)))


def may_be(case: Case, finding: Accusation, waiting: Sequence[Sign]) -> tuple[Sign, ...]:
    """Those of which one more look tells whether they get a processor."""
    concerned = _concerned(case, finding, waiting)
    return tuple(sign for sign in concerned if sign.seen.may_be_starved)


def among(signs: Iterable[Sign]) -> tuple[Party, ...]:
    return tuple(process_at(place_of(sign.seen.rank)) for sign in signs if sign.seen.is_starved)


def _is_certain(finding: Accusation) -> bool:
    """Whether no processor would change anything. The holder of the GIL needs one to release it."""
    is_held = finding.level >= ROLES.index("held") and finding.cause != "gil-held"
    return is_held or ends_for_good(finding.behind)


def _concerned(case: Case, finding: Accusation, waiting: Sequence[Sign]) -> list[Sign]:
    if _is_certain(finding):
        return []
    concerned = [*finding.signs, *_of_chain(case, finding)]
    # Any of these may owe what those wait for.
    return [*concerned, *waiting] if ROLES[finding.level] in WAITING else concerned


def _of_chain(case: Case, finding: Accusation) -> list[Sign]:
    """The ranks through which its wait leads."""
    places = {party.place for party in _parties(finding)}
    return [sign for sign in case.signs if place_of(sign.seen.rank) in places] if places else []


def _parties(finding: Accusation) -> Iterator[Party]:
    for link in (*finding.chain, *finding.behind):
        yield from (link.who, link.whom)
