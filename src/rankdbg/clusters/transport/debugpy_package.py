"""debugpy for jobs whose environment has none: the parts of rankdbg's own that a rank needs."""

from __future__ import annotations

import base64
import importlib.util
import io
import zipfile
from functools import cache
from pathlib import Path

from rankdbg.errors import RankdbgError

# Separate programs, and files for other systems.
_STAYS_HERE = ("adapter", "launcher", "ThirdPartyNotices.txt")
_USED = (".py", "attach_linux_amd64.so")


@cache
def debugpy_archive() -> tuple[str, str]:
    """Its version, and its files as base64 of a zip."""
    found = importlib.util.find_spec("debugpy")
    if found is None or found.origin is None:
        raise RankdbgError(
            "debugpy is installed neither in the job's environment nor in rankdbg's",
            hint="pip install debugpy   (in one of them)",
        )
    package = Path(found.origin).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as file:
        for path in sorted(package.rglob("*")):
            place = path.relative_to(package)
            if place.parts[0] not in _STAYS_HERE and path.name.endswith(_USED):
                file.write(path, Path("debugpy") / place)
    return _version(package), base64.b64encode(packed.getvalue()).decode()


def _version(package: Path) -> str:
    """For a folder name: each version has its own folder."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("debugpy")
    except PackageNotFoundError:
        return str(int((package / "__init__.py").stat().st_mtime))
