"""Rules that other packages add, through the entry point group `rankdbg.rules`."""

from __future__ import annotations

from rankdbg.errors import RuleError
from rankdbg.verdicts.hangs import hang_rules
from rankdbg.verdicts.rules import log_rules, profile_rules, rule_files


def faults() -> list[str]:
    """Plug-ins whose rules are left out, and why."""
    found = []
    for name, package in rule_files.plugins():
        try:
            texts = rule_files.plugin_texts(name, package)
            log_rules.check(texts)
            rule_files.rules_in("hang", texts, hang_rules.read_rule)
            rule_files.rules_in("profile", texts, profile_rules.read_rule)
        except RuleError as error:
            found.append(f"rules of the plug-in {name} ({package}) are left out: {error.what}")
    return found
