"""docs/gallery.md: each program of programs/hangs, and what `rankdbg why` says about it.

  python docs/make_gallery.py              run them all, one after another, and write the page
  python docs/make_gallery.py gil_held     run this one, and leave the rest of the page as it is

They run on a machine called node-1 (in namespaces of their own, for which this needs Linux and
root), where the checkout is /srv: names and paths of the machine at hand stay out of the page.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/integration")]

from test_why import TABLE, Expected  # noqa: E402

from hanging import HANGS, HangingJob  # noqa: E402, after the path to it

PAGE = ROOT / "docs/gallery.md"
INSIDE = "--inside"
ATTEMPTS = 3  # on a machine that is busy a rank may be caught before it hangs

ENTER = """
set -e
hostname node-1
mount --bind "$1" /srv
mount -t tmpfs none /tmp
echo 127.0.0.1 localhost node-1 > /tmp/hosts
mount --bind /tmp/hosts /etc/hosts
cd /srv
shift
exec "$@"
"""

HEAD = """\
# Gallery

The verdicts of `rankdbg why` on small real jobs. Most hang for one cause each; in some nothing is
wrong. The programs are in `tests/programs/hangs`; `make gallery` runs them and writes this page.
[Causes](reference/causes.md) lists all known causes.

Most jobs have two to four ranks on gloo. In `file_system` a vfork replaces the file server that does
not answer: state D is real, but the place in the kernel differs.
"""


class WrongVerdict(Exception):
    pass


def run_on_node_1(names: list[str]) -> int:
    """This program again, where nothing tells which machine it is."""
    python = Path(sys.executable)
    if python.is_relative_to(ROOT):
        python = "/srv" / python.relative_to(ROOT)
    namespaces = ["unshare", "--uts", "--mount", "--pid", "--fork", "--mount-proc"]
    enter = [
        "sh",
        "-c",
        ENTER,
        "sh",
        str(ROOT),
        str(python),
        "docs/make_gallery.py",
        INSIDE,
        *names,
    ]
    return subprocess.call([*namespaces, *enter])


def make(names: list[str]) -> int:
    sections = _sections_of_the_page()
    scratch = Path("/tmp/gallery")
    scratch.mkdir()
    failed = 0
    for expected in TABLE:
        name = expected.start.program
        if names and name not in names:
            continue
        try:
            sections[name] = _section(expected, scratch)
        except (WrongVerdict, AssertionError, subprocess.TimeoutExpired) as error:
            failed += 1
            sys.stderr.write(f"{name}: {error}\n")
            continue
        sys.stderr.write(f"{name}: done\n")
        ordered = [sections[e.start.program] for e in TABLE if e.start.program in sections]
        PAGE.write_text("\n".join([HEAD, *ordered]))
    return 1 if failed else 0


def _sections_of_the_page() -> dict[str, str]:
    """What earlier runs have written, by the name of the program."""
    text = PAGE.read_text() if PAGE.exists() else ""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part.split("\n")[0][3:]: part.rstrip("\n") + "\n" for part in parts}


def _section(expected: Expected, scratch: Path) -> str:
    name = expected.start.program
    story = ast.get_docstring(ast.parse((HANGS / f"{name}.py").read_text()))
    said = _verdict(expected, scratch)
    cause = _cause(said)
    link = f"\nCause: [`{cause}`](reference/causes.md#{cause})." if cause else ""
    return f"## {name}\n\n{story}{link}\n\n```\n$ rankdbg why\n{said}```\n"


def _verdict(expected: Expected, scratch: Path) -> str:
    said = ""
    start = replace(expected.start, loads_torch=True)  # its command line is shown
    for attempt in range(ATTEMPTS):
        job = HangingJob(start, scratch / f"{start.program}-{attempt}")
        try:
            job.wait()
            result = job.job.cli("why", env={"COLUMNS": "80", "NO_COLOR": "1"})
        finally:
            job.end()
        said = result.stdout
        if result.returncode == 0 and _is_right(said, expected):
            return said
    raise WrongVerdict(f"not what was expected:\n{said}{result.stderr}")


def _is_right(said: str, expected: Expected) -> bool:
    culprit = re.findall(r"^  culprit +ranks? ([\d,-]+)", said, re.MULTILINE)
    if not expected.stuck:
        return not culprit
    return culprit[:1] == [expected.culprit] and _cause(said) in expected.causes


def _cause(said: str) -> str:
    """The first one that is named, [in-brackets]."""
    found = re.search(r"\[([a-z]+(?:-[a-z]+)*)\]$", said, re.MULTILINE)
    return found[1] if found else ""


if __name__ == "__main__":
    wanted = sys.argv[1:]
    if wanted[:1] == [INSIDE]:
        sys.exit(make(wanted[1:]))
    unknown = {*wanted} - {expected.start.program for expected in TABLE}
    if unknown or os.geteuid() != 0:
        sys.exit(f"no such program: {', '.join(unknown)}" if unknown else "this needs root")
    sys.exit(run_on_node_1(wanted))
