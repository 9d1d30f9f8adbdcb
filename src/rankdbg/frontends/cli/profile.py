"""Profile running ranks, all at the same time, and compare them in one picture.

  rankdbg profile                       CPU profile of all ranks for 10 s
  rankdbg profile --diff 0 7 --open     what rank 7 does more of, in the browser
  rankdbg profile --html FILE           a page: the flame graph, all ranks
  rankdbg profile 0-7 --kind torch      operators and kernels on one time line
  rankdbg profile 3 --kind memory       which code holds memory
  rankdbg profile 3 --kind nsys         report of the nsys that it runs under

Ctrl-C stops recording early and keeps what was recorded.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rankdbg import selection
from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common, positive, seconds
from rankdbg.frontends.cli.html_option import add_html, check_html, write_html
from rankdbg.frontends.reports.documents import print_json
from rankdbg.investigations.profiles.profile_settings import KINDS, MOST_STOPPED, profile_settings
from rankdbg.types import Rank

if TYPE_CHECKING:
    from rankdbg.session import Session
    from rankdbg.verdicts.rules.profile_rules import Phases

NATIVE_NOTE = """\
--native stops the ranks at each sample{share}, and once for 0.5
to 3 s if they have loaded torch; longer if the machine is busy
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=10.0,
        metavar="N",
        help="recording time in seconds (default: 10)",
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="cpu",
        help="cpu: samples of all threads, with py-spy (default); torch: torch.profiler inside "
        "the ranks; memory: memray and torch's GPU memory history, inside the ranks; nsys: ranks "
        "that run under nsys (run --nsys-steps later)",
    )
    parser.add_argument(
        "--rate", type=positive, metavar="HZ", help="cpu: samples per second (default: 100)"
    )
    parser.add_argument(
        "--native",
        action="store_true",
        help="cpu: include C frames. Stops a rank at each sample, about 5 %% of the time (20 "
        "samples per second, fewer with many threads), and once for 0.5 to 3 s if it has loaded "
        "torch",
    )
    parser.add_argument(
        "--stack", action="store_true", help="torch: record the Python stack of each operator"
    )
    parser.add_argument(
        "--diff", nargs=2, metavar=("A", "B"), help="what ranks B do more than ranks A"
    )
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FILE|DIR",
        help="cpu: your own rules for the phases of a step, tried before rankdbg's "
        "(docs/reference/rules.md)",
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="a new directory (default: ./rankdbg-profile-...)"
    )
    add_html(parser)
    parser.add_argument("--open", action="store_true", help="open the flame graph in the browser")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.profiles import print_profile
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.profiles.recording_profiles import record_profile

    settings = profile_settings(
        options.kind, options.seconds, options.rate, options.native, options.stack
    )
    _check(options)
    check_html(options)
    phases = _phases(options)
    with open_session(options) as session:
        ranks, all_ranks, sides = _choose(session, options)
        folder = Path(options.output or f"rankdbg-profile-{time.strftime('%Y%m%d-%H%M%S')}")
        if options.native:
            share = f", about {100 * MOST_STOPPED:.0f} % of the time" if not options.rate else ""
            sys.stderr.write(NATIVE_NOTE.format(share=share))
        found = record_profile(session, ranks, all_ranks, settings, folder, _wait, sides, phases)
    if options.json:
        print_json("profile", found.as_json())
    else:
        print_profile(Terminal(), found)
    if options.html is not None:
        from rankdbg.frontends.html.profile_document import document_of_profile

        target = session.cluster.target
        write_html(options, partial(document_of_profile, found), "profile", target)
    if options.open and found.profiles:
        _open(folder)
    return 0 if found.files else 1


def _phases(options: argparse.Namespace) -> Phases | None:
    """Read before anything is recorded, so that a faulty rule is reported at once."""
    from rankdbg.verdicts.rules.profile_rules import Phases, load_profile_rules

    return Phases(load_profile_rules(options.rules)) if options.kind == "cpu" else None


def _check(options: argparse.Namespace) -> None:
    if options.rules and options.kind != "cpu":
        raise BadInput("--rules needs --kind cpu")
    for option in ("diff", "open", "html"):
        if getattr(options, option) and options.kind == "nsys":
            raise BadInput(
                f"--{option} does not work with --kind nsys",
                hint="open its reports in nsys-ui, several at once to compare them",
            )
    if options.output:
        from rankdbg.investigations.profiles.recording_profiles import check_folder

        check_folder(Path(options.output))


def _choose(
    session: Session, options: argparse.Namespace
) -> tuple[list[Rank], list[Rank], list[list[Rank]]]:
    """The ranks to profile, all ranks, and the two sides of --diff, if given."""
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.investigations.rank_labels import label

    ranks, all_ranks = choose(session, options)
    sides = [selection.pick(selection.parse(text), all_ranks) for text in options.diff or ()]
    if not sides:
        return ranks, all_ranks, sides
    first, second = ({rank.process for rank in side} for side in sides)
    if first == second:
        raise BadInput(f"--diff names the same ranks twice: {label(sides[0], all_ranks)}")
    if options.ranks == "all":
        return [rank for rank in ranks if rank.process in first | second], all_ranks, sides
    left_out = [rank for side in sides for rank in side if rank not in ranks]
    if left_out:
        raise BadInput(
            f"--diff names ranks that are not profiled: {label(left_out, all_ranks)}",
            hint=f"rankdbg profile --diff {shlex.quote(options.diff[0])} "
            f"{shlex.quote(options.diff[1])} profiles both sides",
        )
    return ranks, all_ranks, sides


def _wait(seconds: float) -> bool:
    """False if the user pressed Ctrl-C."""
    from rankdbg.frontends.terminal import Terminal

    deadline = time.monotonic() + seconds
    shows = sys.stderr.isatty()
    terminal = Terminal(sys.stderr)
    try:
        if not shows:
            sys.stderr.write(f"recording for {seconds:g} s; Ctrl-C stops it now\n")
        while (left := deadline - time.monotonic()) > 0:
            if shows:
                terminal.show_progress(f"recording, {left:.0f} s left; Ctrl-C stops it now")
            time.sleep(min(left, 0.5))
    except KeyboardInterrupt:
        return False
    finally:
        if shows:
            terminal.show_progress()
    return True


def _open(folder: Path) -> None:
    import webbrowser

    from rankdbg.investigations.profiles.profile_files import FLAME

    place = (folder / FLAME).resolve()
    try:
        shown = webbrowser.get().open(place.as_uri())
    except webbrowser.Error:
        shown = False
    if not shown:
        sys.stderr.write(f"no browser found; open this file in a browser: {place}\n")
