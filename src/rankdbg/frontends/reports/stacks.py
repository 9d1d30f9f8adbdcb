"""What the stacks of many ranks say: a merged tree, groups of equal stacks, who is odd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from rankdbg import grouping
from rankdbg.frontends.reports.ranks import (
    Paths,
    frame_json,
    label,
    marked,
    print_silent,
    silent_json,
    silent_lines,
)
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.grouping import StackGroup, TreeNode
from rankdbg.selection import format_ranks
from rankdbg.session import Sampled
from rankdbg.types import Frame, Rank, Silence
from rankdbg.user_code import innermost_user_frame, is_native, is_user_code

# In a run of library frames that nobody branches off from, only the ends are shown.
LONGEST_LIBRARY_RUN = 3


class ThreadStack(NamedTuple):
    """One thread of one rank over all samples."""

    rank: Rank
    thread: str
    frames: tuple[Frame, ...]
    moving: bool


class StackReport:
    def __init__(
        self, seen: Sequence[Sampled], silent: Sequence[Silence], everybody: Sequence[Rank]
    ) -> None:
        self.seen = seen
        self.silent = silent
        self.everybody = everybody
        self.stacks = [stack for sampled in seen for stack in _threads(sampled)]

    @cached_property
    def names(self) -> list[str]:
        """The threads' names, the main thread first."""
        others = {stack.thread for stack in self.stacks} - {"main thread"}
        return ["main thread", *sorted(others)]

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

    def tree(self, name: str) -> list[TreeNode[Rank]]:
        return grouping.merge_stacks([(stack.rank, stack.frames) for stack in self._named(name)])

    def _named(self, name: str) -> Iterator[ThreadStack]:
        return (stack for stack in self.stacks if stack.thread == name)

    @property
    def main_groups(self) -> list[StackGroup[Rank]]:
        return [group for name, group in self.groups if name == "main thread"]

    @cached_property
    def odd(self) -> list[StackGroup[Rank]]:
        """Small groups of main threads against a clear majority."""
        groups = self.main_groups
        marks = grouping.odd_ones_out([len(group.members) for group in groups])
        return [group for group, is_odd in zip(groups, marks, strict=True) if is_odd]

    # --- for programs -----------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        return {
            "groups": [self._group_json(name, group) for name, group in self.groups],
            "tree": [
                {"thread": name, "nodes": [self._node_json(node) for node in self.tree(name)]}
                for name in self.names
            ],
            "odd": [format_ranks(group.members, self.everybody) for group in self.odd],
            "silent": silent_json(self.silent),
            "samples": max((len(sampled.samples) for sampled in self.seen), default=0),
            "sources": {_who(sampled): sampled.source for sampled in self.seen},
            "details": {_who(s): s.rank.detail for s in self.seen if s.rank.detail},
            "why": {_who(sampled): sampled.why for sampled in self.seen if sampled.why},
            "gil": {
                _who(s): {"holder": s.gil, "waiting": list(s.waits_for_gil)}
                for s in self.seen
                if s.gil or s.waits_for_gil
            },
            "kernels": {_who(s): list(s.kernels) for s in self.seen if s.kernels},
        }

    def _group_json(self, name: str, group: StackGroup[Rank]) -> dict[str, Any]:
        document = {
            "ranks": format_ranks(group.members, self.everybody),
            "count": len(group.members),
            "moving": group.moving,
            "thread": name,
            "frames": [frame_json(frame) for frame in group.frames],
        }
        values = {str(rank.number): seen for rank, seen in self._locals(name, group)}
        return {**document, "locals": values} if any(values.values()) else document

    def _node_json(self, node: TreeNode[Rank]) -> dict[str, Any]:
        return {
            "frames": [frame_json(frame) for frame in node.frames],
            "ranks": format_ranks(node.members, self.everybody),
            "count": len(node.members),
            "children": [self._node_json(child) for child in node.children],
        }

    def _locals(self, name: str, group: StackGroup[Rank]) -> Iterator[tuple[Rank, Any]]:
        members = {rank.process for rank in group.members}
        for sampled in self.seen:
            if sampled.rank.process in members:
                for stack in sampled.samples[-1]:
                    if _thread_name(stack.thread, stack.main) == name and stack.locals:
                        yield sampled.rank, list(stack.locals)

    # --- for people -------------------------------------------------------------------

    def print(self, terminal: Terminal, *, full: bool, with_locals: bool) -> None:
        paths = Paths(frame.file for stack in self.stacks for frame in stack.frames)
        terminal.print(self._headline())
        for name in self.names:
            roots = self.tree(name)
            if roots:
                terminal.print(terminal.bold(name))
                for line in _TreeLines(terminal, paths, self.everybody, full).lines(roots):
                    terminal.print(line)
        self._print_states(terminal)
        self._print_groups(terminal, paths)
        if with_locals:
            self._print_locals(terminal, paths)
        print_silent(terminal, self.silent, self.everybody)

    def _headline(self) -> str:
        ranks = len(self.seen)
        samples = max((len(sampled.samples) for sampled in self.seen), default=0)
        text = f"{ranks} rank{'s' * (ranks != 1)}, {samples} sample{'s' * (samples != 1)}"
        if samples < 2:
            return text
        moving = [s.rank for s in self.stacks if s.moving and s.thread == "main thread"]
        if not moving:
            return f"{text}, nothing moved"
        if len(moving) == ranks:
            return f"{text}, all moved"
        return f"{text}, {len(moving)} moved: {label(moving, self.everybody)}"

    def _print_states(self, terminal: Terminal) -> None:
        """What the kernel says about ranks whose stacks cannot tell the whole story."""
        notes = [Silence(s.rank, text) for s in self.seen for text in _beside(s)]
        for ranks, reason in silent_lines(notes, self.everybody):
            terminal.print(f"{terminal.bold(ranks)}: {reason}")

    def _print_groups(self, terminal: Terminal, paths: Paths) -> None:
        groups = self.main_groups
        if len(groups) < 2:
            return
        terminal.print()
        texts = [label(group.members, self.everybody) for group in groups]
        width = max(len(text) for text in texts)
        for group, text in list(zip(groups, texts, strict=True))[:12]:
            where = place(group, paths) + ("  (moving)" if group.moving else "")
            line = f"{terminal.bold(f'{text:{width}}')}  {cut(where, terminal.width - width - 20)}"
            terminal.print(marked(terminal, line, "odd one out" if group in self.odd else ""))
        if len(groups) > 12:
            terminal.print(terminal.dim(f"and {len(groups) - 12} more groups, see --json"))

    def _print_locals(self, terminal: Terminal, paths: Paths) -> None:
        """The variables of the innermost user frame, of one rank of each group."""
        for name, group in self.groups:
            for rank, frames in self._locals(name, group):
                index = innermost_user_frame(frame.file for frame in group.frames)
                values = frames[index] if index < len(frames) else {}
                if not values:
                    break
                terminal.print()
                who = format_ranks([rank], self.everybody)
                terminal.print(f"{terminal.bold(f'rank {who}')} in {place(group, paths)}")
                for variable, value in values.items():
                    terminal.print(f"  {variable} = {cut(value, terminal.width - 6)}")
                break


