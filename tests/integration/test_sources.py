"""Source at stops: what ranks show of code that is not on their disk, or not any more."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breaking import HERE, PYTHONS
from jobs import PROGRAMS, Job
from stopping import Stops
from tiers import chiefly_two

PROGRAM = PROGRAMS / "sources.py"

STEP = """\
# Steps.


def step():
    rate = 0.5
    breakpoint()
    loss = 1 - rate
    return loss


step()
"""

# Waits for a file, so that a test can do something after it was loaded.
TRAIN = """\
import os
import time


def train(gate):
    while not os.path.exists(gate):
        time.sleep(0.01)
    rate = 0.5
    breakpoint()
    loss = 1 - rate
    breakpoint()
    return loss


train(os.environ["GATE"])
"""


class Here:
    """A job in one of the Pythons, and directories from which somebody looks at it."""

    def __init__(self, job: Job, scratch: Path, python: Path) -> None:
        self.job = job
        self.python = python
        self.stops = Stops(job)
        self.scratch = scratch
        self.gate = scratch / "gate"

    def folder(self, name: str, **files: str) -> Path:
        folder = self.scratch / name
        folder.mkdir(exist_ok=True)
        for stem, text in files.items():
            (folder / f"{stem}.py").write_text(text)
        return folder

    def start(self, *words: object, rank: int = 0, **settings: Any) -> None:
        environment = {"RANK": str(rank), "WORLD_SIZE": "2", "GATE": str(self.gate)}
        self.job.start(self.python, *words, env=environment, **settings)

    def start_code(self, way: str, text: str, file: str, **settings: Any) -> None:
        """Code without its text, as another machine would send it."""
        code = self.scratch / "code"
        words = [self.python, PROGRAM, "write", code, file]
        subprocess.run(words, input=text, text=True, check=True)
        self.start(PROGRAM, way, code, cwd=self.folder("elsewhere"), **settings)

    def wait_at(self, is_there: Callable[[Any], bool]) -> None:
        """Until the one rank is stopped again, at such a place."""

        def arrived(stops: list[Any]) -> bool:
            places = [stop["where"] for stop in stops if stop["state"] == "stopped"]
            return len(places) == 1 and bool(places[0]) and is_there(places[0])

        self.stops.wait(arrived)

    def cast(self, command: str, cwd: Path, ranks: str = "all") -> tuple[str, str]:
        """What came back, and what was said beside it."""
        result = self.job.cli("cast", ranks, command, cwd=cwd)
        return result.stdout, result.stderr

    def shell(self, script: str, cwd: Path) -> tuple[str, str]:
        result = self.job.cli("shell", input=script, cwd=cwd)
        assert result.returncode == 0, result.stderr
        return result.stdout, result.stderr


def shows(text: str, number: int, code: str) -> bool:
    """Whether pdb has listed that line. (Which is the current one depends on the Python: from
    3.13 on it is that of breakpoint() itself.)"""
    return re.search(rf"\b{number}  +(->)?\s+{re.escape(code)}\n", text) is not None


@pytest.fixture
def here(job: Job, tmp_path: Path, request: pytest.FixtureRequest) -> Here:
    return Here(job, tmp_path, PYTHONS[getattr(request, "param", HERE)])


in_each_python = pytest.mark.parametrize("here", chiefly_two(sorted(PYTHONS)), indirect=True)


@in_each_python
def test_made_up_name(here: Here) -> None:
    """Of code from exec() whose text only the client has, list, ll and the arrow show it."""
    client = here.folder("client", made_up=STEP)
    here.start_code("executes", STEP, "/nowhere/made_up.py")
    here.stops.wait(1)
    empty = here.folder("empty")
    assert "loss" not in here.cast("list", empty)[0]
    text, said = here.cast("list", client)
    assert shows(text, 7, "loss = 1 - rate")
    assert said == ""
    assert shows(here.cast("ll", empty)[0], 4, "def step():")
    assert "-> step()" in here.cast("where", empty)[0]
    assert re.search(r"\n +-> (loss|return)", here.cast("n", empty)[0])


@in_each_python
def test_by_value(here: Here) -> None:
    """A function whose code was sent by value, and whose file is below the client's
    directory; attach shows its line."""
    client = here.folder("client")
    here.folder("client/pkg", step=STEP)
    here.start_code("by_value", STEP, "/machine/of/others/pkg/step.py")
    here.stops.wait(1)
    text, said = here.shell("attach 0\nn\nll\ndetach\n", client)
    place, arrow = re.findall(r"pkg/step.py\((\d)\)step\(\)\n-> (.*)\n", text)[0]
    assert arrow == STEP.splitlines()[int(place) - 1].strip()
    assert shows(text, 8, "return loss")
    assert said == ""


def test_the_sender_has_it(here: Here) -> None:
    """The text of a notebook's cell comes from the process that has the notebook."""
    here.job.environment["CELL"] = STEP
    here.start_code("sends", STEP, "/tmp/ipykernel_1/2.py")
    here.stops.wait(1)
    text, said = here.cast("list", here.folder("empty"), "1")
    assert shows(text, 7, "loss = 1 - rate")
    assert said == ""


