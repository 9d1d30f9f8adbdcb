"""A library of many modules, as transformers is one: each takes a while to execute."""

import sys
import time
import types


def load(seconds):
    """Import modules that exist nowhere else, for so many seconds of processor time."""
    sys.meta_path.insert(0, _Finder())
    begun = time.process_time()
    number = 0
    while time.process_time() - begun < seconds:
        __import__(f"many_modules_part_{number}")
        number += 1


class _Finder:
    def find_spec(self, name, path=None, target=None):
        import importlib.machinery

        if name.startswith("many_modules_part_"):
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        begun = time.process_time()
        while time.process_time() - begun < 0.1:
            type("Config", (), {"hidden": 1})
