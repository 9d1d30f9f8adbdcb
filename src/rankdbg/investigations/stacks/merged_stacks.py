"""The stacks of many ranks: merged into a tree, grouped where they are equal, the odd ones known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rankdbg import grouping
from rankdbg.grouping import StackGroup, TreeNode
from rankdbg.investigations.rank_labels import Paths, frame_json, label, silent_json, single_names
from rankdbg.investigations.results import Result, rank_record, silent_records
from rankdbg.process.user_code import innermost_user_frame, is_native, is_user_code
from rankdbg.selection import format_ranks
from rankdbg.session import Sampled
from rankdbg.text.amounts import counted
from rankdbg.types import Frame, ProcessKey, Rank, Silence, Stack

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart, TreeLine

MAIN = "main thread"
# In a run of library frames without branches, only the ends are shown.
LONGEST_LIBRARY_RUN = 3


TASK = "task "  # with this, the names of asyncio's tasks begin
AWAITS = "awaits "


class SampledThread(NamedTuple):
    """One thread of one rank over all samples, or one task. What a task awaits is its innermost
    frame, without a file."""

    rank: Rank
    thread: str
    frames: tuple[Frame, ...]
    moving: bool


@dataclass(frozen=True, repr=False)
class MergedStacks(Result):
    """`seen`: the ranks whose stacks could be read; `silent`: the others, and why not;
    `all_ranks`: all ranks of the job, among which ranks are named."""

    seen: Sequence[Sampled]
    no_response: Sequence[Silence]
    all_ranks: Sequence[Rank]
    children: MergedStacks | None = None  # of the processes below the ranks
    notes: Sequence[str] = ()  # about stack dumps that were read

    noun = "rank"

    @cached_property
    def stacks(self) -> tuple[SampledThread, ...]:
        return tuple(stack for sampled in self.seen for stack in _threads(sampled))

    @cached_property
    def names(self) -> list[str]:
        """The threads' names, the main thread first, tasks last."""
        others = {stack.thread for stack in self.stacks} - {MAIN}
        return [MAIN, *sorted(others, key=lambda name: (name.startswith(TASK), name))]

    @cached_property
    def groups(self) -> list[tuple[str, StackGroup[Rank]]]:
        """Equal stacks of each thread name, smallest group first."""
        return [
            (name, group)
            for name in self.names
            for group in grouping.group_stacks(
                (stack.rank, stack.frames, stack.moving) for stack in self._named(name)
            )
        ]

    def tree(self, name: str = MAIN) -> list[TreeNode[Rank]]:
        return grouping.merge_stacks([(stack.rank, stack.frames) for stack in self._named(name)])

    def _named(self, name: str) -> Iterator[SampledThread]:
        return (stack for stack in self.stacks if stack.thread == name)

    def title(self, name: str) -> str:
        """Of the tree of a thread's name; of tasks also how many there are, if a rank has several."""
        found = [stack.rank.process for stack in self._named(name)]
        several = name.startswith(TASK) and len(found) > len({*found})
        return f"{name} ({len(found)})" if several else name

    @property
    def main_groups(self) -> list[StackGroup[Rank]]:
        return [group for name, group in self.groups if name == MAIN]

    @cached_property
    def odd(self) -> list[StackGroup[Rank]]:
        """Small groups of main threads against a clear majority."""
        groups = self.main_groups
        marks = grouping.odd_ones_out([len(group.members) for group in groups])
        return [group for group, is_odd in zip(groups, marks, strict=True) if is_odd]

    @cached_property
    def paths(self) -> Paths:
        return Paths(frame.file for stack in self.stacks for frame in stack.frames)

    @property
    def samples(self) -> int:
        return max((len(sampled.samples) for sampled in self.seen), default=0)

    @cached_property
    def _single_names(self) -> dict[ProcessKey, str]:
        everyone = [*self.all_ranks, *(sampled.rank for sampled in self.seen)]
        return single_names(list({rank.process: rank for rank in everyone}.values()))

    def label(self, ranks: Sequence[Rank]) -> str:
        """For a line."""
        return label(ranks, self.all_ranks)

    def picked(self, ranks: Sequence[Rank]) -> str:
        """What picks them."""
        return format_ranks(ranks, self.all_ranks)

    def members_json(self, ranks: Sequence[Rank]) -> dict[str, Any]:
        return {"ranks": self.picked(ranks), "count": len(ranks)}

    def as_json(self) -> dict[str, Any]:
        below = {"children": self.children.as_json()} if self.children else {}
        names = self._single_names
        return {
            "groups": [self._group_json(name, group) for name, group in self.groups],
            "tree": [
                {"thread": name, "nodes": [self._node_json(node) for node in self.tree(name)]}
                for name in self.names
            ],
            "odd": [self.picked(group.members) for group in self.odd],
            "no_response": silent_json(self.no_response),
            "samples": self.samples,
            "sources": {names[sampled.rank.process]: sampled.source for sampled in self.seen},
            "details": {names[s.rank.process]: s.rank.detail for s in self.seen if s.rank.detail},
            "why": {
                names[sampled.rank.process]: sampled.why for sampled in self.seen if sampled.why
            },
            "gil": {
                names[s.rank.process]: {"holder": s.gil, "waiting": list(s.waits_for_gil)}
                for s in self.seen
                if s.gil or s.waits_for_gil
            },
            "kernels": {
                names[s.rank.process]: [asdict(kernel) for kernel in s.kernels]
                for s in self.seen
                if s.kernels
            },
            **below,
            **({"notes": [*self.notes]} if self.notes else {}),
        }

    def _group_json(self, name: str, group: StackGroup[Rank]) -> dict[str, Any]:
        document = {
            **self.members_json(group.members),
            "moving": group.moving,
            "thread": name,
            "frames": [frame_json(frame) for frame in group.frames if not _is_await(frame)],
        }
        if name.startswith(TASK):
            awaited = [f.function.removeprefix(AWAITS) for f in group.frames if _is_await(f)]
            document["awaits"] = "".join(awaited)
        names = self._single_names
        values = {names[rank.process]: seen for rank, seen in self.locals_of(name, group)}
        return {**document, "locals": values} if any(values.values()) else document

    def _node_json(self, node: TreeNode[Rank]) -> dict[str, Any]:
        return {
            "frames": [frame_json(frame) for frame in node.frames],
            **self.members_json(node.members),
            "children": [self._node_json(child) for child in node.children],
        }

    def locals_of(self, name: str, group: StackGroup[Rank]) -> Iterator[tuple[Rank, Any]]:
        """The variables of each frame of the ranks of a group."""
        members = {rank.process for rank in group.members}
        for sampled in self.seen:
            if sampled.rank.process in members:
                for stack in sampled.samples[-1]:
                    if _thread_name(stack) == name and stack.locals:
                        yield sampled.rank, list(stack.locals)

    def _counted(self) -> str:
        return counted(len(self.seen), "rank")

    def summary(self) -> str:
        samples = self.samples
        text = f"{self._counted()}, {counted(samples, 'sample')}"
        if samples < 2:
            return text
        moving = [s.rank for s in self.stacks if s.moving and s.thread == MAIN]
        if not moving:
            return f"{text}, nothing moved"
        if len(moving) == len(self.seen):
            return f"{text}, all moved"
        return f"{text}, {len(moving)} moved: {self.label(moving)}"

    def beside(self) -> list[tuple[str, str]]:
        """What the kernel says about ranks whose stacks cannot tell the whole story."""
        notes: dict[str, list[Rank]] = {}
        for sampled in self.seen:
            for text in _beside(sampled):
                notes.setdefault(text, []).append(sampled.rank)
        return [(self.label(ranks), text) for text, ranks in notes.items()]

    def unseen(self) -> list[tuple[str, str]]:
        """Those that could not be read, with the same reason on one line."""
        reasons: dict[str, list[Rank]] = {}
        for silence in self.no_response:
            reasons.setdefault(silence.reason, []).append(silence.rank)
        return [(self.label(ranks), reason) for reason, ranks in reasons.items()]

    def place(self, group: StackGroup[Rank]) -> str:
        """Where a group is, for a reader: its innermost line of user code, and what that called."""
        if not group.frames:
            return "(no Python frame)"
        index = innermost_user_frame(frame.file for frame in group.frames)
        called = [f.function for f in group.frames[:index] if "<locals>" not in f.function]
        return self.paths.text(group.frames[index]) + (f" > {called[-1]}" if called else "")

    def records(self) -> list[dict[str, Any]]:
        odd = {rank.process for group in self.odd for rank in group.members}
        rows = []
        for stack in self.stacks:
            frames = [frame for frame in stack.frames if not _is_await(frame)]
            index = innermost_user_frame(frame.file for frame in frames)
            user = frames[index] if frames else Frame("", "", 0)
            place = {"function": user.function, "file": user.file, "line": user.line}
            is_odd = stack.thread == MAIN and stack.rank.process in odd
            more = {"thread": stack.thread, **place, "moving": stack.moving, "odd": is_odd}
            rows.append(rank_record(stack.rank, **more))
        return rows + silent_records(self.no_response)

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import ODD, Paragraph, Table, TableRow, Tree

        odd = self.odd
        groups = [
            TableRow(
                (
                    self.label(group.members),
                    self.place(group) + (" (moving)" if group.moving else ""),
                ),
                ODD if group in odd else "",
            )
            for group in reversed(self.main_groups)  # the majority first
        ]
        trees = [Tree(self.title(name), [*self.tree_lines(self.tree(name))]) for name in self.names]
        lines = [f"{ranks}: {text}" for ranks, text in self.beside()]
        lines += [f"no response: {ranks} ({why})" for ranks, why in self.unseen()]
        parts: list[HtmlPart] = [Table(("ranks", "where"), groups), *trees, *map(Paragraph, lines)]
        if self.children:
            parts += [Paragraph(self.children.summary()), *self.children._parts()]
        return parts

    @cached_property
    def _odd_members(self) -> set[frozenset[ProcessKey]]:
        return {frozenset(rank.process for rank in group.members) for group in self.odd}

    def tree_lines(
        self, nodes: Sequence[TreeNode[Rank]], full: bool = False, branch: str = ""
    ) -> Iterator[TreeLine]:
        """A merged tree as lines. Only branches are indented: stacks are deep, screens narrow."""
        from rankdbg.investigations.html import ODD, TreeLine

        for node in nodes:
            members = frozenset(rank.process for rank in node.members)
            mark = ODD if not node.children and members in self._odd_members else ""
            ranks = self.label(node.members)
            last = node is nodes[-1]
            lead, inner = (
                f"{branch}{'└─ ' if last else '├─ '}",
                f"{branch}{'   ' if last else '│  '}",
            )
            texts = [*shown_frames(node.frames, self.paths, full)]
            for number, text in enumerate(texts):
                is_end = number == len(texts) - 1
                yield TreeLine(inner if number else lead, text, ranks, mark if is_end else "")
            yield from self.tree_lines(node.children, full, inner)


