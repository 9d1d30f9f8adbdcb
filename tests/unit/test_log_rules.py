"""Rules: every failure is known by its own lines, and calm lines are none."""

from __future__ import annotations

import random
import re
import time
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
        actor = "(WorkerDict pid=4711, ip=10.0.0.2) "
        for prefix in numbers.sample(["", actor, bar + "\r", bar], 2):
            lines = [numbers.choice(CALM) for _ in range(20)]
            lines[10:10] = [prefix + line for line in text.split("\n")]
            found = diagnosis(tmp_path, "\n".join(lines))
            assert mode in [failure.mode for failure in found.failures], (prefix, text)


def test_torn_by_two_writers(tmp_path: Path) -> None:
    """Of lines that another writer has cut at any place, nine of ten are still named."""
    numbers = random.Random(11)
    other = "2026-03-01 10:00:00,123 - root - INFO - step: 12  loss:  2.31  memory: 61.20GiB"
    missed, tried = [], 0
    for mode, text in KNOWN:
        if mode in RULES.harmless or "\n" in text:
            continue
        for form in ("{a}{other}\n{b}", "{a}\n{other}\n{b}", "{a}{other}{b}"):
            cut = numbers.randrange(len(text) // 5, len(text) - len(text) // 5)
            torn = form.format(a=text[:cut], b=text[cut:], other=other)
            found = diagnosis(tmp_path, f"{other}\n{torn}\n{other}")
            tried += 1
            if mode not in [failure.mode for failure in found.failures]:
                missed.append(torn)
    assert len(missed) < 0.1 * tried, missed


def test_calm_lines_side_by_side(tmp_path: Path) -> None:
    """Calm lines next to each other are not taken for one that was torn."""
    numbers = random.Random(3)
    for _ in range(60):
        lines = [numbers.choice(CALM) for _ in range(100)]
        assert diagnosis(tmp_path, "\n".join(lines)).failures == ()


@pytest.mark.parametrize("text", ["0" * 8000, "a_" * 4000, "error: " * 1100, "rank 3 " * 1100])
def test_expressions_are_quick(text: str) -> None:
    """No expression needs long for a line that nearly matches: logs may be anything."""
    for pattern in RULES.patterns():
        for literal, expression in pattern.match:
            for each in (expression, *pattern.unless):
                begin = time.process_time()
                re.search(each, text + literal)
                assert time.process_time() - begin < 1, each


def test_every_failure_has_cause_and_fix() -> None:
    """A rule without them would be of no use; modes that a rule names exist."""
    for rule in RULES.failures.values():
        assert rule.cause.endswith(".")
        assert rule.fix.endswith(".")
        assert {*rule.beats, *rule.follows} <= RULES.failures.keys()
        assert not rule.differ or rule.differ in RULES.failures
        assert rule.match or rule.mode == "python_error"
    for harmless in RULES.harmless.values():
        assert {*harmless.calms} <= RULES.failures.keys()


def test_a_request_that_is_made_again(tmp_path: Path) -> None:
    """What the hub refused and is asked again is harmless; when nobody asks again, it failed."""
    refused = "HTTP Error 429 thrown while requesting GET https://huggingface.co/api/models/x"
    again = f"{refused}\nRetrying in 8s [Retry 1/5]."
    found = diagnosis(tmp_path, again)
    assert found.failures == ()
    assert [line.mode for line in found.harmless] == ["benign_hub_retry"]
    given_up = "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: x"
    found = diagnosis(tmp_path, f"{again}\n{refused}\n{given_up}")
    assert [failure.mode for failure in found.failures] == ["hf_rate_limit"]
    assert all("Retrying" not in line for line in found.failures[0].lines)


def test_a_clock_that_goes_years_back(tmp_path: Path) -> None:
    """Lines that stand together are one event, though one of them tells another year."""
    lines = [
        "2026-03-01 10:00:00,123 - root - INFO - step: 12  loss:  2.31",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2023-12-05T07:16:01 ***",
    ]
    found = diagnosis(tmp_path, "\n".join(lines))
    assert [failure.mode for failure in found.failures] == ["cgroup_oom_slurm"]


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
        ("[[failure]]\nmode='x'\ncause='c'\nfix='f'\nmatch=[[['abc',1],'x']]", "match has"),
        ("[[failure]]\nmode='x'\ncause='c'\nfix='f'\nmatch=[['a','b','c']]", "match has"),
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
        "[[failure]]\nmode='widget_jam'\ncause='Jam.'\nfix='Shake.'\n"
        "match=[[['widget jammed', 'WIDGET JAMMED'], '(?i)widget jammed$']]\n"
        "[[failure]]\nmode='nan_loss'\ncause='Mine.'\nfix='Mine.'\nmatch=['loss exploded']\n"
    )
    rules = load_rules([str(file)])
    log = tmp_path / "a.log"
    log.write_text("widget jammed\nloss: nan\n")
    found = diagnose([Scanner(rules.patterns()).scan(str(log))], rules)
    assert [failure.mode for failure in found.failures] == ["widget_jam"]
