"""The failures and phases that logs are read for, and the causes of hangs.

  rankdbg rules                       all of them
  rankdbg rules cuda_oom              one: its lines, cause, fix, links
  rankdbg rules check mine.toml LOG   test a rule file; what it matches in a log

docs/reference/rules.md describes the format of a rule file.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput
from rankdbg.frontends.reports.documents import print_json
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.text.amounts import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankdbg.verdicts.hangs.hang_rules import HangRule
    from rankdbg.verdicts.rules.log_rules import FailureRule, HarmlessRule, LogRules
    from rankdbg.verdicts.rules.profile_rules import ProfileRule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="MODE | check FILE [PATH ...]", nargs="*", default=[])
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    if options.words[:1] == ["check"]:
        return _check(options.words[1:], options.json)
    if len(options.words) > 1:
        raise BadInput(f"expected one mode, not {len(options.words)}", hint="rankdbg rules --help")
    return _show(options.words[0] if options.words else "", options.json)


def _show(mode: str, as_json: bool) -> int:
    from rankdbg.investigations import rule_plugins
    from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
    from rankdbg.verdicts.rules.log_rules import load_rules
    from rankdbg.verdicts.rules.profile_rules import load_profile_rules

    rules = load_rules()
    profiles = load_profile_rules()
    for fault in rule_plugins.faults():
        sys.stderr.write(f"note: {fault}\n")
    all_hangs = load_hang_rules()
    hangs = [rule for rule in all_hangs if mode in ("", rule.cause)]
    chosen = {name: rule for name, rule in rules.failures.items() if mode in ("", name)}
    calm = {name: rule for name, rule in rules.harmless.items() if mode in ("", name)}
    if mode and not chosen and not calm and not hangs:
        import difflib

        causes = [rule.cause for rule in all_hangs]
        near = difflib.get_close_matches(mode, [*rules.failures, *rules.harmless, *causes], n=1)
        raise BadInput(
            f"unknown mode {mode!r}", hint=f"rankdbg rules {near[0] if near else ''}".strip()
        )
    if as_json:
        print_json(
            "rules",
            {
                "failures": [vars(rule) for rule in chosen.values()],
                "harmless": [vars(rule) for rule in calm.values()],
                "phases": [] if mode else [vars(rule) for rule in rules.phases],
                "hangs": [vars(rule) for rule in hangs],
                "profiles": [] if mode else [vars(rule) for rule in profiles],
            },
        )
        return 0
    terminal = Terminal()
    if not mode:
        _print_all(terminal, rules, profiles, hangs)
        return 0
    every: dict[str, FailureRule | HarmlessRule] = {**chosen, **calm}
    for name, shown in every.items():
        _print_log_rule(terminal, name, shown)
    for hang in hangs:
        _print_hang(terminal, hang)
    return 0


def _print_all(
    terminal: Terminal,
    rules: LogRules,
    profiles: Sequence[ProfileRule],
    hangs: Sequence[HangRule],
) -> None:
    """A line for each failure, and the names of all others."""
    for name, rule in sorted(rules.failures.items()):
        terminal.print(f"{name:34} {rule.role:12} {cut(rule.cause, terminal.width - 48)}")
    terminal.print(f"harmless: {', '.join(rules.harmless)}")
    stacks = dict.fromkeys(rule.stack for rule in rules.phases)
    terminal.print(f"phases of: {', '.join(stacks)}")
    phases = dict.fromkeys(rule.phase for rule in profiles)
    terminal.print(f"phases in profiles: {', '.join(phases)}")
    causes = ", ".join(dict.fromkeys(rule.cause for rule in hangs))
    for line in textwrap.wrap(f"causes of hangs: {causes}", terminal.width, break_on_hyphens=False):
        terminal.print(line)


def _print_log_rule(terminal: Terminal, name: str, rule: FailureRule | HarmlessRule) -> None:
    terminal.print(terminal.bold(name))
    for line in dict.fromkeys(regex or literal for literal, regex in rule.match):
        terminal.print(f"  line   {line}")
    for text in rule.unless:
        terminal.print(f"  unless {text}")
    terminal.print(f"  cause  {rule.cause}")
    terminal.print(f"  next   {getattr(rule, 'fix', 'nothing')}")
    for link in getattr(rule, "links", ()):
        terminal.print(f"  see    {link}")


def _print_hang(terminal: Terminal, rule: HangRule) -> None:
    terminal.print(f"{terminal.bold(rule.cause)} ({rule.role})")
    for name, value in vars(rule).items():
        if isinstance(value, tuple) and value:
            terminal.print(f"  {name:8} {cut('  '.join(value), terminal.width - 11)}")
    terminal.print(f"  says     {rule.says}")
    terminal.print(f"  why      {rule.why}")
    terminal.print(f"  next     {rule.fix}")


def _check(words: list[str], as_json: bool) -> int:
    """Check the rules of a file, and show the lines that each of them matches."""
    from dataclasses import replace

    from rankdbg.frontends.cli.log_options import scan_paths
    from rankdbg.verdicts.hangs.hang_rules import load_hang_rule_file
    from rankdbg.verdicts.rules.log_rules import load_rule_file, load_rules
    from rankdbg.verdicts.rules.profile_rules import load_profile_rule_file

    if not words:
        raise BadInput("no rule file given", hint="rankdbg rules check FILE [PATH ...]")
    rules = load_rule_file(words[0])
    hangs = load_hang_rule_file(words[0])
    profiles = load_profile_rule_file(words[0])
    names = rules.names()
    patterns = [replace(pattern, numbered=True) for pattern in rules.patterns()]
    scans = scan_paths(words[1:], patterns) if words[1:] else []
    found: dict[str, list[str]] = {name: [] for name in names}
    for scan in scans:
        for hit in scan.hits:
            if hit.pattern in found:
                found[hit.pattern].append(f"{scan.path}:{hit.line}: {hit.text.strip()}")
    if as_json:
        rows = [{"rule": names[name], "lines": lines} for name, lines in found.items()]
        causes = [rule.cause for rule in hangs]
        phases = [rule.phase for rule in profiles]
        document = {"file": words[0], "rules": rows, "hangs": causes, "profiles": phases}
        print_json("rules", document)
        rules.check_slow(scans)
        return 0
    terminal = Terminal()
    count = len(names) + len(hangs) + len(profiles)
    terminal.print(f"{words[0]}: {counted(count, 'valid rule')}")
    own = load_rules().names()
    for name, lines in found.items():
        text = names[name]
        if not name.startswith("phase:") and name in own:
            text += " (replaces rankdbg's own)"
        if scans:
            text += f": {counted(len(lines), 'line')}"
        terminal.print(text)
        for line in lines[:5]:
            terminal.print("  " + cut(line, terminal.width - 2))
    for rule in hangs:
        terminal.print(f"hang: {rule.cause} ({rule.role})")
    for phase in profiles:
        terminal.print(f"profile: {phase.phase}")
    rules.check_slow(scans)
    return 0