def shown_frames(frames: Sequence[Frame], paths: Paths, full: bool = False) -> Iterator[str]:
    """The frames of a run as text; the middle of a long way through libraries left out."""
    library: list[Frame] = []
    for frame in [*frames, None]:
        if frame and not is_user_code(frame.file) and not is_native(frame.file):
            library.append(frame)
            continue
        if len(library) > LONGEST_LIBRARY_RUN and not full:
            yield paths.text(library[0])
            yield f"… {len(library) - 2} frames"
            yield paths.text(library[-1])
        else:
            yield from map(paths.text, library)
        library.clear()
        if frame is not None:
            yield paths.text(frame)


def _threads(sampled: Sampled) -> Iterator[SampledThread]:
    """The stack that stands for each thread of a rank, over all its samples."""
    samples: dict[tuple[str, str], list[tuple[Frame, ...]]] = {}
    for sample in sampled.samples:
        for stack in sample:
            awaited = (Frame(f"{AWAITS}{stack.awaits}", "", 0),) if stack.awaits else ()
            frames = (*awaited, *stack.frames)
            samples.setdefault((_thread_name(stack), stack.thread), []).append(frames)
    for (name, _), seen in samples.items():
        common, moving = grouping.common_stack(seen)
        yield SampledThread(sampled.rank, name, common, moving)


