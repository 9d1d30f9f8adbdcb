"""A flame graph of all ranks in one page, which needs nothing but a browser."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from rankdbg.profiles.tree import Node, prune

# Each node has a number for each rank: so many numbers, and a page stays quick.
MOST_NUMBERS = 1_000_000
FEWEST_NODES, MOST_NODES = 500, 20_000


def page(
    tree: Node,
    ranks: Sequence[str],
    title: str,
    unit: str,
    diff: Mapping[str, Sequence[int]] | None = None,
) -> str:
    """`ranks`: what each profile is called. `diff`: two sets of them to be compared, by what
    these are called. The tree loses what is too small to be seen."""
    most = max(FEWEST_NODES, min(MOST_NODES, MOST_NUMBERS // max(1, len(ranks))))
    content = {
        "title": title,
        "unit": unit,
        "ranks": list(ranks),
        "diff": [{"name": n, "of": list(i)} for n, i in diff.items()] if diff else None,
        "below": prune(tree, most),
        "nodes": _nodes(tree),
    }
    # In a script element the only text that means anything is its end.
    data = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    template = files("rankdbg.profiles").joinpath("flame.html").read_text("utf-8")
    return template.replace("__TITLE__", _escaped(title)).replace("__DATA__", data)


def _nodes(root: Node) -> list[dict[str, Any]]:
    """Parents first, each with the number of its own: a stack may be too deep to be nested."""
    made: list[dict[str, Any]] = []
    todo = [(root, -1)]
    while todo:
        node, parent = todo.pop()
        number = len(made)
        made.append({"p": parent, **_node(node)})
        children = sorted(node.children.values(), key=lambda child: child.place)
        todo += [(child, number) for child in children]
    return made


def _node(node: Node) -> dict[str, Any]:
    """n: its name; f: its file; s: shares in 1/10,000, by the index of the rank, where not 0."""
    frame = node.frame
    shares = {index: round(10_000 * share) for index, share in node.shares.items()}
    entry: dict[str, Any] = {"n": frame.function, "s": shares}
    if frame.file:
        entry["f"] = f"{frame.file}:{frame.line}" if frame.line else frame.file
    return entry


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
