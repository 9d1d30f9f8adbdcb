"""Ranks that cannot reach the master, or each other, while nothing else holds the job up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rankdbg.selection import format_ranks
from rankdbg.types import Rank
from rankdbg.verdicts.hangs import starting
from rankdbg.verdicts.hangs.accusations import Accusation, in_order
from rankdbg.verdicts.hangs.case import Case
from rankdbg.verdicts.hangs.hang_rules import HangRule

MASTER = HangRule(
    cause="master-unreachable",
    says="it cannot reach the master at HOST:PORT, in PLACE; rank 0 listens at HOST:PORT",
    why="MASTER_ADDR or MASTER_PORT is wrong for this rank, a firewall blocks the connection, or "
    "the master does not listen.",
    fix="compare MASTER_ADDR and MASTER_PORT of the ranks with what listens there: ss -ltn",
)
RANK = HangRule(
    cause="rank-unreachable",
    says="it gets no answer from HOST:PORT, where rank 0 listens, in PLACE",
    why="Packets to this address do not arrive: its network does not reach all nodes, or a firewall "
    "blocks them.",
    fix="choose an interface that reaches all nodes, with GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, "
    "or open the ports between the nodes",
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
    """Those that connect to other ranks, or those that do not answer: the fewer."""
    links = case.evidence.unanswered
    connect = _each_once(link.rank for link in links)
    listen = _each_once(link.listener for link in links)
    first = links[0]
    place = case.by_process[first.rank.process].words["place"]
    if len(listen) < len(connect):
        accused = listen
        says = f"does not answer at {first.address}, to which {_named(connect, case)} connect, in {place}"
    else:
        accused = connect
        listener = _named([first.listener], case)
        says = f"gets no answer from {first.address}, where {listener} listens, in {place}"
    signs = tuple(case.by_process[rank.process] for rank in accused)
    return Accusation(RANK.cause, accused, signs, says, RANK.why, RANK.fix, signs[0].level)


def _each_once(ranks: Iterable[Rank]) -> tuple[Rank, ...]:
    return in_order({rank.process: rank for rank in ranks}.values())


def _named(ranks: Iterable[Rank], case: Case) -> str:
    some = [*ranks]
    text = format_ranks(some, [sign.seen.rank for sign in case.signs])
    return f"rank{'s' * (len(some) > 1)} {text}" if text[:1].isdigit() else text
