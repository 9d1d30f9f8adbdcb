"""The transcripts in README.md and docs: runs the commands, and puts their output below them.

  python docs/make_transcripts.py                 all pages, one after another
  python docs/make_transcripts.py over-ssh        those of docs/guides/over-ssh.md alone
  python docs/make_transcripts.py --check         only say which commands have no scenario

What happens on a page (which job runs, and what happens between two commands) is in
transcripts/scenes, a file for each page. Commands that cannot be run here are listed there with the
reason. A page stays as it is where a command does not print what the page is about.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "docs")]

from transcripts import PAGES, load_scenario, problems  # noqa: E402, after the path to it
from transcripts.machine import run_inside, settle_in  # noqa: E402
from transcripts.page import commands_of, parse, written  # noqa: E402
from transcripts.scenario import NotAsShown, Play, Scene, assign  # noqa: E402

INSIDE = "--inside"


def make(name: str) -> bool:
    """All scenes of a page, each on a machine of its own."""
    scenario = load_scenario(name)
    sys.stderr.write(f"{PAGES[name]}\n")
    results = [
        run_inside(INSIDE, name, str(number), own_pids=part.own_pids)
        for number, part in enumerate(scenario)
        if isinstance(part, Scene)
    ]
    return not any(results)


def play(name: str, number: int) -> int:
    """One scene, on this machine."""
    path, scenario = ROOT / PAGES[name], load_scenario(name)
    parts = parse(path.read_text())
    scene = scenario[number]
    assert isinstance(scene, Scene)
    playing = Play(assign(commands_of(parts), scenario)[number])
    settle_in()
    try:
        scene.play(playing)
        playing.check_complete()
    except (NotAsShown, AssertionError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"{name}, scene {scene.play.__name__}: {error}\n")
        return 1
    path.write_text(written(parts))
    return 0


def check() -> int:
    found = [f"{PAGES[name]}: {problem}" for name in PAGES for problem in problems(name)]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


def main(words: list[str]) -> int:
    if words[:1] == [INSIDE]:
        return play(words[1], int(words[2]))
    if words == ["--check"]:
        return check()
    unknown = {*words} - {*PAGES}
    if unknown:
        sys.exit(f"no such page: {', '.join(sorted(unknown))}; there are: {', '.join(PAGES)}")
    if os.geteuid() != 0:
        sys.exit("this needs root, for namespaces")
    results = [make(name) for name in words or PAGES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
