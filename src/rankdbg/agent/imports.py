"""Calls a function when the program imports a module.

Importing the module in advance would cost every program its time and memory, and the program may
have a module of its own by that name.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Action = Callable[[Any], None]


def when_imported(name: str, action: Action) -> None:
    """Call action(module) now, or as soon as the program has imported the module. Once: the agent
    starts again in the child of a fork, which inherits the registration."""
    if (name, action) in _registered:
        return
    _registered.add((name, action))
    if name in sys.modules:
        action(sys.modules[name])
        return
    _watcher.actions.setdefault(name, []).append(action)
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)


class _Watcher:
    def __init__(self) -> None:
        self.actions: dict[str, list[Action]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self.actions:
            return None
        spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_act(module: Any) -> None:
                execute(module)
                for action in self._taken(name):
                    action(module)

            spec.loader.exec_module = execute_and_act
        return spec

    def _taken(self, name: str) -> list[Action]:
        """Only now: many programs look for a spec first, to see whether the module is there."""
        actions = self.actions.pop(name, [])
        if not self.actions and self in sys.meta_path:
            sys.meta_path.remove(self)
        return actions


_registered: set[tuple[str, Action]] = set()
_watcher = _Watcher()
