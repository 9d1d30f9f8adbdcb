"""rankdbg.process.nsys_config: which ranks, which steps, which command line."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import rankdbg
from rankdbg.errors import BadInput
from rankdbg.process import nsys_config

WORKERS, STEPS, OPTIONS = nsys_config.OURS
NEMO_WORKERS, NEMO_STEPS, NEMO_OPTIONS = nsys_config.NEMO


@given(st.text("ab-]![*?c", max_size=6), st.text("ab-]![*?c", max_size=9))
def test_patterns_are_those_of_fnmatch(name: str, pattern: str) -> None:
    """Also sets, ranges, and brackets that are not closed."""
    assert nsys_config.matches(name, pattern) == fnmatchcase(name, pattern)


def test_blanks_are_stripped_and_empty_patterns_ignored() -> None:
    """As NeMo RL does."""
    config = nsys_config.read({WORKERS: " *policy* ,, vllm_*,"})
    assert config is not None
    assert config.patterns == ("*policy*", "vllm_*")
    assert config.pattern_of(["train", "dtensor_policy_worker"]) == (
        "dtensor_policy_worker",
        "*policy*",
    )
    assert config.pattern_of(["Policy"]) == ("", "")


@pytest.mark.parametrize("variables", [{}, {WORKERS: " , "}, {OPTIONS: '{"trace": "cuda"}'}])
def test_nothing_to_profile(variables: dict[str, str]) -> None:
    """Without patterns nobody is meant."""
    assert nsys_config.read(variables) is None


def test_ours_come_before_nemos() -> None:
    """Where both are set."""
    nemo = {NEMO_WORKERS: "*policy*", NEMO_STEPS: "3:7", NEMO_OPTIONS: '{"t": "cuda"}'}
    config = nsys_config.read(nemo)
    assert config is not None
    assert (config.patterns, config.steps, config.options) == (
        ("*policy*",),
        (3, 7),
        {"trace": "cuda"},
    )
    config = nsys_config.read({**nemo, WORKERS: "train"})
    assert config is not None
    assert (config.patterns, config.steps, config.options) == (("train",), None, {})


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("1-10", ": expected steps such as 3:7, not '1-10'", "1:10"),
        ("1:2:3", ": expected steps such as 3:7, not '1:2:3'", "3:7"),
        ("abc:10", "=abc:10: expected whole numbers, not 'abc'", "3:7"),
        ("3:", "=3:: expected whole numbers, not ''", "3:7"),
        ("10:5", "=10:5: expected a first step below the second", "5:10"),
        ("4:4", "=4:4: expected a first step below the second", "4:5"),
        ("0:10", "=0:10: step 0 does not exist, steps count from 1", "1:10"),
    ],
)
@pytest.mark.parametrize("steps", [STEPS, NEMO_STEPS])
def test_ranges_that_are_none(text: str, what: str, hint: str, steps: str) -> None:
    """What is wrong, where, and what to write instead."""
    workers = WORKERS if steps == STEPS else NEMO_WORKERS
    with pytest.raises(BadInput) as caught:
        nsys_config.read({workers: "*", steps: text})
    assert caught.value.what == f"invalid {steps}{what}"
    assert caught.value.hint == f"{steps}={hint}"


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        ({STEPS: "3:7"}, WORKERS),
        ({NEMO_STEPS: "3:7"}, NEMO_WORKERS),
        ({NEMO_WORKERS: "*"}, NEMO_STEPS),
    ],
)
def test_one_variable_of_two(variables: dict[str, str], missing: str) -> None:
    """The other is named. (Ours may do without steps: all of the run.)"""
    with pytest.raises(BadInput, match=f"but {missing} is not"):
        nsys_config.read(variables)


@pytest.mark.parametrize(
    "text", ["[]", '"cuda"', "{", "trace=cuda", '{"t": []}', '{"--trace": "cuda"}', '{"": 1}']
)
@pytest.mark.parametrize(("workers", "options"), [(WORKERS, OPTIONS), (NEMO_WORKERS, NEMO_OPTIONS)])
def test_options_that_are_no_object(text: str, workers: str, options: str) -> None:
    """Of names without dashes and single values."""
    with pytest.raises(BadInput, match=options):
        nsys_config.read({workers: "*", NEMO_STEPS: "1:2", options: text})


def test_command() -> None:
    """Of steps, the range that nsys is told to wait for; without, the whole run."""
    config = nsys_config.NsysConfig(["*"], (3, 7), {})
    assert config.report_name("dtensor_policy_worker") == "dtensor_policy_worker_3:7_%p"
    command = config.command("/bin/nsys", "/tmp/x_%p")
    assert command[:2] == ["/bin/nsys", "profile"]
    assert {"--capture-range=cudaProfilerApi", "--capture-range-end=stop"} <= set(command)
    assert "--output=/tmp/x_%p" in command
    whole = nsys_config.NsysConfig(["*"], None, {})
    assert whole.report_name("a/b%") == "a_b%%_%p"
    assert not any("capture" in word for word in whole.command("nsys", "x"))


def test_what_the_user_says_wins() -> None:
    """By either name of an option, with Ray's quotes or without; null takes one away."""
    text = '{"t": "cuda,osrt", "sample": null, "o": "\'/data/%h_%p\'", "stats": true, "delay": 3}'
    config = nsys_config.NsysConfig(["*"], None, nsys_config.parse_options(text, OPTIONS))
    command = config.command("nsys", "/tmp/x")
    assert [word for word in command if "trace=" in word] == [
        "--trace=cuda,osrt",
        "--cuda-graph-trace=node",
    ]
    assert not any("sample" in word for word in command)
    assert {"--output=/data/%h_%p", "--stats=true", "--delay=3"} <= set(command)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("/d/train_3:7_%p", "/d/train_3:7_41.nsys-rep"),
        ("%h-%q{RANK}-%q{NONE}%%.nsys-rep", "node-1-2-%.nsys-rep"),
        ("report%n", ""),
        ("%q{RANK", ""),
    ],
)
def test_names_of_reports(template: str, name: str) -> None:
    """As nsys makes them; `` where only nsys can know."""
    assert nsys_config.expand(template, 41, "node-1", {"RANK": "2"}) == name


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--nsys", " , "], "--nsys is empty: expected patterns"),
        (["--nsys-steps", "3:7"], "--nsys-steps needs --nsys"),
        (["--nsys-options", "{}"], "--nsys-options needs --nsys"),
        (
            ["--nsys", "*", "--nsys-steps", "1-10"],
            "invalid --nsys-steps: expected steps such as 3:7",
        ),
        (["--nsys", "*", "--nsys-options", "[]"], "invalid --nsys-options: expected a JSON object"),
    ],
)
def test_run_says_it_before_the_job_starts(options: list[str], what: str) -> None:
    """With status 2, and nothing is started."""
    result = rankdbg("run", *options, "--", "echo", "started")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {what}")
    assert "hint: " in result.stderr


def test_run_checks_variables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """NeMo RL's as well."""
    monkeypatch.setenv(NEMO_WORKERS, "*policy*")
    result = rankdbg("run", "--", "echo", "started")
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{NEMO_WORKERS} is set, but {NEMO_STEPS} is not" in result.stderr
