"""debugpy into this process, with as little of a stir as can be.

Imported together with dap, or by rankdbg.listen().
"""

from __future__ import annotations

import builtins
import os
import sys
from typing import Any

# What debugpy imports for consoles that no editor uses, and that take a quarter of its time.
_UNUSED = ("xmlrpc.client", "xmlrpc.server", "http.server")
_IMPORTER = "_pydev_bundle._pydev_saved_modules"


def load(path: str) -> None:
    """From the program's environment; `path` is where ours lies if that has none. Raises
    ImportError."""
    from importlib import import_module

    hook = sys.breakpointhook
    if path:
        sys.path.append(path)
    try:
        with Quiet(), Uncollected():
            import_module("debugpy")
            _load_without_servers()
            import_module("debugpy.server")
    finally:
        if path:
            sys.path.remove(path)
        sys.breakpointhook = hook  # breakpoint() goes through entries.py, as ever


class Quiet:
    """It would warn on the program's stderr of frozen modules, which are the standard
    library's."""

    _NAME = "PYDEVD_DISABLE_FILE_VALIDATION"

    def __enter__(self) -> None:
        self._before = os.environ.get(self._NAME)
        os.environ[self._NAME] = "1"

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            os.environ.pop(self._NAME, None)
        else:
            os.environ[self._NAME] = self._before


class Uncollected:
    """So many new objects would have all those of the program looked through, which beside
    torch is half of the time that loading takes."""

    def __enter__(self) -> None:
        import gc

        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        import gc

        if self._was_on:
            gc.enable()


class _Unused:
    """In place of a module that is named and never called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def _load_without_servers() -> None:
    """The one module that imports them gets an import of its own. The program's, and what it
    finds when it imports them itself, stay as they are."""
    from importlib.util import find_spec, module_from_spec

    left_out = {name for name in _UNUSED if name not in sys.modules}

    def without(name: str, *about: Any, **more: Any) -> Any:
        return _Unused() if name in left_out else builtins.__import__(name, *about, **more)

    try:
        vendored: Any = __import__("debugpy._vendored", fromlist=["vendored"])
        with vendored.vendored("pydevd"):
            spec = find_spec(_IMPORTER)
        if spec is None or spec.loader is None or _IMPORTER in sys.modules:
            return
        module = module_from_spec(spec)
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": without}
        sys.modules[_IMPORTER] = module
        spec.loader.exec_module(module)
    except Exception:  # another debugpy, which does this elsewhere: it loads what it wants
        sys.modules.pop(_IMPORTER, None)
