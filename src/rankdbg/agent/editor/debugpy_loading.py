"""Loads debugpy into this process, with as few side effects as possible.

Imported together with debug_adapter, or by rankdbg.listen().
"""

from __future__ import annotations

import builtins
import os
import sys
from typing import Any

# Modules that debugpy imports for consoles which no editor uses: a quarter of its import time.
_UNUSED = ("xmlrpc.client", "xmlrpc.server", "http.server")
_IMPORTER = "_pydev_bundle._pydev_saved_modules"


def load(path: str) -> None:
    """From the program's environment, else from `path`, where rankdbg's own is. Raises
    ImportError."""
    from importlib import import_module

    hook = sys.breakpointhook
    if path:
        sys.path.append(path)
    try:
        with SuppressedWarning(), Uncollected():
            import_module("debugpy")
            _load_without_servers()
            import_module("debugpy.server")
    finally:
        if path:
            sys.path.remove(path)
        sys.breakpointhook = hook  # breakpoint() still goes through entries.py


class SuppressedWarning:
    """Suppresses debugpy's warning about frozen modules on the program's stderr: these are modules
    of the standard library."""

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
    """Turns the garbage collector off. The many new objects would start collections of all objects
    of the program, which with torch take half of the loading time."""

    def __enter__(self) -> None:
        import gc

        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        import gc

        if self._was_on:
            gc.enable()


class _Unused:
    """A placeholder for a module that debugpy names but never uses."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def _load_without_servers() -> None:
    """Give the one module that imports them its own __import__. The program's imports stay as
    they are."""
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
    except Exception:  # another version of debugpy: load it without this
        sys.modules.pop(_IMPORTER, None)
