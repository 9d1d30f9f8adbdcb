"""Where does the time go: a profile of running ranks, all at once, as one picture.

  rankdbg profile                       all ranks for 10 s, from outside
  rankdbg profile --diff 0 7 --open     what rank 7 does more of, in the browser
  rankdbg profile 0-7 --kind torch      operators and kernels on one time line
  rankdbg profile 3 --kind memory       who holds memory

^C ends it early and keeps what there is by then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankdbg import selection
from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common, positive, print_json, seconds
from rankdbg.types import Rank

if TYPE_CHECKING:
    from rankdbg.frontends.reports.profiles import ProfileReport
    from rankdbg.session import Session

KINDS = ("cpu", "torch", "memory")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--seconds", type=seconds, default=10.0, metavar="N", help="for how long (default: 10)"
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="cpu",
        help="cpu: samples of all threads, by py-spy from outside (default); torch: torch.profiler "
        "inside the ranks; memory: memray and torch's own record of GPU memory, inside",
    )
    parser.add_argument(
        "--rate", type=positive, metavar="HZ", help="cpu: samples in a second (default: 100)"
    )
    parser.add_argument(
        "--native",
        action="store_true",
        help="cpu: frames of C too; stops a rank at each sample (default rate then: 20)",
    )
    parser.add_argument(
        "--stack", action="store_true", help="torch: the Python stack of each operator too"
    )
    parser.add_argument(
        "--diff", nargs=2, metavar=("A", "B"), help="what the ranks B do more of than the ranks A"
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="a new directory (default: ./rankdbg-profile-...)"
    )
    parser.add_argument("--open", action="store_true", help="show the flame graph in the browser")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.terminal import Terminal

    _check(options)
    with open_session(options) as session:
        ranks, everybody, sides = _choose(session, options)
        folder = Path(options.output or f"rankdbg-profile-{time.strftime('%Y%m%d-%H%M%S')}")
        report = _record(session, ranks, everybody, sides, options, folder)
    if options.json:
        print_json("profile", report.as_json())
    else:
        report.print(Terminal())
    if options.open and report.files:
        _open(folder)
    return 0 if report.profiles else 1


def _check(options: argparse.Namespace) -> None:
    for option in ("rate", "native"):
        if getattr(options, option) and options.kind != "cpu":
            raise BadInput(f"--{option} is for --kind cpu")
    if options.stack and options.kind != "torch":
        raise BadInput("--stack is for --kind torch")
    options.rate = options.rate or (20 if options.native else 100)
    folder = Path(options.output) if options.output else None
    if folder and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is already there", hint="name a new directory")


def _choose(
    session: Session, options: argparse.Namespace
) -> tuple[list[Rank], list[Rank], list[list[Rank]]]:
    """The ranks to profile; all; and the two sides to be compared, if so."""
    from rankdbg.frontends.reports.ranks import choose

    ranks, everybody = choose(session, options)
    sides = [selection.pick(selection.parse(text), ranks) for text in options.diff or ()]
    if sides and options.ranks == "all":
        compared = {rank.process for side in sides for rank in side}
        ranks = [rank for rank in ranks if rank.process in compared]
    return ranks, everybody, sides


def _record(
    session: Session,
    ranks: Sequence[Rank],
    everybody: Sequence[Rank],
    sides: Sequence[Sequence[Rank]],
    options: argparse.Namespace,
    folder: Path,
) -> ProfileReport:
    from rankdbg.frontends import pictures, profiling
    from rankdbg.frontends.reports.profiles import ProfileReport
    from rankdbg.frontends.reports.ranks import label

    def named(some: Sequence[Rank]) -> str:
        return label(some, everybody)

    settings = {key: getattr(options, key) for key in ("kind", "seconds", "rate", "native")}
    settings["stack"] = options.stack
    existed = folder.exists()
    try:
        inner = pictures.make_folder(folder)
        recorded = profiling.record(session, ranks, settings, inner, _wait)
        profiles = pictures.read_all(recorded, folder, named)
        diff = _indices(sides, profiles) if sides else None
        files: list[str] = []
        if profiles:
            title = f"{options.kind} of ranks {named([p.rank for p in profiles])}"
            title += f", {recorded.seconds:.1f} s"
            files = pictures.write_pictures(folder, profiles, title, named, diff)
        if not recorded.files:
            _clear(folder, existed)
    except KeyboardInterrupt:  # before the recording began, or for the second time
        _clear(folder, existed)
        raise
    except OSError as error:
        _clear(folder, existed)  # half a picture would pass for a whole one
        raise BadInput(
            f"cannot write {folder}: {error.strerror or error}",
            hint="--output DIR, where there is room",
        ) from None
    return ProfileReport(
        options.kind, options.rate, recorded, profiles, everybody, folder, files, diff
    )


def _clear(folder: Path, existed: bool) -> None:
    import shutil

    for path in list(folder.iterdir()) if existed else [folder]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _indices(sides: Sequence[Sequence[Rank]], profiles: Sequence[Any]) -> Any:
    """None if one side has no profile: there is nothing to compare then."""
    places = {profile.rank.process: index for index, profile in enumerate(profiles)}
    first, second = ([places[r.process] for r in side if r.process in places] for side in sides)
    return (first, second) if first and second else None


def _wait(seconds: float) -> bool:
    """False: the user has had enough."""
    deadline = time.monotonic() + seconds
    shows = sys.stderr.isatty()
    try:
        if not shows:
            sys.stderr.write(f"recording for {seconds:g} s; ^C ends it now\n")
        while (left := deadline - time.monotonic()) > 0:
            if shows:
                sys.stderr.write(f"\rrecording, {left:.0f} s left; ^C ends it now\x1b[K")
                sys.stderr.flush()
            time.sleep(min(left, 0.5))
    except KeyboardInterrupt:
        return False
    finally:
        if shows:
            sys.stderr.write("\r\x1b[K")
    return True


def _open(folder: Path) -> None:
    import webbrowser

    from rankdbg.frontends.pictures import FLAME

    place = (folder / FLAME).resolve()
    try:
        shown = webbrowser.get().open(place.as_uri())
    except webbrowser.Error:
        shown = False
    if not shown:
        sys.stderr.write(f"no browser here; open this file in one: {place}\n")
