"""python impatient.py MODULE:NAME=SECONDS VERB WORD...: rankdbg with a time limit that is not as long
as its own, for tests that wait for its end."""

import importlib
import sys

place, _, seconds = sys.argv.pop(1).partition("=")
module, _, name = place.partition(":")
its_module = importlib.import_module(module)
assert isinstance(getattr(its_module, name), float)
setattr(its_module, name, float(seconds))

from rankdbg.__main__ import main  # noqa: E402

main()