def test_a_step_into_code_without_text(here: Here) -> None:
    """The arrow that pdb could not print is there nevertheless."""
    client = here.folder("client", step=STEP)
    here.start_code("steps_into", STEP, "/nowhere/step.py")
    here.stops.wait(1)
    assert "def step" not in here.cast("b by_value", client)[0]
    here.cast("c", client)
    here.wait_at(lambda where: where["function"] == "by_value")
    for command, arrow in (("n", "types.FunctionType"), ("s", "def step()"), ("n", "rate = 0.5")):
        assert f"-> {arrow}" in here.cast(command, client)[0]


def test_a_copy_that_does_not_fit_is_not_shown(here: Here) -> None:
    """A rank without a text refuses another version, and the client says so."""
    client = here.folder("client", made_up=STEP.replace("0.5", "0.25"))
    here.start_code("executes", STEP, "/nowhere/made_up.py")
    here.stops.wait(1)
    text, said = here.cast("list", client)
    assert "rate" not in text
    assert said == (
        "warning: made_up.py differs: rank 0 has no source of it, and runs another version "
        "than ./made_up.py here, which is not shown\n"
    )


def test_the_same_file_says_nothing(here: Here) -> None:
    """A file that is as it was, or was only touched, causes no warning."""
    folder = here.folder("job", train=TRAIN)
    here.gate.touch()
    here.start(folder / "train.py", cwd=folder)
    here.stops.wait(1)
    (folder / "train.py").write_text(TRAIN + "# the end\n")
    text, said = here.cast("list", folder)
    assert shows(text, 10, "loss = 1 - rate")
    assert said == ""
    assert here.job.json("list")["warnings"] == []


def test_deleted_after_the_start(here: Here) -> None:
    """The client's copy is shown of a file that is gone."""
    folder, client = here.folder("job", train=TRAIN), here.folder("client", train=TRAIN)
    here.start(folder / "train.py")
    here.job.wait_at("train")
    (folder / "train.py").unlink()
    here.gate.touch()
    here.stops.wait(1)
    assert "->\t" not in here.cast("list", folder)[0]
    text, said = here.cast("list", client)
    assert shows(text, 10, "loss = 1 - rate")
    assert said == ""


def test_edited_after_the_start(here: Here) -> None:
    """The warning names the rank; with --json it is in the document too."""
    folder = here.folder("job", train=TRAIN)
    here.start(folder / "train.py")
    here.job.wait_at("train")
    (folder / "train.py").write_text("# a new line\n" + TRAIN)
    here.gate.touch()
    here.stops.wait(1)
    sentence = "train.py has changed on disk since rank 0 loaded it; lines may not match"
    _, said = here.cast("list", folder)
    assert said == f"warning: {sentence}\n"
    for document in (here.job.json("list"), here.stops.cast("0", "p rate")):
        (warning,) = document["warnings"]
        assert warning == {
            "kind": "changed",
            "file": str(folder / "train.py"),
            "ranks": "0",
            "text": sentence,
        }
    _, said = here.shell("list\ncast 0 p rate\nattach 0\n", folder)
    assert said == f"warning: {sentence}\n"


