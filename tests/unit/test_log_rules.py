"""Rules: every failure is known by its own lines, and calm lines are none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from log_texts import CALM, KNOWN
from rankdbg.errors import RuleError
from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.failures import Diagnosis, diagnose
from rankdbg.verdicts.log_lines import CLOCK
from rankdbg.verdicts.log_rules import load_rules

RULES = load_rules()
SCANNER = Scanner(RULES.patterns(), CLOCK)


def diagnosis(folder: Path, text: str) -> Diagnosis:
    log = folder / "job.log"
    log.write_text(text + "\n")
    return diagnose([SCANNER.scan(str(log))], RULES)


@pytest.mark.parametrize(("mode", "text"), KNOWN, ids=lambda value: value[:40].split("\n")[0])
def test_known_lines(tmp_path: Path, mode: str, text: str) -> None:
    """A line of this failure, alone, is named; one that is harmless is none."""
    found = diagnosis(tmp_path, text)
    if mode in RULES.harmless:
        assert [line.mode for line in found.harmless] == [mode]
        assert found.failures == ()
    else:
        assert mode in [failure.mode for failure in found.failures]
        assert found.failures[0].role == "root"


@pytest.mark.parametrize("text", CALM)
def test_calm_lines(tmp_path: Path, text: str) -> None:
    """Advice, settings and good news are no failures."""
    assert diagnosis(tmp_path, text).failures == ()


def test_in_the_middle_of_a_log(tmp_path: Path) -> None:
    """Each failure is found among a thousand calm lines, behind progress bars and prefixes."""
    numbers = random.Random(7)
    for mode, text in KNOWN:
        if mode in RULES.harmless:
            continue
        bar = "Training:  12%|#2        | 12/100 [00:10<01:20,  1.10it/s]"
        for prefix in ("", "(WorkerDict pid=4711, ip=10.0.0.2) ", bar + "\r", bar):
            lines = [numbers.choice(CALM) for _ in range(40)]
            lines[20:20] = [prefix + line for line in text.split("\n")]
            found = diagnosis(tmp_path, "\n".join(lines))
            assert mode in [failure.mode for failure in found.failures], (prefix, text)


def test_every_failure_has_cause_and_fix() -> None:
    """A rule without them would be of no use; modes that a rule beats exist."""
    for rule in RULES.failures.values():
        assert rule.cause.endswith(".")
        assert rule.fix.endswith(".")
        assert set(rule.beats) <= RULES.failures.keys()
        assert not rule.differ or rule.differ in RULES.failures
        assert rule.match or rule.mode == "python_error"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[failure", "is not TOML"),
        ("[[falure]]\nmode='x'", "no rules are called [[falure]]"),
        ("[[failure]]\nmode='x'\ncause='c'", "[[failure]] x: fix is missing"),
        ("[[failure]]\nmode='x'\ncause='c'\nfix='f'\ncolour='red'", "no key 'colour'"),
        ("[[failure]]\nmode='x'\ncause='c'\nfix='f'\nrole='boss'", "role must be one of"),
        ("[[failure]]\nmode='x'\ncause='c'\nfix='f'\nmatch=[['abc','(']]", "no regular expression"),
        ("[[failure]]\nmode='x'\ncause='c'\nfix='f'\nmatch=['ab']", "must be 3 characters"),
        ("[[failure]]\nmode='x'\ncause='c'\nfix='f'\nmatch='abc'", "match must be a list"),
        ("[[phase]]\nstack='s'\nphase='p'\nmatch=['abc']\nquiet='x'", "quiet must be a number"),
        ("[[harmless]]\nmode='x'\ncause='c'", "match is missing"),
    ],
)
def test_faulty_rule_files(tmp_path: Path, text: str, message: str) -> None:
    """A rule file that cannot be used is refused, with the place and what is wrong."""
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(RuleError) as error:
        load_rules([str(file)])
    assert message in str(error.value)
    assert "mine.toml" in str(error.value)


def test_own_rules(tmp_path: Path) -> None:
    """A user's rule is used beside rankdbg's, and replaces one of the same mode."""
    file = tmp_path / "mine.toml"
    file.write_text(
        "[[failure]]\nmode='widget_jam'\ncause='Jam.'\nfix='Shake.'\nmatch=['widget jammed']\n"
        "[[failure]]\nmode='nan_loss'\ncause='Mine.'\nfix='Mine.'\nmatch=['loss exploded']\n"
    )
    rules = load_rules([str(file)])
    log = tmp_path / "a.log"
    log.write_text("widget jammed\nloss: nan\n")
    found = diagnose([Scanner(rules.patterns()).scan(str(log))], rules)
    assert [failure.mode for failure in found.failures] == ["widget_jam"]
