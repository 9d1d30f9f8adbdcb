"""Where does the time go: a profile of running ranks, all at once, as one picture.

  rankdbg profile                       all ranks for 10 s, from outside
  rankdbg profile --diff 0 7 --open     what rank 7 does more of, in the browser
  rankdbg profile 0-7 --kind torch      operators and kernels on one time line
  rankdbg profile 3 --kind memory       who holds memory
  rankdbg profile 3 --kind nsys         a report of the nsys it runs under

^C ends it early and keeps what there is by then.
"""

from __future__ import annotations

import argparse
import shlex
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

KINDS = ("cpu", "torch", "memory", "nsys")
RATE, NATIVE_RATE = 100, 20
# Of the time, by --native, unless --rate says otherwise: ranks with many threads are then looked
# at less often.
MOST_STOPPED = 0.05
NATIVE_NOTE = """\
--native stops the ranks at each sample{share}, and once for 0.5
to 3 s if they have torch loaded; for longer if the machine is busy
"""


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
        "inside the ranks; memory: memray and torch's own record of GPU memory, inside; nsys: ranks "
        "that wait under nsys (run --nsys-steps later)",
    )
    parser.add_argument(
        "--rate", type=positive, metavar="HZ", help="cpu: samples in a second (default: 100)"
    )
    parser.add_argument(
        "--native",
        action="store_true",
        help="cpu: frames of C too. Stops a rank at each sample, some 5 %% of the time (20 samples "
        "a second, fewer where there are many threads), and once for 0.5 to 3 s if it has torch "
        "loaded",
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
        if options.native:
            share = f", some {100 * MOST_STOPPED:.0f} % of the time" if options.most_stopped else ""
            sys.stderr.write(NATIVE_NOTE.format(share=share))
        report = _record(session, ranks, everybody, sides, options, folder)
    if options.json:
        print_json("profile", report.as_json())
    else:
        report.print(Terminal())
    if options.open and report.profiles:
        _open(folder)
    return 0 if report.files else 1


def _check(options: argparse.Namespace) -> None:
    for option in ("rate", "native"):
        if getattr(options, option) and options.kind != "cpu":
            raise BadInput(f"--{option} is for --kind cpu")
    if options.stack and options.kind != "torch":
        raise BadInput("--stack is for --kind torch")
    for option in ("diff", "open"):
        if getattr(options, option) and options.kind == "nsys":
            raise BadInput(
                f"--{option} is not for --kind nsys",
                hint="open its reports in nsys-ui, several at once to compare them",
            )
    options.most_stopped = None if options.rate else MOST_STOPPED
    options.rate = options.rate or (NATIVE_RATE if options.native else RATE)
    folder = Path(options.output) if options.output else None
    if folder and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is already there", hint="name a new directory")


def _choose(
    session: Session, options: argparse.Namespace
) -> tuple[list[Rank], list[Rank], list[list[Rank]]]:
    """The ranks to profile; all; and the two sides to be compared, if so."""
    from rankdbg.frontends.reports.ranks import choose, label

    ranks, everybody = choose(session, options)
    sides = [selection.pick(selection.parse(text), everybody) for text in options.diff or ()]
    if not sides:
        return ranks, everybody, sides
    first, second = ({rank.process for rank in side} for side in sides)
    if first == second:
        raise BadInput(f"--diff names the same ranks twice: {label(sides[0], everybody)}")
    if options.ranks == "all":
        return [rank for rank in ranks if rank.process in first | second], everybody, sides
    left_out = [rank for side in sides for rank in side if rank not in ranks]
    if left_out:
        raise BadInput(
            f"--diff names ranks that are not profiled: {label(left_out, everybody)}",
            hint=f"rankdbg profile --diff {shlex.quote(options.diff[0])} "
            f"{shlex.quote(options.diff[1])} profiles both sides",
        )
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

    keys = ("kind", "seconds", "rate", "native", "most_stopped", "stack")
    settings = {key: getattr(options, key) for key in keys}
    existed = folder.exists()
    try:
        inner = pictures.make_folder(folder)
        recorded = profiling.record(session, ranks, settings, inner, _wait)
        profiles = pictures.read_all(recorded, folder, named)
        diff = _indices(sides, profiles) if sides else None
        files = pictures.nsys_reports(recorded, folder)
        if profiles:
            title = f"{options.kind} of ranks {named([p.rank for p in profiles])}"
            title += f", {recorded.seconds:.1f} s"
            files += pictures.write_pictures(folder, profiles, title, named, diff)
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
