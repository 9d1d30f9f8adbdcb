"""What the threads of this process wait for in ray.get() and ray.wait(): only the process knows."""

from __future__ import annotations

from rankdbg.agent import stacks, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_FILE = "/ray/_private/worker.py"
_ARGUMENTS = {"get": "object_refs", "wait": "ray_waitables"}
_MOST = 10_000  # of one call


def collect() -> list[dict[str, Any]]:
    found = []
    main = threads.main_thread()
    for ident, innermost in stacks.innermost_frames().items():
        called = None
        for frame in stacks.walk(innermost):
            if frame.f_code.co_name in _ARGUMENTS and frame.f_code.co_filename.endswith(_FILE):
                wait = _described(frame, called)
                found.append({"thread": stacks.thread_name(ident), "main": ident == main, **wait})
                break
            called = frame
    return found


def _described(frame: FrameType, called: FrameType | None) -> dict[str, Any]:
    call = frame.f_code.co_name
    values = stacks.variables(frame, called)
    given: Any = values.get(_ARGUMENTS[call])
    objects: list[Any] = [*given] if isinstance(given, (list, tuple)) else [given]
    ids = [each.hex() for each in objects[:_MOST] if type(each).__name__ == "ObjectRef"]
    enough = values.get("num_returns", 1) if call == "wait" else len(ids)
    return {"call": call, "objects": ids, "enough": enough}
