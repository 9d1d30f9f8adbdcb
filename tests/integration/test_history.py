"""Real ranks that part, or do not: what `rankdbg history` says of them, also when they are dead."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rankdbg as rankdbg_module
from agents import Programs, python
from jobs import PATIENCE, PROGRAMS, Job, rankdbg
from waiting import wait_for

PROGRAM = PROGRAMS / "history_torch.py"
SOURCE = Path(__file__).parents[2] / "src"

pytestmark = [pytest.mark.slow]


def start(job: Job, story: str, ranks: int = 3, **settings: Any) -> Any:
    pytest.importorskip("torch", reason="needs torch")
    return job.start_torch(ranks, PROGRAM, story, **settings)


def wait_until_parted(job: Job, *words: object) -> Any:
    """What history says, as soon as it has found a departure."""
    last: list[Any] = []

    def found() -> Any:
        result = job.cli("history", "--json", *words)
        last[:] = [result.stdout, result.stderr]
        document = json.loads(result.stdout) if result.returncode == 0 else {}
        return document if document.get("departures") else None

    return wait_for(found, lambda: last)


def lines(event: Any) -> tuple[str, str]:
    text = Path(event["file"]).read_text().splitlines()[event["line"] - 1].strip()
    return event["kind"], text


def test_a_rank_that_left_a_collective_out(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in the running job, in a snapshot, by the files alone, and after kill -9."""
    start(job, "skips")
    found = wait_until_parted(job)
    check_skip(found)
    page = tmp_path / "history.html"
    text = job.cli("history", "--html", page).stdout
    assert '"title":"Rank 2 parted from ranks 0-1 in step 41."' in page.read_text()
    assert "Rank 2 parted from ranks 0-1 in step 41" in text
    assert "accepted=0" in text and "accepted=17" in text
    assert "Traceback" not in text
    assert text.rstrip().endswith("hint: rankdbg history --diff 2 0")
    of_two = job.cli("history", "--diff", 2, 0).stdout
    assert of_two.rstrip().endswith("hint: rankdbg history --step 41")
    check_skip(job.json("history", "--diff", 2, 0))
    check_skip({"departures": [*without_marks(job.json("history", "--group", "default_pg"))]})
    wrong = job.cli("history", "--group", "tp")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "there are: default_pg" in wrong.stderr
    (first, second) = job.json("history", "--step", "41")["ranks"][1:]
    assert len(first["events"]) == len(second["events"]) + 1
    monkeypatch.setenv("RANKDBG_DIR", str(job.directory))
    with rankdbg_module.connect(job=job.name) as connection:
        told = connection.history()
    check_skip(told.as_json())
    assert "rank 2 parted from ranks 0-1 in step 41" in repr(told)
    assert "its last event" in told._repr_html_()
    assert {record["rank"] for record in told.records()} == {0, 1, 2}
    saved = tmp_path / "saved"
    assert job.cli("save", saved).returncode == 0
    check_skip(job.json("history", "-t", f"snapshot:{saved}"))
    for rank in job.ranks():
        os.kill(rank.pid, signal.SIGKILL)
    wait_for(lambda: not [r for r in job.ranks() if r.state != "gone"], "all are dead")
    check_skip(job.json("history"))
    elsewhere = rankdbg("history", "--json", job.directory / "histories", env=os.environ)
    check_skip(json.loads(elsewhere.stdout))


def without_marks(found: Any) -> Iterator[Any]:
    """Marks belong to no group."""
    for each in found["departures"]:
        assert each["their_marks"] == []
        yield {**each, "their_marks": [{"name": "accepted", "value": 0}]}


def check_skip(found: Any) -> None:
    (departure,) = found["departures"]
    assert (departure["step"], departure["ranks"]) == (41, "2")
    assert departure["others"] in ("0-1", "0")
    assert lines(departure["common"]) == ("collective", "dist.all_reduce(total)")
    assert lines(departure["others_did"]) == ("collective", "dist.all_reduce(total)")
    assert departure["common"]["line"] < departure["others_did"]["line"]
    assert (departure["theirs"]["kind"], departure["theirs"]["number"]) == ("step", 42)
    (mark,) = departure["their_marks"]
    assert (mark["name"], mark["value"]) == ("accepted", 0)


@pytest.mark.extra
def test_steps_of_an_optimizer(job: Job) -> None:
    """A program that reports no steps."""
    start(job, "optimizer")
    (departure,) = wait_until_parted(job)["departures"]
    assert (departure["ranks"], departure["others"]) == ("2", "0-1"), departure
    assert departure["others_did"]["name"].startswith("all_reduce")