def place(group: StackGroup[Rank], paths: Paths) -> str:
    """Where a group is, for a reader: its innermost line of user code, and what that called."""
    if not group.frames:
        return "(no Python frame)"
    index = innermost_user_frame(frame.file for frame in group.frames)
    called = [f.function for f in group.frames[:index] if "<locals>" not in f.function]
    return paths.text(group.frames[index]) + (f" > {called[-1]}" if called else "")


def _threads(sampled: Sampled) -> Iterator[ThreadStack]:
    """The stack that stands for each thread of a rank, over all its samples."""
    samples: dict[tuple[str, str], list[tuple[Frame, ...]]] = {}
    for sample in sampled.samples:
        for stack in sample:
            name = _thread_name(stack.thread, stack.main)
            samples.setdefault((name, stack.thread), []).append(stack.frames)
    for (name, _), frames in samples.items():
        common, moving = grouping.common_stack(frames)
        yield ThreadStack(sampled.rank, name, common, moving)


def _thread_name(name: str, main: bool) -> str:
    """Thread-7 (pump) of one rank and Thread-9 (pump) of another belong together."""
    return "main thread" if main else re.sub(r"\d+", "N", re.sub(r" #\d+$", "", name))


def _who(sampled: Sampled) -> str:
    number = sampled.rank.number
    return str(sampled.rank.pid if number is None else number)


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
        f"on GPU {kernel.get('device', '?')} runs {kernel.get('name', 'a kernel')}"
        + "".join(
            f", {word} {'x'.join(map(str, kernel[word]))}"
            for word in ("grid", "block")
            if kernel.get(word)
        )
        for kernel in sampled.kernels
    ]


def _stands_still(sampled: Sampled) -> bool:
    """In one that moves some thread holds the GIL all the time, and that is in order."""
    return len(sampled.samples) > 1 and len({stack.frames for stack in sampled.main()}) == 1


class _TreeLines:
    """A merged tree as lines. Only branches are indented: stacks are deep, screens narrow."""

    def __init__(
        self, terminal: Terminal, paths: Paths, everybody: Sequence[Rank], full: bool
    ) -> None:
        self._terminal = terminal
        self._paths = paths
        self._everybody = everybody
        self._full = full

    def lines(self, nodes: Sequence[TreeNode[Rank]], indent: str = "") -> Iterator[str]:
        for node in nodes:
            last = node is nodes[-1]
            ranks = label(node.members, self._everybody)
            inner = f"{indent}{'   ' if last else '│  '}"
            first = f"{indent}{'└─ ' if last else '├─ '}"
            for text in self._run(node.frames):
                yield self._line(first, text, ranks)
                first = inner
            yield from self.lines(node.children, inner)

    def _run(self, frames: Sequence[Frame]) -> Iterator[str]:
        """The frames of a run as text; the middle of a long way through libraries left out."""
        library: list[Frame] = []
        for frame in [*frames, None]:
            if frame and not is_user_code(frame.file) and not is_native(frame.file):
                library.append(frame)
                continue
            if len(library) > LONGEST_LIBRARY_RUN and not self._full:
                yield self._paths.text(library[0])
                yield f"… {len(library) - 2} frames"
                yield self._paths.text(library[-1])
            else:
                yield from map(self._paths.text, library)
            library.clear()
            if frame is not None:
                yield self._paths.text(frame)

    def _line(self, indent: str, text: str, ranks: str) -> str:
        room = self._terminal.width - len(indent) - len(ranks) - 5
        text = cut(text, max(20, room))
        dots = "." * max(3, room - len(text) + 3)
        return f"{indent}{text} {self._terminal.dim(dots)} {self._terminal.bold(ranks)}"
