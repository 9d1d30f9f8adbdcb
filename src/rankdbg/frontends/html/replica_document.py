"""Which tensors differ, and where -> the document of their page: the ranks by equal bits."""

from __future__ import annotations

from rankdbg.frontends.html.document import ColourClass, Colouring, PageDocument
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.plain_pages import (
    as_text,
    colour_class,
    plain_page,
    plain_verdict,
    without_marks,
)
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.frontends.reports.replicas import print_replicas
from rankdbg.investigations.collectives.collective_words import capital
from rankdbg.investigations.replicas.results import Replicas
from rankdbg.types import Rank
from rankdbg.verdicts.replicas.differences import Difference

MOST_TENSORS = 24  # that the ranks can be coloured by


def document_of_replicas(found: Replicas, origin: PageOrigin) -> PageDocument:
    """Differences that are only rounding are shown, and no rank is accused of them."""
    table = RankTable(found.all_ranks)
    faulty = [each for each in found.differences if not found.is_rounding(each)]
    odd = faulty[0].odd if faulty and faulty[0].has_majority else ()
    verdict = plain_verdict(f"{capital(found.summary()).rstrip('.')}.", table.set_of(odd), "differ")
    colourings = [_by_bits(found, each, table) for each in found.differences[:MOST_TENSORS]]
    page = plain_page(table, verdict, colourings or [_without_difference(found, table)], origin)
    page["findings"] = as_text(lambda terminal: print_replicas(terminal, found, full=True))
    return without_marks(page)


def _without_difference(found: Replicas, table: RankTable) -> Colouring:
    """Ranks without a model, or without a response, are not equal to others."""
    reasons: dict[str, list[Rank]] = {}
    for silence in found.without:
        reasons.setdefault(silence.reason, []).append(silence.rank)
    without = {rank.process for ranks in reasons.values() for rank in ranks}
    equal = [rank for rank in found.ranks if rank.process not in without]
    classes = [colour_class("no difference", "", table.set_of(equal), code=False)] if equal else []
    classes += [
        colour_class("not compared", why, table.set_of(ranks), code=False)
        for why, ranks in reasons.items()
    ]
    return {"name": "tensors", "columns": ["tensors", "reason"], "classes": classes}


def _by_bits(found: Replicas, difference: Difference, table: RankTable) -> Colouring:
    groups = difference.groups
    compared = {rank.process for rank in difference.ranks}
    others = [rank for rank in table.ranks if rank.process not in compared]
    classes = [_group(found, difference, group, table) for group in groups]
    if others:
        classes.append(
            colour_class("", "not compared with these", table.set_of(others), code=False)
        )
    return {"name": difference.name, "columns": ["tensor", "ranks"], "classes": classes}


def _group(
    found: Replicas, difference: Difference, group: tuple[Rank, ...], table: RankTable
) -> ColourClass:
    is_first = group is difference.groups[0]
    apart = difference.has_majority and not is_first
    says = "rounding" if found.is_rounding(difference) else "differ" if apart else "equal"
    odd = apart and not found.is_rounding(difference)
    return colour_class(difference.name, says, table.set_of(group), odd=odd)
