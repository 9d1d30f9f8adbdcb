"""What the node takes from its environment: its own separate programs, and installed packages."""

from __future__ import annotations

import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_finding = threading.Lock()


def path_of(module: ModuleType) -> str:
    """If rankdbg is imported from an archive, these files are next to it."""
    file = str(module.__file__)
    name = os.path.basename(file).removesuffix("c")
    sent = os.path.join(os.environ.get("RANKDBG_LANDED", ""), "bin", name)
    return sent if not os.path.exists(file) and os.path.exists(sent) else file


def find_packages() -> None:
    """Makes what is installed importable: clusters/transport/landing.py starts Python without that."""
    with _finding:
        if sys.flags.no_site and "site" not in sys.modules:
            import site

            site.main()
