"""Merged stacks as text: a tree, the groups, who is odd."""

from __future__ import annotations

from rankdbg.frontends.reports.ranks import marked, print_silent
from rankdbg.frontends.reports.rows import print_wrapped
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.investigations.html import TreeLine
from rankdbg.investigations.stacks.child_stacks import ChildStacks
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.process.user_code import innermost_user_frame
from rankdbg.text.escapes import visible

MOST_GROUPS = 12
_LONGEST_COMMAND = 40


def print_stacks(
    terminal: Terminal, merged: MergedStacks, *, full: bool = False, with_locals: bool = False
) -> None:
    if isinstance(merged, ChildStacks) and not merged.all_ranks:
        terminal.print("no child processes")
        return
    terminal.print(merged.summary())
    for name in merged.names:
        roots = merged.tree(name)
        if roots:
            terminal.print(terminal.bold(merged.title(name)))
            for line in merged.tree_lines(roots, full):
                terminal.print(_tree_line(terminal, line))
    for ranks, reason in merged.beside():
        terminal.print(f"{terminal.bold(ranks)}: {reason}")
    _print_groups(terminal, merged)
    if with_locals:
        _print_locals(terminal, merged)
    _print_silent(terminal, merged)
    for note in merged.notes:
        terminal.print(terminal.dim(visible(note)))
    if merged.children:
        terminal.print()
        print_stacks(terminal, merged.children, full=full, with_locals=with_locals)


def _print_silent(terminal: Terminal, merged: MergedStacks) -> None:
    if not isinstance(merged, ChildStacks):
        print_silent(terminal, merged.no_response, merged.all_ranks)
        return
    for silence in merged.no_response:
        command = " ".join(silence.rank.command)[:_LONGEST_COMMAND]
        state = f"; {silence.rank.detail}" if silence.rank.detail else ""
        who = terminal.bold(merged.picked([silence.rank]))
        print_wrapped(terminal, f"no response: {who} {command}  ({silence.reason}{state})")


def _print_groups(terminal: Terminal, merged: MergedStacks) -> None:
    groups = merged.main_groups
    if len(groups) < 2:
        return
    terminal.print()
    texts = [merged.label(group.members) for group in groups]
    width = max(len(text) for text in texts)
    for group, text in list(zip(groups, texts, strict=True))[:MOST_GROUPS]:
        where = merged.place(group) + ("  (moving)" if group.moving else "")
        line = f"{terminal.bold(f'{text:{width}}')}  {cut(where, terminal.width - width - 20)}"
        terminal.print(marked(terminal, line, "odd one out" if group in merged.odd else ""))
    if len(groups) > MOST_GROUPS:
        left = len(groups) - MOST_GROUPS
        terminal.print(terminal.dim(f"and {left} more groups, see --json"))


def _print_locals(terminal: Terminal, merged: MergedStacks) -> None:
    """The variables of the innermost user frame, of one rank of each group."""
    for name, group in merged.groups:
        for rank, frames in merged.locals_of(name, group):
            index = innermost_user_frame(frame.file for frame in group.frames)
            values = frames[index] if index < len(frames) else {}
            if not values:
                break
            terminal.print()
            who = terminal.bold(f"{merged.noun} {merged.picked([rank])}")
            terminal.print(f"{who} in {merged.place(group)}")
            for variable, value in values.items():
                terminal.print(f"  {variable} = {cut(value, terminal.width - 6)}")
            break


def _tree_line(terminal: Terminal, line: TreeLine) -> str:
    room = terminal.width - len(line.branch) - len(line.ranks) - 5
    text = cut(line.text, max(20, room))
    dots = "." * max(3, room - len(text) + 3)
    return f"{line.branch}{text} {terminal.dim(dots)} {terminal.bold(line.ranks)}"
