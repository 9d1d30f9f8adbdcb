"""Collectives, sends and receives that the program calls, as events.

torch wraps each of these functions in one that logs exceptions; the wrapped function is a cell of
its closure. The cell gets a function that notes the call first. The program's functions stay the
same objects, by which torch.compile knows them. What C++ issues by itself (DDP's reducer) is not
seen here; torch's flight recorder has it.
"""

from __future__ import annotations

import functools
import sys

from rankdbg.agent.history import ring as rings
from rankdbg.agent.threads import get_ident
from rankdbg.process import history_layout as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_COLLECTIVES = (
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object",
    "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single",
    "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object", "reduce",
    "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "new_group",
)  # fmt: skip
_KINDS = {
    **dict.fromkeys((*_COLLECTIVES, "monitored_barrier"), layout.COLLECTIVE),
    **dict.fromkeys(("send", "send_object_list", "isend"), layout.SEND),
    **dict.fromkeys(("recv", "recv_object_list", "irecv"), layout.RECEIVE),
}
# Arguments that are the rank at the other end, or from which a collective goes out or in which it ends.
_OTHER_END = ("dst", "group_dst", "src", "group_src")
_MOST_DIMENSIONS, _MOST_SHAPES = 8, 32

_inside: set[int] = set()  # threads in a call: those that it makes itself are not the program's
_counts: dict[str | None, int] = {}  # of the calls of each group


def install(c10d: Any) -> None:
    """When the module has just been imported. Functions that torch does not wrap are replaced, but
    only as long as no other module can have them."""
    is_new = not hasattr(sys.modules.get("torch.distributed"), "isend")
    for name, kind in _KINDS.items():
        function: Any = getattr(c10d, name, None)
        cell = _cell(function)
        if cell is not None:
            cell.cell_contents = _noted(cell.cell_contents, name, kind, c10d, outer=3)
        elif is_new and hasattr(function, "__code__"):
            noted = _noted(function, name, kind, c10d, outer=2)
            setattr(c10d, name, functools.wraps(function)(noted))


def _cell(function: Any) -> Any:
    """Of the wrapper's closure, what it calls; None where torch has no such wrapper."""
    code = getattr(function, "__code__", None)
    if code is None or "func" not in code.co_freevars or not function.__closure__:
        return None
    return function.__closure__[code.co_freevars.index("func")]


def _noted(
    function: Callable[..., Any], name: str, kind: int, c10d: Any, outer: int
) -> Callable[..., Any]:
    note = _CallNotes(function, name, kind, c10d, outer).add

    def call(*args: Any, **kwargs: Any) -> Any:
        thread = get_ident()
        is_outermost = thread not in _inside
        try:
            if is_outermost:
                _inside.add(thread)
                try:
                    note(args, kwargs)
                except Exception:  # a version of torch that is otherwise: the program goes first
                    pass
            return function(*args, **kwargs)
        except BaseException as error:
            # From Python 3.11 on, the program's tracebacks do not show this frame.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            raise
        finally:
            if is_outermost:
                _inside.discard(thread)

    call.__name__ = function.__name__  # in torch's own log of exceptions
    return call


class _CallNotes:
    """The calls of one function, as events. `outer`: of the frames around add(), the program's."""

    def __init__(
        self, function: Callable[..., Any], name: str, kind: int, c10d: Any, outer: int
    ) -> None:
        self._name, self._kind, self._c10d, self._outer = name, kind, c10d, outer
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        self._place_of_group = names.index("group") if "group" in names else -1
        ends = [each for each in _OTHER_END if each in names]
        self._ends = [(each, names.index(each)) for each in ends]
        self._shapes: dict[Any, int] = {}  # different ones of each call

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ring = rings.get()
        if ring is None:
            return
        code, line = rings.user_frame(sys._getframe(self._outer))
        group = kwargs.get("group")
        if group is None and 0 <= self._place_of_group < len(args):
            group = args[self._place_of_group]
        group_name = self._c10d._world.pg_names.get(group) if group is not None else None
        tensor = args[0] if args else next(iter(kwargs.values()), None)
        where = self._name, id(code), line, group_name
        shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
        text = ring.known.get((*where, shape, dtype))
        if text is None:
            self._shapes[where] = self._shapes.get(where, 0) + 1
            if self._shapes[where] > _MOST_SHAPES:  # of a batch of sequences, say
                shape = dtype = None
            key = (*where, shape, dtype)
            group = self._c10d._world.default_pg if group is None else group
            place = rings.place_text(code, line)
            text = ring.known.get(key) or _add_text(ring, key, place, group)
        count = _counts[group_name] = _counts.get(group_name, 0) + 1
        other = self._other_end(args, kwargs, group) if self._ends else rings.NO_VALUE
        ring.note(self._kind, text, count, other)

    def _other_end(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], group: Any
    ) -> tuple[int, int]:
        for each, place in self._ends:
            other = kwargs.get(each, args[place] if place < len(args) else None)
            if type(other) is int:
                if each.startswith("group_") and group is not None:
                    other = self._c10d.get_global_rank(group, other)
                return layout.WHOLE, other
        return rings.NO_VALUE


def _add_text(ring: rings.Ring, key: tuple[Any, ...], place: str, group: Any) -> rings.Text:
    """all_reduce float32[1024,8], its place, and the name, the description and the size of the
    group. The same in all ranks are the operation and the group, but for its name: the halves of
    a dimension of the mesh have different ones. Shapes and places may differ."""
    operation, _, _, group_name, shape, dtype = key
    tensor = ""
    if shape is not None:
        sizes = ",".join(map(str, [*shape][:_MOST_DIMENSIONS]))
        tensor = f" {str(dtype).removeprefix('torch.')}[{sizes}]"
    described = str(getattr(group, "group_desc", ""))
    described = "" if described == "undefined" else described
    size = group.size() if group is not None else 0
    same = f"{operation}\t{described}\t{size}"
    text = f"{operation}{tensor}\t{place}\t{group_name or ''}\t{described}\t{size}"
    return ring.text(key, text, same)
