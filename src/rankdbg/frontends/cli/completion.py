"""Shell completion for bash, zsh and fish.

  bash:  eval "$(rankdbg completion bash)"        in ~/.bashrc
  zsh:   eval "$(rankdbg completion zsh)"         in ~/.zshrc, after compinit
  fish:  rankdbg completion fish | source         in ~/.config/fish/config.fish

Completes verbs, options, jobs, and the dimensions, roles and states of the running job.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from rankdbg.errors import RankdbgError
from rankdbg.frontends.cli import VERBS, verb_parser

BASH = """\
_rankdbg() {
  local IFS=$'\\n'
  COMPREPLY=($(rankdbg _complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _rankdbg rankdbg
"""
ZSH = """\
_rankdbg() {
  local -a found
  found=("${(@f)$(rankdbg _complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n ${found[1]} ]]; then compadd -S '' -- "${found[@]}"; else _files; fi
}
compdef _rankdbg rankdbg
"""
FISH = """\
function __rankdbg_complete
    set -l words (commandline -opc) (commandline -ct)
    rankdbg _complete -- $words[2..-1] 2>/dev/null
end
complete -c rankdbg -f -a '(__rankdbg_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SCRIPTS))


def run(options: argparse.Namespace) -> int:
    sys.stdout.write(SCRIPTS[options.shell])
    return 0


def complete(words: list[str]) -> int:
    """Called by the shell script: the words so far, the last one incomplete."""
    *before, unfinished = (words[1:] if words[:1] == ["--"] else words) or [""]
    # bash takes = for a word of its own.
    prefix = unfinished if unfinished != "=" else ""
    found = sorted({word for word in candidates(before) if word.startswith(prefix)})
    sys.stdout.write("".join(f"{word}\n" for word in found))
    return 0


def candidates(before: list[str]) -> Iterable[str]:
    if not before:
        return VERBS
    if before[0] not in VERBS:
        return ()
    if before[0] == "run" and "--" in before:
        return ()  # the shell's own completion of files
    if before[-1] == "--job":
        return _jobs()
    actions = verb_parser(before[0])._actions
    for action in actions:
        if before[-1] in action.option_strings and action.nargs != 0:
            if before[-1] in ("-t", "--target"):
                return ("local", "snapshot:")
            if before[-1] == "--ranks":
                return ("all", *_labels())
            return map(str, action.choices or ())
    options = [option for action in actions for option in action.option_strings]
    wanted = next((a for a in actions if not a.option_strings), None)
    if wanted is None or len([w for w in before[1:] if not w.startswith("-")]) > 0:
        return options
    if wanted.metavar in ("RANKS", "RANKS|FILE"):
        return [*options, "all", *_labels()]
    return [*options, *map(str, wanted.choices or ())]


def _jobs() -> list[str]:
    from rankdbg.session import Session

    try:
        with Session(timeout=1.0) as session:
            return sorted(session.roster(where=False).jobs())
    except RankdbgError:
        return []


def _labels() -> list[str]:
    """The labels by which local ranks can be selected."""
    from rankdbg.session import Session

    try:
        with Session(timeout=1.0) as session:
            ranks = [r for rs in session.roster(where=False).jobs().values() for r in rs]
    except RankdbgError:
        return []
    labels = {f"{name}=" for rank in ranks for name in rank.coordinates}
    labels |= {f"role={rank.role}" for rank in ranks if rank.role}
    labels |= {f"host={rank.host}" for rank in ranks}
    labels |= {f"state={rank.state}" for rank in ranks if " " not in rank.state}
    return sorted(labels | {str(rank.number) for rank in ranks if rank.number is not None})
