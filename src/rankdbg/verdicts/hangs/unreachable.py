"""Ranks that cannot reach the master, or each other, while nothing else holds the job up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rankdbg.selection import format_ranks
from rankdbg.types import Rank
from rankdbg.verdicts.hangs import starting
from rankdbg.verdicts.hangs.accusations import Accusation, in_order
from rankdbg.verdicts.hangs.case import WAITING, Case
from rankdbg.verdicts.hangs.hang_rules import HangRule
from rankdbg.verdicts.waits.unanswered import Unanswered, fewest

MASTER = HangRule(
    cause="master-unreachable",
    says="it cannot reach the master at HOST:PORT, in PLACE; rank 0 listens at HOST:PORT",
    why="MASTER_ADDR or MASTER_PORT is wrong for this rank, a firewall blocks the connection, or "
    "the master does not listen.",
    fix="compare MASTER_ADDR and MASTER_PORT of the ranks with what listens there: ss -ltn",
)
RANK = HangRule(
    cause="rank-unreachable",
    says="it gets no answer from rank 0 at HOST:PORT, in PLACE",
    why="Packets between these addresses do not arrive: a link is down, their network does not reach "
    "all nodes, or a firewall blocks them.",
    fix="check that network on both nodes (ip -s link, ping, the firewall); at the start of a job, "
    "choose an interface that reaches all nodes: GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME",
)
BOTH = MASTER, RANK


def name_master(case: Case, finding: Accusation) -> Accusation:
    """Of ranks that connect to it."""
    sign = finding.signs[0]
    where = f" at {sign.seen.master}" if sign.seen.master else ""
    says = f"cannot reach the master{where}, in {sign.words['place']}"
    master = starting.master_of(sign, case.signs)
    if sign in starting.misdirected(case.signs) and master is not None:
        says += f"; {master.seen.rank.role or 'rank'} 0 listens at {master.seen.master}"
    return replace(finding, cause=MASTER.cause, says=says, why=MASTER.why, next=MASTER.fix)


def accuse_unanswered(case: Case) -> Accusation:
    """The fewest ranks that explain who gets no answer from whom."""
    links = case.unanswered
    accused = _each_once(fewest(links))
    signs = tuple(case.by_process[rank.process] for rank in accused)
    says = _no_answer(case, accused, links)
    return Accusation(RANK.cause, accused, signs, says, RANK.why, RANK.fix, signs[0].level)


def name_lost_packets(case: Case, finding: Accusation) -> Accusation:
    """Of ranks that wait in a collective which the others have left: its packets do not arrive."""
    processes = {rank.process for rank in finding.ranks}
    links = [
        link for link in case.unanswered if processes & {link.rank.process, link.other.process}
    ]
    if not links or not only_waits(finding):
        return finding
    says = _no_answer(case, finding.ranks, links)
    return replace(finding, cause=RANK.cause, says=says, why=RANK.why, next=RANK.fix)


def only_waits(finding: Accusation) -> bool:
    """Whether the accused are in collectives, as all others are."""
    return bool(finding.signs) and all(sign.rule.role in WAITING for sign in finding.signs)


def _no_answer(case: Case, accused: Sequence[Rank], links: Sequence[Unanswered]) -> str:
    processes = {rank.process for rank in accused}
    asks = next((link for link in links if link.rank.process in processes), None)
    if asks is None:
        ranks = _named(_each_once(link.rank for link in links), case)
        says = f"does not answer {ranks} at {links[0].address}"
    else:
        says = f"gets no answer from {_named([asks.other], case)} at {asks.address}"
        says = f"{_named([asks.rank], case)} {says}" if len(accused) > 1 else says
    return f"{says}, in {case.by_process[accused[0].process].words['place']}"


def _each_once(ranks: Iterable[Rank]) -> tuple[Rank, ...]:
    return in_order({rank.process: rank for rank in ranks}.values())


def _named(ranks: Iterable[Rank], case: Case) -> str:
    some = [*ranks]
    text = format_ranks(some, [sign.seen.rank for sign in case.signs])
    return f"rank{'s' * (len(some) > 1)} {text}" if text[:1].isdigit() else text
