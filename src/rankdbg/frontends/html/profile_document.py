"""A profile of many ranks -> the document of its page: the flame graph, and the ranks by their phases."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.frontends.html.document import (
    Colouring,
    Fact,
    FrameView,
    PageDocument,
    ProfileView,
    VerdictView,
)
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.plain_pages import (
    as_text,
    by_percent,
    colour_class,
    plain_page,
    plain_verdict,
    without_marks,
)
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.frontends.reports.profiles import print_profile
from rankdbg.investigations.collectives.collective_words import capital
from rankdbg.investigations.profiles.job_profiles import JobProfile, percent
from rankdbg.investigations.profiles.profile_files import UNITS
from rankdbg.investigations.rank_labels import Paths, named
from rankdbg.process.user_code import is_user_code
from rankdbg.profiles import tree
from rankdbg.profiles.step_phases import Shares, mean_of
from rankdbg.profiles.tree import CallNode
from rankdbg.types import Frame, Rank
from rankdbg.verdicts.rules.profile_rules import OTHER

# Each node has a number for each rank: with at most this many a page fits into a mail.
MOST_NUMBERS = 1_000_000
FEWEST_NODES, MOST_NODES = 100, 10_000
MOST_PHASES = 4  # by which the ranks can be coloured
MOST_NAMED = 4  # phases in the words for a group
MOST_FACTS = 3
_DONE, _NOT_DONE = "profiled", "not profiled"


def document_of_profile(found: JobProfile, origin: PageOrigin) -> PageDocument:
    table = RankTable([*found.all_ranks, *(profile.rank for profile in found.profiles)])
    view = _ProfileViews(found, table)
    page = plain_page(table, view.verdict(), view.colourings(), origin)
    page["profile"] = view.flame() if found.profiles else None
    page["findings"] = as_text(lambda terminal: print_profile(terminal, found))
    return without_marks(page)


class _ProfileViews:
    def __init__(self, found: JobProfile, table: RankTable) -> None:
        self._found, self._table = found, table
        self._ranks = [profile.rank for profile in found.profiles]

    def verdict(self) -> VerdictView:
        found, slow = self._found, self._found.slowest
        if slow is None:
            return plain_verdict(f"{capital(found.summary())}.")
        who = [self._ranks[slow.index]]
        verdict = plain_verdict(
            f"{capital(named(who, found.all_ranks))} {found.slowest_text()}.",
            self._table.set_of(who),
            "the slowest",
        )
        verdict["says"] = f"{capital(found.title())}."
        verdict["facts"] = self._facts()
        return verdict

    def _facts(self) -> list[Fact]:
        """What the slowest rank does more of than the others."""
        slow = self._found.slowest
        assert slow is not None
        facts: list[Fact] = []
        for row in slow.more[:MOST_FACTS]:
            share = row.shares[slow.index]
            usual = f"the others {percent(share - row.beyond(slow.index))}"
            text = f"{''.join(self._found.place(row))}: {percent(share)}, {usual}"
            name = "" if facts else "more of"
            facts.append({"name": name, "text": text, "tag": "", "more": ""})
        return facts

    # --- what the grid is coloured by -----------------------------------------------------

    def colourings(self) -> list[Colouring]:
        found = [self._by_side()] if self._found.diff else []
        if self._found.phases:
            found += [*self._by_group(), *map(self._by_phase, self._largest_phases())]
        if self._found.slowest is not None:
            found.append(self._by_waiting())
        return found or [self._by_profile()]

    def _by_side(self) -> Colouring:
        assert self._found.diff is not None
        first, second = ({*side} for side in self._found.diff)
        parts = [
            ("first side", "", sorted(first - second)),
            ("second side", "", sorted(second - first)),
            ("both sides", "", sorted(first & second)),
        ]
        return self._colouring("sides", ["side", ""], parts)

    def _by_group(self) -> list[Colouring]:
        phases = self._found.phases
        if not phases or self._found.diff:
            return []
        parts = [(*_in_words(each.shares), each.indices) for each in phases.groups]
        return [self._colouring("similar ranks", ["largest phase", "other phases"], parts)]

    def _by_profile(self) -> Colouring:
        return self._colouring("profile", ["profile", ""], [(_DONE, "", range(len(self._ranks)))])

    def _colouring(
        self, name: str, columns: list[str], parts: Sequence[tuple[str, str, Sequence[int]]]
    ) -> Colouring:
        """Of each part its words in two columns, and its profiles. The largest is the first."""
        told = {rank.process for rank in self._ranks}
        ranks = [[self._ranks[index] for index in own] for _, _, own in parts]
        words = [(text, says) for text, says, _ in parts]
        left = [rank for rank in self._table.ranks if rank.process not in told]
        each = sorted(zip([*words, (_NOT_DONE, "")], [*ranks, left], strict=True), key=_smaller)
        classes = [
            colour_class(text, says, self._table.set_of(own), code=False)
            for (text, says), own in each
            if own
        ]
        return {"name": name, "columns": columns, "classes": classes}

    def _largest_phases(self) -> list[str]:
        phases = self._found.phases
        assert phases is not None
        mean = mean_of(phases.shares)
        told = [phase for phase in mean if phase != OTHER]
        return sorted(told, key=lambda phase: -mean[phase])[:MOST_PHASES]

    def _by_phase(self, phase: str) -> Colouring:
        phases = self._found.phases
        assert phases is not None
        return self._by_share(phase, [shares.get(phase, 0.0) for shares in phases.shares])

    def _by_waiting(self) -> Colouring:
        rows = [row for row in self._found.rows if row.waits]
        shares = [sum(row.shares[i] for row in rows) for i in range(len(self._ranks))]
        return self._by_share("waiting", shares)

    def _by_share(self, name: str, shares: Sequence[float]) -> Colouring:
        known = {r.process: 100 * s for r, s in zip(self._ranks, shares, strict=True)}
        return by_percent(name, (known.get(rank.process) for rank in self._table.ranks), _NOT_DONE)

    # --- the flame graph ------------------------------------------------------------------

    def flame(self) -> ProfileView:
        root = tree.grow(self._found.profiles)
        count = len(self._ranks)
        least = tree.prune(root, max(FEWEST_NODES, min(MOST_NODES, MOST_NUMBERS // count)))
        nodes = _parents_first(root)
        frames = _Frames([node.frame for node, _ in nodes])
        shares = [_shares(node, count) for node, _ in nodes]
        parents = [parent for _, parent in nodes]
        return {
            "unit": UNITS.get(self._found.profiles[0].unit, self._found.profiles[0].unit),
            "least": round(100 * least, 2),
            "ranks": [self._table.place(rank) or 0 for rank in self._ranks],
            "sides": [
                {
                    "name": self._found.whose(side),
                    "ranks": self._table.set_of(self._ranks[index] for index in side),
                }
                for side in self._found.diff or ()
            ],
            "frames": frames.views,
            "frame": frames.numbers,
            "parents": parents,
            "shares": [
                None if parent >= 0 and own == shares[parent] else own
                for own, parent in zip(shares, parents, strict=True)
            ],
        }


def _smaller(part: tuple[tuple[str, str], Sequence[Rank]]) -> int:
    return -len(part[1])


def _in_words(shares: Shares) -> tuple[str, str]:
    """backward 41 %; and: forward 30 %, data 12 %"""
    told = sorted((p for p in shares if p != OTHER), key=lambda phase: -shares[phase])
    first, *others = [f"{phase} {percent(shares[phase])}" for phase in told[:MOST_NAMED]] or [OTHER]
    return first, ", ".join(others)


def _parents_first(root: CallNode) -> list[tuple[CallNode, int]]:
    """Each node with the number of its parent: stacks may be too deep to nest."""
    made: list[tuple[CallNode, int]] = []
    todo = [(root, -1)]
    while todo:
        node, parent = todo.pop()
        number = len(made)
        made.append((node, parent))
        todo += [(child, number) for child in node.children.values()]
    return made


def _shares(node: CallNode, count: int) -> list[int]:
    return [round(1000 * node.shares.get(index, 0.0)) for index in range(count)]


class _Frames:
    """The distinct ones: a function is called in many places."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        places: dict[Frame, int] = {}
        paths = Paths(frame.file for frame in frames if frame.file)
        self.numbers = [places.setdefault(frame, len(places)) for frame in frames]
        self.views: list[FrameView] = [
            {
                "function": frame.function,
                "at": paths.line(frame),
                "file": frame.file,
                "line": frame.line,
                "own": is_user_code(frame.file),
            }
            for frame in places
        ]
