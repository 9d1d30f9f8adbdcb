"""What the program itself says that it did: steps and marks; and the steps of its optimizers."""

from __future__ import annotations

import sys

from rankdbg.agent.history import ring as rings
from rankdbg.process import history_layout as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST = 1 << 63
_LONGEST_VALUE = 100

_steps_reported = False  # by progress(): then an optimizer's steps are no steps of the program
_optimizer_steps = 0


def step(number: int) -> None:
    """From rankdbg.progress()."""
    global _steps_reported
    ring = rings.get()
    # Steps of other kinds (a fraction of an epoch) are for `ps` alone.
    if ring is not None and hasattr(number, "__index__") and -_LARGEST <= number < _LARGEST:
        _steps_reported = True
        ring.step(number)


def mark(name: str, value: Any) -> None:
    """From rankdbg.mark(), two frames from here."""
    ring = rings.get()
    if ring is None:
        return
    code, line = rings.user_frame(sys._getframe(2))
    key = name, id(code), line
    text = ring.known.get(key)
    if text is None:
        text = ring.text(key, f"{str(name)[:_LONGEST_VALUE]}\t{rings.place_text(code, line)}")
    ring.note(layout.MARK, text, 0, _value(ring, value))


def _value(ring: rings.Ring, value: Any) -> tuple[int, int]:
    """Nothing of the program is called but str() of plain values: a tensor's value would wait for
    the GPU."""
    if type(value) is int and -_LARGEST <= value < _LARGEST:
        return layout.WHOLE, value
    if type(value) is float:
        return layout.FLOAT, layout.float_bits(value)
    if value is None:
        return layout.NO_VALUE, 0
    plain = type(value) in (bool, int, str, bytes)
    text = str(value) if plain else f"<{type(value).__name__}>"
    return layout.TEXT, ring.value_text(text[:_LONGEST_VALUE])


def optimizer_steps() -> int:
    """So far; 0 also where there is no history."""
    return _optimizer_steps


def install_optimizer_hook(module: Any) -> None:
    """torch.optim.optimizer has been imported: each step of an optimizer ends a step of a program
    that reports none itself."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(_optimizer_stepped)


def _optimizer_stepped(*_: Any) -> None:
    global _optimizer_steps
    ring = rings.get()
    if ring is None:
        return
    _optimizer_steps += 1
    if _steps_reported:
        ring.note(layout.OPTIMIZER, rings.NO_TEXT, _optimizer_steps)
    else:
        ring.step(_optimizer_steps, layout.OPTIMIZER)
