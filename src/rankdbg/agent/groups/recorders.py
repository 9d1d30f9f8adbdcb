"""PyTorch's flight recorders in this process: the operations of each group.

torch is never imported, only used if the program has loaded it. The JSON dump takes 0.1 to 34 ms.
The dump with stacks takes 1 to 8 seconds the first time, and is not used.
"""

from __future__ import annotations

import sys

from rankdbg import wire
from rankdbg.errors import RankdbgError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Entry = dict[str, Any]

# gloo's (and, after torch 2.8, others') and NCCL's; one of them may be empty.
_DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")


def documents() -> Iterator[dict[str, Any]]:
    """The dump of each recorder."""
    native = sys.modules.get("torch._C._distributed_c10d")
    for name in _DUMPS:
        dump = getattr(native, name, None)
        if dump is not None:
            try:
                yield wire.decode(dump())
            except (RankdbgError, RuntimeError):  # a version that writes otherwise
                pass


def is_pending(entry: Entry) -> bool:
    """On gloo the state stays `scheduled`: an operation that has ended is retired."""
    return entry.get("state") != "completed" and not entry.get("retired")
