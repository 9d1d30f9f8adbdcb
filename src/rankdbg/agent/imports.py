"""Sees the program import a module, and has a word with it then.

Importing the module beforehand would cost every program its time and memory, and load
what the program may have a module of its own by that name for.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Action = Callable[[Any], None]


def when_imported(name: str, action: Action) -> None:
    """Call action(module), now or as soon as the program has imported it. Once: also where
    the agent starts again, after a fork."""
    if (name, action) in _asked:
        return
    _asked.add((name, action))
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
        actions = self.actions.pop(name)
        if not self.actions:
            sys.meta_path.remove(self)
        spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_act(module: Any) -> None:
                execute(module)
                for action in actions:
                    action(module)

            spec.loader.exec_module = execute_and_act
        return spec


_asked: set[tuple[str, Action]] = set()
_watcher = _Watcher()