@pytest.mark.parametrize(("story", "ranks"), [("same", 3), ("stages", 4)])
def test_ranks_that_have_not_parted(job: Job, story: str, ranks: int) -> None:
    """A rank that marks more than the others, and stages that do different things."""
    process = start(job, story, ranks)
    said = [process.stdout.readline() for _ in range(ranks)]
    assert said == ["waits\n"] * ranks
    found = job.json("history")
    assert found["departures"] == []
    assert found["compared"] == [0, 58]
    text = job.cli("history").stdout
    assert text.startswith(
        f"No difference: ranks 0-{ranks - 1} made the same calls in steps 0 to 58"
    )


def test_what_is_left(job: Job) -> None:
    """Nothing by a rank that ends well; its file by one that has raised."""
    process = start(job, "ends", 2)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert [*(job.directory / "histories").iterdir()] == []
    process = start(job, "raises", 2)
    process.communicate(timeout=PATIENCE)
    left = job.json("history")["last"]
    assert 0 in [each["rank"] for each in left]


def test_a_rank_that_does_not_answer(programs: Programs) -> None:
    """Its file is read by the node: the GIL may be held, the process stopped."""
    process = programs.start(
        """
        import rankdbg, signal, os
        rankdbg.progress(7)
        rankdbg.mark("accepted", "yes")
        print(1, flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        """,
        env={"RANK": "0", "WORLD_SIZE": "1", "RANKDBG_JOB": "held"},
    )
    try:
        result = rankdbg("history", "--json", "--job", "held", env=programs.environment())
        (last,) = json.loads(result.stdout)["last"]
        assert (last["event"]["name"], last["event"]["value"]) == ("accepted", "yes")
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_a_child_has_a_history_of_its_own(programs: Programs) -> None:
    process = programs.start(
        """
        import os, rankdbg, threading
        rankdbg.mark("parent")
        if os.fork() == 0:
            rankdbg.mark("child")
            print(os.getpid(), flush=True)
            threading.Event().wait()
        threading.Event().wait()
        """
    )
    folder = Path(programs.environment()["RANKDBG_DIR"]) / "histories"
    wait_for(lambda: len([*folder.iterdir()]) == 2, lambda: [*folder.iterdir()])
    assert {int(path.name.partition("-")[0]) for path in folder.iterdir()} == {
        process.pid,
        int(process.said),
    }


def test_branches_of_a_function(programs: Programs) -> None:
    """Switched on and off while the ranks run; ranks 0 and 1 take different ones."""
    environment = programs.environment(RANKDBG_JOB="branches", PYTHONPATH=str(SOURCE))
    code = (
        "import os, time, rankdbg\n"
        "def step(n):\n"
        "    if n < 0 or os.environ['RANK'] == '1':\n"
        "        return 1\n"
        "    return 0\n"
        "rankdbg.init()\n"
        "n = 0\n"
        "while True:\n"
        "    rankdbg.progress(n); step(n); n += 1; time.sleep(0.01)\n"
    )
    program = programs.scratch / "branching.py"
    program.write_text(code)
    ranks = [
        subprocess.Popen([python("3.12"), program], env={**environment, "RANK": str(number)})
        for number in range(2)
    ]
    try:
        rankdbg_there = functools.partial(rankdbg, env=environment)
        words = ("history", "--job", "branches")
        said = wait_for(
            lambda: (
                "ranks 0-1: branches are noted in"
                in rankdbg_there(*words, "--trace", "branching.py:step").stdout
            )
        )
        assert said

        def taken() -> Any:
            document = json.loads(rankdbg_there(*words, "--json").stdout)
            step = document["compared"][1]
            both = json.loads(rankdbg_there(*words, "--step", step, "--json").stdout)["ranks"]
            noted = [[e["name"] for e in each["events"] if e["kind"] == "branch"] for each in both]
            return noted if all(noted) else None

        zero, one = wait_for(taken)
        assert (zero[-1], one[-1]) == ("to line 5", "to line 4")
        assert "nothing more is noted" in rankdbg_there(*words, "--trace", "off").stdout
        refused = rankdbg_there(*words, "--trace", "branching.py:nothing")
        assert refused.returncode == 1
        assert "no function branching.py:nothing is loaded here" in refused.stdout
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def test_calls_of_modules(programs: Programs) -> None:
    pytest.importorskip("torch", reason="needs torch")
    process = programs.start(
        """
        import torch, rankdbg
        from rankdbg.agent.history import module_calls
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.ReLU()))
        print(module_calls.set_depth(2), flush=True)
        rankdbg.progress(1)
        model(torch.ones(2))
        print(module_calls.set_depth(0), flush=True)
        model(torch.ones(2))
        print("done", flush=True)
        input()
        """,
        env={"RANK": "0", "RANKDBG_JOB": "modules"},
        stdin=subprocess.PIPE,
    )
    assert [process.said, process.stdout.readline(), process.stdout.readline()] == [
        "{'depth': 2}",
        "{'depth': 0}\n",
        "done\n",
    ]
    words = ("history", "--job", "modules", "--step", "1", "--json")
    (rank,) = json.loads(rankdbg(*words, env=programs.environment()).stdout)["ranks"]
    assert [event["name"] for event in rank["events"][1:]] == [
        "Sequential",
        "Linear 0",
        "Sequential 1",
    ]


