"""Jobs that start: what is ordinary then, and how long it may take before a rank is accused of it.

Ranks import for minutes, build models and compile, and arrive at init_process_group one after
another. No single look tells a long start from a hang, but the age of a process bounds both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankdbg.verdicts.hangs.hang_rules import Role, Sign

# The master's store has this cause too while a rank connects to it: rendezvous of all ranks.
CONNECTS = "waits-for-master"
AT_START = ("waits-for-ranks", CONNECTS, "nccl-bootstrap")
# Seconds from the start of a process. Between two attempts to connect, torch sleeps for up to
# 32 s (measured), so that a rank may connect that long after the master has begun to listen.
ORDINARY = {"working": 120.0, "outside": 60.0, "own": 20.0}
CONNECTING = 60.0
# Constructors that load or download in threads stand so; a cycle of locks is none of these.
_WAITS_OF_CONSTRUCTORS = ("waits-for-thread", "thread-join", "waits-for-lock", "waits-for-child")
# Ranks that compile the same take turns.
_LOCKS = ("file-lock", "build-lock")
# Drivers: who they wait for is at work as long as it computes.
_DRIVERS = ("waits-for-ray", "waits-for-monarch")


def waits_at_start(signs: Sequence[Sign]) -> bool:
    return bool(signs) and all(sign.rule.cause in AT_START for sign in signs)


def is_driver_alone(signs: Sequence[Sign]) -> bool:
    """Whether only drivers are there, which wait for actors whose processes have yet to start."""
    return all(
        sign.rule.cause in _DRIVERS and sign.seen.after.age < ORDINARY["working"] for sign in signs
    )


def is_early(role: Role, accused: Sequence[Sign], waiting: Sequence[Sign]) -> bool:
    """Whether those who wait at the start have not waited for long: what the others do may be
    anything, unless something holds them."""
    if role not in ORDINARY or not waits_at_start(waiting):
        return False
    return bool(accused) and min(sign.seen.after.age for sign in accused) < ORDINARY[role]


def is_ordinary(
    role: Role, accused: Sequence[Sign], waiting: Sequence[Sign], all_ranks: Sequence[Sign]
) -> bool:
    """Whether all of them import, compile or construct, as young processes do, or wait for a lock
    while another does so; or do what a driver has asked for."""
    if role == "working" and waiting and all(s.rule.cause in _DRIVERS for s in waiting):
        return True
    others_set_up = any(s.rule.startup and _sets_up("working", s) for s in all_ranks)
    return bool(accused) and all(
        _sets_up(role, sign) or (others_set_up and sign.rule.cause in _LOCKS) for sign in accused
    )


def _sets_up(role: Role, sign: Sign) -> bool:
    seen = sign.seen
    if role not in ORDINARY or seen.after.age >= ORDINARY[role]:
        return False
    if role == "working":
        # A compile in which nothing computes, neither here nor in a child, hangs.
        return (sign.rule.startup or seen.sets_up) and (seen.works or seen.stirred)
    if role == "own":
        return seen.sets_up and sign.rule.cause in _WAITS_OF_CONSTRUCTORS
    return seen.sets_up


def misdirected(signs: Iterable[Sign]) -> list[Sign]:
    """Those that connect to another port than the master listens on. (Names of one host differ:
    localhost, its name, its address.)"""
    known = [sign for sign in signs if sign.seen.master]
    return [
        sign
        for sign in known
        if sign.rule.cause == CONNECTS
        and (master := master_of(sign, known)) is not None
        and _port(sign) != _port(master)
    ]


def master_of(sign: Sign, signs: Iterable[Sign]) -> Sign | None:
    """Rank 0 of the same job and role, to which it should connect."""
    rank = sign.seen.rank
    return next(
        (
            other
            for other in signs
            if other.seen.rank.number == 0
            and (other.seen.rank.job, other.seen.rank.role) == (rank.job, rank.role)
        ),
        None,
    )


def _port(sign: Sign) -> str:
    return sign.seen.master.rpartition(":")[2]