def _thread_name(stack: Stack) -> str:
    """Thread-7 (pump) of one rank and Thread-9 (pump) of another belong together; and so do the
    tasks fetch (Task-7) and fetch (Task-9)."""
    if stack.main:
        return MAIN
    name = re.sub(r" #\d+$", "", stack.thread)
    if stack.task:
        name = TASK + re.sub(r" \(Task-\d+\)$", "", name)
    return re.sub(r"\d+", "N", name)


def _is_await(frame: Frame) -> bool:
    """Not a frame, but what a task awaits."""
    return not frame.file and frame.function.startswith(AWAITS)


def _beside(sampled: Sampled) -> Iterator[str]:
    """What was seen of a rank beside its stacks."""
    state, why = sampled.rank.detail, sampled.why
    if state and (state == why or state not in why):
        yield state
    if why and why != state:
        yield f"read from outside: {why}"
    if sampled.gil and (sampled.waits_for_gil or _stands_still(sampled)):
        waiting = ", ".join(sampled.waits_for_gil)
        yield f"{sampled.gil} holds the GIL" + (f", {waiting} waits for it" if waiting else "")
    elif sampled.waits_for_gil:
        yield f"{', '.join(sampled.waits_for_gil)} waits for the GIL"
    yield from kernel_lines(sampled)


def kernel_lines(sampled: Sampled) -> list[str]:
    """on GPU 0 runs spin_kernel, grid 1x1x1, block 1x1x1"""
    return [
        f"on GPU {'?' if kernel.device is None else kernel.device} runs "
        + ", ".join([kernel.name, *kernel.sizes])
        for kernel in sampled.kernels
    ]


def _stands_still(sampled: Sampled) -> bool:
    """In one that moves some thread holds the GIL all the time, and that is in order."""
    return len(sampled.samples) > 1 and len({stack.frames for stack in sampled.main()}) == 1
