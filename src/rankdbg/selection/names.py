"""What ranks are called: some ranks of a roster -> a selection of exactly these.

0-6,8-1023                       where all ranks of the roster have one role
driver, Rollout 0-3, Trainer 0-1 where they have several
host=a,0-1; pid=4711             where one number of a role has several processes
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import cached_property
from itertools import pairwise
from operator import attrgetter

from rankdbg.selection.grammar import LONGEST_GLOB, is_number_like
from rankdbg.types import ProcessKey, Rank, actor_names

_role = attrgetter("role")
# Which labels tell processes with the same role and number apart, the most telling first.
_APART: Sequence[tuple[str, Callable[[Rank], str]]] = (
    ("step", lambda rank: rank.names.get("step", "")),
    ("het", lambda rank: rank.names.get("het", "")),
    ("host", attrgetter("process.host")),
)


def format_numbers(numbers: Iterable[int]) -> str:
    """`0-6,8-1023`: `parse` returns the same numbers."""
    ordered = sorted(set(numbers))
    firsts = ordered[:1] + [b for a, b in pairwise(ordered) if b != a + 1]
    lasts = [a for a, b in pairwise(ordered) if b != a + 1] + ordered[-1:]
    runs = zip(firsts, lasts, strict=True)
    return ",".join([f"{a}" if a == b else f"{a}-{b}" for a, b in runs])


def format_ranks(ranks: Iterable[Rank], among: Sequence[Rank] = ()) -> str:
    """A selection of exactly these ranks of the roster `among`: `0-6,8-1023`."""
    chosen = list(ranks)
    among = among or chosen
    return _numbers_alone(chosen, among) or Names(among).of(chosen)


def _numbers_alone(chosen: Sequence[Rank], among: Sequence[Rank]) -> str:
    """What most jobs need, in one pass over a hundred thousand ranks: `` if there are several
    roles or generations, or if the numbers are not enough."""
    if not chosen:
        return ""
    role, generation = chosen[0].role, chosen[0].generation
    numbers = {rank.number for rank in chosen}
    processes = {rank.process for rank in chosen}
    for rank in among:
        if rank.role != role or rank.generation != generation:
            return ""
        if rank.number in numbers and rank.process not in processes:
            return ""
    return "" if None in numbers else format_numbers(n for n in numbers if n is not None)


def last_generations(ranks: Sequence[Rank]) -> Sequence[Rank]:
    """Without those that have been replaced: of each number of a role, the last generation."""
    if len({rank.generation for rank in ranks}) < 2:
        return ranks
    last: dict[tuple[object, ...], int] = {}
    for rank in ranks:
        last[_place(rank)] = max(rank.generation, last.get(_place(rank), 0))
    return [rank for rank in ranks if rank.generation == last[_place(rank)]]


def _place(rank: Rank) -> tuple[object, ...]:
    """What a restarted process takes over from the one before it."""
    if rank.number is not None:
        return rank.job, rank.role, rank.number
    return rank.job, rank.role, actor_names(rank)[:1]


class Names:
    """The names of the ranks of one roster."""

    def __init__(self, among: Sequence[Rank]) -> None:
        self._last = _Generation(last_generations(among))
        self._everyone = among

    def of(self, ranks: Iterable[Rank]) -> str:
        """A selection of exactly these ranks."""
        chosen = list(ranks)
        if len(self._last.ranks) == len(self._everyone):
            return "; ".join(self._last.choices(chosen))
        last = [rank for rank in chosen if rank.process in self._last.processes]
        choices = self._last.choices(last)
        replaced = defaultdict(list)
        for rank in chosen:
            if rank.process not in self._last.processes:
                replaced[rank.generation].append(rank)
        for number, same in sorted(replaced.items()):
            generation = _Generation([r for r in self._everyone if r.generation == number])
            texts = generation.choices(same)
            choices += [f"gen={number}" if t == "all" else f"{t}, gen={number}" for t in texts]
        return "; ".join(choices)


class _Generation:
    """Ranks that a selection picks from."""

    def __init__(self, ranks: Sequence[Rank]) -> None:
        self.ranks = ranks
        self._roles = {rank.role for rank in ranks}

    @cached_property
    def processes(self) -> set[ProcessKey]:
        return {rank.process for rank in self.ranks}

    @cached_property
    def _by_role(self) -> dict[str, list[Rank]]:
        return _sorted_by(_role, self.ranks)

    def choices(self, chosen: Sequence[Rank]) -> list[str]:
        """Selections that together pick exactly these."""
        if not chosen:
            return []
        processes = {rank.process for rank in chosen}
        if len(self._roles) < 2:
            if numbers := _only_numbers(chosen, processes, self.ranks):
                return [numbers]
            left = list(chosen)
            texts: list[str] = []
        else:
            texts, left = self._role_texts(chosen, processes)
        if left and len(processes) == len(self.ranks) > 1:
            return ["all"]
        found = [", ".join(texts)] if texts else []
        return found + (self._told_apart(left) if left else [])

    def _role_texts(
        self, chosen: Sequence[Rank], processes: set[ProcessKey]
    ) -> tuple[list[str], list[Rank]]:
        """`driver`, `Rollout 0-3`; and the ranks that their roles do not tell apart."""
        texts, left = [], []
        for role, some in sorted(_sorted_by(_role, chosen).items(), key=_by_name):
            members = self._by_role.get(role, [])
            name = _role_name(role, self._roles)
            numbers = _only_numbers(some, processes, members)
            if name is None:
                left += some
            elif numbers:
                is_told = not role and _only_numbers(some, processes, self.ranks)
                texts.append(numbers if is_told else f"{name} {numbers}")
            elif role and len(some) == len(members):
                texts.append(name)
            else:  # a client or launcher, which has neither role nor number, is called by its pid
                left += some
        return texts, left

    def _told_apart(self, chosen: Sequence[Rank]) -> list[str]:
        """Where roles and numbers are not enough: by actor, step, host or pid."""
        processes = {rank.process for rank in chosen}
        if text := self._by_actor(chosen):
            return [text]
        for key, label_of in _APART:
            members = _sorted_by(label_of, self.ranks)
            parts = {
                label: _only_numbers(some, processes, members.get(label, []))
                for label, some in _sorted_by(label_of, chosen).items()
            }
            if len(members) > 1 and all(label and text for label, text in parts.items()):
                return [f"{key}={glob(label)},{text}" for label, text in sorted(parts.items())]
        pids = {rank.pid for rank in chosen}
        if not any(r.pid in pids and r.process not in processes for r in self.ranks):
            return [f"pid={_numbers(pids)}"]
        return [
            f"host={glob(host)},pid={_numbers(rank.pid for rank in some)}"
            for host, some in sorted(_sorted_by(attrgetter("host"), chosen).items())
        ]

    def _by_actor(self, chosen: Sequence[Rank]) -> str:
        names = [next(iter(actor_names(rank)), "") for rank in chosen]
        others = {name for rank in self.ranks for name in actor_names(rank)}
        if not all(names) or len({*names}) < len(names) or len(others) < len(names):
            return ""
        holders = defaultdict(set)
        for rank in self.ranks:
            for name in actor_names(rank):
                holders[name].add(rank.process)
        if any(len(holders[name]) > 1 or not _is_plain(name) for name in names):
            return ""
        return f"actor={_listed(sorted(map(glob, names)))}"


def _sorted_by(label_of: Callable[[Rank], str], ranks: Iterable[Rank]) -> dict[str, list[Rank]]:
    found: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        found[label_of(rank)].append(rank)
    return dict(found)


def _by_name(item: tuple[str, list[Rank]]) -> tuple[bool, str, str]:
    """Processes without a role first: their numbers would else read as those of a role."""
    return bool(item[0]), item[0].lower(), item[0]


def _only_numbers(chosen: Sequence[Rank], processes: set[ProcessKey], among: Sequence[Rank]) -> str:
    """Their numbers, if all have one and no other process does; else ``."""
    numbers = {rank.number for rank in chosen}
    if None in numbers or any(
        rank.number in numbers and rank.process not in processes for rank in among
    ):
        return ""
    return format_numbers(number for number in numbers if number is not None)


def _role_name(role: str, roles: Iterable[str]) -> str | None:
    """A glob without a key that matches this role alone; None if there is none."""
    if len(role) > LONGEST_GLOB // 3:
        return None
    text = glob(role)
    if not _is_plain(role):
        fits = re.compile(translate(text.strip("\"'"))).match
        if any(other != role and fits(other) for other in roles):
            return None
    # A prompt takes what comes after a blank for a command.
    reads_otherwise = " " in text or text in ("all", "ranks") or text[:1] == "*"
    if text[:1] not in ("'", '"') and (reads_otherwise or is_number_like(text)):
        return f'"{text}"'
    return text


def quoted(text: str) -> str:
    """A selection as a shell takes it: 0-3, 'Rollout 0-3'."""
    return text if re.fullmatch(r"[\w,:.=-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def _numbers(numbers: Iterable[int]) -> str:
    return _listed(format_numbers(numbers).split(","))


def _listed(values: Iterable[str]) -> str:
    values = list(values)
    return values[0] if len(values) == 1 else f"({','.join(values)})"


def _is_plain(name: str) -> bool:
    """Whether a glob can be made of it that matches nothing else."""
    return not re.search(r'"|[^\S ]', name)


def glob(name: str) -> str:
    """A glob that matches this name, quoted if needed. Only a mark that cannot be written (a
    quote, a tab) is any character."""
    text = re.sub(r'"|[^\S ]', "?", re.sub(r"[*?[]", r"[\g<0>]", name))
    plain = text and text == text.strip() and not re.search("[(),;=']", text)
    return text if plain else f'"{text}"'
