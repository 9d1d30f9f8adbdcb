"""Rules: every failure is known by its own lines, and calm lines are none."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from log_texts import CALM, KNOWN
from rankdbg.errors import RuleError
from rankdbg.logs import grams
from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.failures.log_lines import CLOCK
from rankdbg.verdicts.failures.root_causes import Diagnosis, diagnose
from rankdbg.verdicts.rules import log_rules, rule_files
from rankdbg.verdicts.rules.log_rules import load_rules

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


@pytest.mark.parametrize("prefix", ["", "[rank2]: ", "(Trainer pid=4711, ip=10.0.0.2) "])
def test_what_rankdbg_says_of_a_stop_is_no_failure(tmp_path: Path, prefix: str) -> None:
    """It quotes the exception at which a rank is held; the exception's own line counts."""
    error = "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total"
    stop = f"rankdbg: rank 2 has stopped (post-mortem: {error}); look at it with: rankdbg shell"
    assert diagnosis(tmp_path, prefix + stop).failures == ()
    assert diagnosis(tmp_path, f"{prefix}{stop}\n{prefix}torch.{error}").failures != ()


ROWS = {"k8s_container_failed"}  # of tables: nothing stands before them


@pytest.mark.slow
def test_in_the_middle_of_a_log(tmp_path: Path) -> None:
    """Each failure is found among a thousand calm lines, behind progress bars and prefixes."""
    numbers = random.Random(7)
    for mode, text in KNOWN:
        if mode in RULES.harmless:
            continue
        bar = "Training:  12%|#2        | 12/100 [00:10<01:20,  1.10it/s]"
        actor = "(WorkerDict pid=4711, ip=10.0.0.2) "
        alone = ["", bar + "\r"]
        for prefix in alone if mode in ROWS else numbers.sample([*alone, actor, bar], 2):
            lines = [numbers.choice(CALM) for _ in range(20)]
            lines[10:10] = [prefix + line for line in text.split("\n")]
            found = diagnosis(tmp_path, "\n".join(lines))
            assert mode in [event.mode for event in found.events], (prefix, text)


@pytest.mark.slow
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
            # Some modes are no failures of a job that does its steps.
            if mode not in [event.mode for event in found.events]:
                missed.append(torn)
    assert len(missed) < 0.1 * tried, missed


def test_code_that_a_traceback_quotes(tmp_path: Path) -> None:
    """What a program would say in another case is no message; what it has raised is one."""
    raised = "RuntimeError: CUDA error: an illegal memory access was encountered"
    frames = f"""Traceback (most recent call last):
  File "train.py", line 5, in step
    if bad: raise {raised.replace(": ", '("', 1)}")
    ~~~~~^^^^
"""
    (error,) = diagnosis(tmp_path, f"{frames}ValueError: batch 7 is empty").failures
    assert error.mode == "python_error"
    (error,) = diagnosis(tmp_path, frames + raised).failures
    assert (error.mode, error.first.text) == ("cuda_illegal_access", raised)


def test_calm_lines_side_by_side(tmp_path: Path) -> None:
    """Calm lines next to each other are not taken for one that was torn."""
    numbers = random.Random(3)
    for _ in range(60):
        lines = [numbers.choice(CALM) for _ in range(100)]
        assert diagnosis(tmp_path, "\n".join(lines)).failures == ()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["0" * 8000, "a_" * 4000, "error: " * 1100, "rank 3 " * 1100])
def test_expressions_are_quick(text: str) -> None:
    """No expression needs long for a line that nearly matches: logs may be anything."""
    for pattern in RULES.patterns():
        for literal, expression in pattern.match:
            for each in (expression, *pattern.unless):
                begin = time.process_time()
                re.search(each, text + literal)
                assert time.process_time() - begin < 1, each


# From tracebacks, from the status of a pod, and what counts beside other failures only.
WITHOUT_LINES = {
    "python_error", "k8s_container_killed", "k8s_evicted", "k8s_pod_deleted",
    "version_mismatch",
}  # fmt: skip


def test_own_expressions_are_valid() -> None:
    """Those of rankdbg's own rules are compiled only when a line needs them."""
    texts = rule_files.own_texts()
    assert log_rules.check(texts) == texts