@pytest.mark.parametrize(("setting", "files"), [("0", 0), ("64K", 1)])
def test_switched_off_and_small(programs: Programs, setting: str, files: int) -> None:
    programs.start(
        """
        import rankdbg, threading
        rankdbg.mark("x"); rankdbg.progress(3)
        print(1, flush=True)
        threading.Event().wait()
        """,
        env={"RANKDBG_HISTORY": setting},
    )
    folder = Path(programs.environment()["RANKDBG_DIR"]) / "histories"
    found = [*folder.iterdir()] if folder.exists() else []
    assert [path.stat().st_size for path in found] == [64 << 10] * files


def test_values_that_programs_give(programs: Programs) -> None:
    """Whatever it is, the program goes on; a value of its own is not called."""
    process = programs.start(
        """
        import rankdbg, threading
        class Sly:
            def __repr__(self): raise SystemExit("called")
            __str__ = __index__ = __float__ = __repr__
        for value in (1, 1 << 80, 0.5, float("nan"), True, None, "x" * 5000, b"b", Sly(), Sly, []):
            rankdbg.mark("value", value)
        for step in (1, 2.5, "7", None, 1 << 70, True, -3):
            rankdbg.progress(step)
        rankdbg.mark("\\ttabs\\nand\\x1b[31m", 1)
        print("alive", flush=True)
        threading.Event().wait()
        """,
        env={"RANK": "0", "RANKDBG_JOB": "values"},
    )
    assert process.said == "alive"
    result = rankdbg("history", "--job", "values", env=programs.environment())
    assert result.returncode == 0, result.stderr
    assert "\x1b[31m" not in result.stdout


def test_full_disk(programs: Programs, tmp_path: Path) -> None:
    """No history, one line on stderr, and the program goes on."""
    if os.geteuid():
        pytest.skip("needs root to mount a small file system")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k,mode=700", "none", place], check=True)
    try:
        code = "import rankdbg; rankdbg.init(); rankdbg.mark('x'); rankdbg.mark('y'); print('fine')"
        words = [sys.executable, "-c", code]
        environment = {**os.environ, "RANKDBG_DIR": str(place)}
        result = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert (result.returncode, result.stdout) == (0, "fine\n")
        assert result.stderr.count("no history in process") == 1
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_torch_functions_stay_the_same() -> None:
    """torch.compile knows collectives by the function objects."""
    pytest.importorskip("torch", reason="needs torch")
    code = (
        "import torch.distributed as dist, torch.distributed.distributed_c10d as c10d\n"
        "from torch.distributed._functional_collectives import traceable_collective_remaps as known\n"
        "print(dist.all_reduce is c10d.all_reduce, dist.all_reduce in known, dist.isend is c10d.isend)"
    )
    result = rankdbg("run", "--", sys.executable, "-c", code)
    assert result.stdout == "True True True\n", result.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs Python 3.11")
@pytest.mark.parametrize("call", ["all_reduce('no tensor')", "isend(torch.ones(1), 'no rank')"])
def test_tracebacks_are_those_of_the_program(call: str) -> None:
    """Functions that torch wraps, and those that it does not."""
    pytest.importorskip("torch", reason="needs torch")
    code = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
        f"dist.{call}"
    )
    result = rankdbg("run", "--", sys.executable, "-c", code)
    assert "Error" in result.stderr and 'File "<string>", line 3, in <module>' in result.stderr
    assert str(SOURCE) not in result.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--diff", "1", "2", "--step", "3"), "--diff and --step exclude each other"),
        (("/no/such",), "no directory /no/such"),
        ((".", "--trace", "a.py:f"), "history DIR reads files of this machine and does not take --trace"),
        (("--trace", "f"), "invalid --trace f: expected FILE:FUNCTION, or off"),
        (
            ("--step", "3", "--html", "a.html"),
            "--html and --step exclude each other\n"
            "  hint: --html shows where the ranks parted; leave --html out to see one step",
        ),
        (("--modules", "-1"), "invalid --modules -1: expected 0 or more"),
    ],
)  # fmt: skip
def test_bad_input(words: tuple[str, ...], complaint: str) -> None:
    result = rankdbg("history", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {complaint}\n"), result.stderr