@in_each_python
def test_edited_at_a_stop(here: Here) -> None:
    """What was shown at one stop is shown at the next, whatever the file is by then."""
    folder = here.folder("job", train=TRAIN)
    here.gate.touch()
    here.start(folder / "train.py")
    here.stops.wait(1)
    here.cast("list", folder)
    (folder / "train.py").write_text("# nothing\n")
    here.cast("c", folder)
    first = TRAIN.splitlines().index("    loss = 1 - rate") + 1
    here.wait_at(lambda where: where["line"] > first)
    text, said = here.cast("ll", folder)
    assert shows(text, 12, "return loss")
    assert said == (
        "warning: train.py has changed on disk since rank 0 loaded it; shown is what was loaded\n"
    )
    (folder / "train.py").unlink()
    assert shows(here.cast("ll", folder)[0], 12, "return loss")


def test_another_version_here(here: Here) -> None:
    """Both have the file, with different content: the rank's is shown, and a warning given."""
    folder = here.folder("job", step=STEP)
    client = here.folder("client", step=STEP.replace("loss", "gain"))
    here.start(PROGRAM, "from_a_file", "step.py", cwd=folder)
    here.stops.wait(1)
    text, said = here.cast("list", client)
    assert shows(text, 7, "loss = 1 - rate")
    assert said == (
        "warning: step.py differs: rank 0 runs another version than ./step.py here; "
        "lines may not match\n"
    )
    (client / "step.py").write_text(STEP)
    assert here.cast("list", client)[1] == ""


def test_two_versions(here: Here) -> None:
    """Ranks that differ from each other; those that are as the client's are not named."""
    old = here.folder("old", step=STEP)
    new = here.folder("new", step=STEP.replace("loss", "gain"))
    for rank, folder in enumerate((old, new)):
        here.start(PROGRAM, "from_a_file", "step.py", rank=rank, cwd=folder)
    here.stops.wait(2)
    assert "rank 1 runs another version than ./step.py" in here.cast("list", old)[1]
    assert "rank 0 runs another version than ./step.py" in here.cast("list", new)[1]
    _, said = here.cast("list", here.folder("empty"))
    assert said == "warning: step.py differs between ranks: 0 and 1 run different versions\n"


def test_edited_between_two_starts(here: Here) -> None:
    """Of two ranks that were started before and after an edit, the older one is named."""
    folder = here.folder("job", train=TRAIN)
    here.start(folder / "train.py")
    here.job.wait_at("train")
    (folder / "train.py").write_text(TRAIN.replace("0.5", "0.25"))
    here.start(folder / "train.py", rank=1)
    here.job.wait_at("train", "train")
    here.gate.touch()
    here.stops.wait(2)
    _, said = here.cast("p rate", folder)
    assert said.startswith("warning: train.py has changed on disk since rank 0 loaded it")
    assert said.count("\n") == 1


def test_another_machine_with_the_same_paths(here: Here) -> None:
    """The same path at both sides, and different files."""
    folder = here.folder("job", train=TRAIN, theirs=TRAIN.replace("loss", "gain"))
    here.gate.touch()
    # A mount that only the rank sees: its train.py is not ours.
    mount = f'mount --bind "{folder}/theirs.py" "{folder}/train.py"'
    words = ["unshare", "--mount", "sh", "-c", mount]
    if os.getuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("only root may have mounts of its own here")
    command = f'{mount} && exec "{here.python}" "{folder}/train.py"'
    here.job.start(*words[:-1], command, env={"RANK": "0", "GATE": str(here.gate)})
    here.stops.wait(1)
    text, said = here.cast("list", folder)
    assert shows(text, 10, "gain = 1 - rate")
    assert "rank 0 runs another version than ./train.py here" in said


@in_each_python
def test_the_frames_of_an_exception(here: Here) -> None:
    """Post-mortem, they show the client's copy too."""
    failing = STEP.replace("breakpoint()", "1 / 0")
    client = here.folder("client", step=failing)
    here.start_code("executes", failing, "/nowhere/step.py", options=("--break-on-error",))
    here.stops.wait(1)
    assert shows(here.cast("list", client)[0], 6, "1 / 0")


def test_what_a_loader_has(here: Here) -> None:
    """The text of a module in a zip file needs no client."""
    archive = here.scratch / "package.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("step.py", STEP)
    here.start("-c", f"import sys; sys.path.insert(0, {str(archive)!r}); import step")
    here.stops.wait(1)
    assert shows(here.cast("list", here.folder("empty"))[0], 7, "loss = 1 - rate")