def test_literals_that_can_be_found() -> None:
    """In a long log they are found by three of their bytes, so none is shorter."""
    literals = [literal for pattern in RULES.patterns() for literal, _ in pattern.match]
    assert [literal for literal in literals if len(literal.encode()) < grams.LENGTH] == []


def test_every_failure_has_cause_and_fix() -> None:
    """A rule without them would be of no use; modes that a rule names exist."""
    for rule in RULES.failures.values():
        assert rule.cause.endswith(".")
        assert rule.fix.endswith(".")
        assert {*rule.beats, *rule.follows} <= RULES.failures.keys()
        assert not rule.differ or rule.differ in RULES.failures
        assert rule.match or rule.mode in WITHOUT_LINES
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


@pytest.mark.parametrize(
    "text",
    ["error_type: OUT_OF_MEMORY", '"error_type": "OUT_OF_MEMORY",', "exit_type = OUT_OF_MEMORY"],
)
def test_kind_of_error_is_no_state_of_slurms(tmp_path: Path, text: str) -> None:
    """What Ray calls its errors is not taken for the state of a job of Slurm's."""
    modes = [failure.mode for failure in diagnosis(tmp_path, text).failures]
    assert "cgroup_oom_slurm" not in modes


def test_packages_of_a_runtime_environment(tmp_path: Path) -> None:
    """An error of pip's in the file that Ray writes for environments is Ray's failure; the
    package is in the line."""
    log = tmp_path / "runtime_env_setup-08000000.log"
    log.write_text("ERROR: No matching distribution found for no-such==9.9\n")
    (failure,) = diagnose([SCANNER.scan(str(log))], RULES).failures
    assert failure.mode == "ray_runtime_env_failed"
    assert failure.lines == [f"{log}:1: ERROR: No matching distribution found for no-such==9.9"]


@pytest.mark.parametrize("prefix", ["", "(Broken pid=495, ip=10.0.0.2) "])
def test_constructor_of_an_actor(tmp_path: Path, prefix: str) -> None:
    """Its own error is shown, and where it was raised, also behind the prefix of a driver's log."""
    lines = [
        "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation "
        "task, ray::Broken.__init__() (pid=495, ip=10.0.0.2, actor_id=adeb)",
        '  File "train.py", line 40, in __init__',
        "    self.load()",
        '  File "train.py", line 42, in load',
        '    raise FileNotFoundError("no checkpoint")',
        "FileNotFoundError: no checkpoint",
        "step 3",
    ]
    (failure,) = diagnosis(tmp_path, "\n".join(prefix + line for line in lines)).failures
    assert failure.mode == "ray_actor_init_failed"
    place = 'File "train.py", line 42, in load'
    assert failure.first.text == f"FileNotFoundError: no checkpoint   ({place})"


def test_a_clock_that_goes_years_back(tmp_path: Path) -> None:
    """Lines that stand together are one event, though one of them tells another year."""
    lines = [
        "2026-03-01 10:00:00,123 - root - INFO - step: 12  loss:  2.31",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2023-12-05T07:16:01 ***",
    ]
    found = diagnosis(tmp_path, "\n".join(lines))
    assert [failure.mode for failure in found.failures] == ["cgroup_oom_slurm"]


def test_each_number_of_an_xid_has_one_rule() -> None:
    """None is known by two of them, or by none."""
    for number in range(1, 200):
        line = f"NVRM: Xid (PCI:0000:41:00): {number}, pid=7012, name=python3, text"
        known = [
            rule.mode
            for rule in RULES.failures.values()
            if any(literal in line and re.search(regex, line) for literal, regex in rule.match)
            and not any(re.search(regex, line) for regex in rule.unless)
        ]
        assert len(known) == 1, (number, known)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[failure", "is not TOML"),
        ("[[falure]]\nmode='x'", "no rules are called [[falure]]"),
        ("[[failure]]\nmode='x'\ncause='c'", "[[failure]] x: fix is missing"),
        ("[[failure]]\nmode='x'\ncause='c'\nfix='f'\ncolour='red'", "no key 'colour'"),
        ("[[failure]]\nmode='x'\ncause='c'\nfix='f'\nrole='boss'", "role must be one of"),
        (
            "[[failure]]\nmode='x'\ncause='c'\nfix='f'\nmatch=[['abc','(']]",
            "invalid regular expression",
        ),
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
