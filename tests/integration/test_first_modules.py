"""What a node without rankdbg is sent: first the modules that list ranks and read stacks, the others
when a question needs them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

import pytest

import rankdbg
from jobs import PROGRAMS, Job
from rankdbg import __version__
from rankdbg.clusters.transport import sending
from rankdbg.clusters.transport.channel import ProcessChannel
from rankdbg.errors import NodeFailed
from rankdbg.node import offers
from waiting import ANSWER_SECONDS, wait_for

BASE = Path(sys.base_prefix) / "bin" / "python3"  # without rankdbg
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
OTHERS = [*PYENV.glob("3.1[0-9].*/bin/python3")]


class Node:
    """A node process on this machine, started and sent to as if it were far away."""

    def __init__(self, python: Path, follows: bool, **environment: str) -> None:
        self.given: list[str] = []
        self.sent: list[str] = []
        self._channel = ProcessChannel(
            "far",
            ["sh", "-c", sending.shell_line(str(python), program_follows=follows)],
            self._opening(),
            environment={**os.environ, **environment},
            preamble=sending.program_text() if follows else b"",
            give=self._give,
        )

    def _opening(self) -> Any:
        """What is sent before the first question is noted."""
        opening = sending.landing_opening("far", sending.REMOTE, lazy=True)
        words = next(opening)
        while True:
            for message in words if isinstance(words, tuple) else (words,):
                self.sent += [name.rpartition("-")[0] for name in message.get("files") or ()]
            try:
                words = opening.send((yield words))
            except StopIteration:
                return

    def _give(self, kind: str) -> Any:
        self.given.append(kind)
        return sending.give(kind)

    def ask(self, name: str, **fields: Any) -> Any:
        waiting = self._channel.begin({"ask": name, "timeout": ANSWER_SECONDS, **fields})
        return waiting.answer(2 * ANSWER_SECONDS)

    def open_stream(self, **fields: Any) -> Any:
        return self._channel.begin({"ask": "stream", **fields}).open_stream(2 * ANSWER_SECONDS)

    def end(self) -> None:
        self._channel.close(0.0)


@contextlib.contextmanager
def node(python: Path, follows: bool = True, **environment: str) -> Iterator[Node]:
    there = Node(python, follows, **environment)
    try:
        yield there
    finally:
        there.end()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """A rank with an agent, and one that only py-spy can read."""
    job = Job("first-modules", tmp_path_factory.mktemp("job"))
    try:
        behave = (sys.executable, PROGRAMS / "behave.py", "waits")
        for rank in ("0", "1"):
            job.start(*behave, agent=rank == "0", env={"RANK": rank, "WORLD_SIZE": "2"})
        # A node that sees rank 1 alone looks for a rank 0 without a number, with another module.
        job.wait_for(lambda ranks: sorted(rank.agent for rank in ranks) == [False, True])
        yield job
    finally:
        job.end()


def both(there: Node) -> list[list[int]]:
    """The two ranks, as soon as both are there."""
    found: list[Any] = []

    def are_there() -> bool:
        roster = there.ask("roster", job="first-modules")
        found[:] = [each for each in roster["processes"] if each["job"] == "first-modules"]
        return [each["agent"] for each in found if each["where"]].count(True) == 1 == len(found) - 1

    wait_for(are_there, lambda: found)
    return [[each["pid"], each["start"]] for each in found]


@pytest.mark.parametrize("follows", [True, False], ids=["on stdin", "on the command line"])
def test_ranks_and_stacks_need_the_first_modules_only(job: Job, follows: bool) -> None:
    """Through agents, and with the py-spy of the node."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with node(BASE, follows, PATH=path, RANKDBG_DIR=job.environment["RANKDBG_DIR"]) as there:
        stacks = there.ask("stacks", processes=both(there), samples=2)
        assert {each["source"] for each in stacks["processes"]} == {"agent", "py-spy"}
        assert (there.sent, there.given) == ([sending.FIRST_COMPILED], [])


@pytest.mark.parametrize(
    "question",
    [
        {"name": "profile", "do": "clock"},
        {"name": "vitals"},
        {"name": "evaluate", "expression": "1 + 1"},
    ],
    ids=lambda question: question["name"],
)
def test_other_questions_bring_the_rest(job: Job, question: dict[str, Any]) -> None:
    """Once."""
    with node(BASE, RANKDBG_DIR=job.environment["RANKDBG_DIR"]) as there:
        for _ in range(2):
            assert there.ask(**question)
        assert [kind for kind in there.given if kind in offers.REST] == [sending.COMPILED]


def test_another_probe_brings_the_rest(job: Job) -> None:
    """A question that the first modules begin to answer is answered after the others have come."""
    with node(BASE, RANKDBG_DIR=job.environment["RANKDBG_DIR"]) as there:
        found = there.ask("stacks", processes=both(there), engine="nonsense")
        assert "no probe nonsense on this node" in str(found)
        assert sending.COMPILED in there.given


def test_a_stream_brings_the_rest(job: Job) -> None:
    """It is opened, or refused with its reason, after the other modules have come."""
    with node(BASE, RANKDBG_DIR=job.environment["RANKDBG_DIR"]) as there:
        with pytest.raises(NodeFailed, match="gone"):
            there.open_stream(process=[2**22 - 1, 1])
        assert there.given == [sending.COMPILED]
        assert len(both(there)) == 2


def test_a_node_without_space_for_the_rest(job: Job, tmp_path: Path) -> None:
    """Ranks are listed; what needs more says why it cannot be answered."""
    with node(BASE, RANKDBG_DIR=job.environment["RANKDBG_DIR"], TMPDIR=str(tmp_path)) as there:
        both(there)
        (landed,) = tmp_path.glob("rankdbg-node-*")
        (landed / "rankdbg.zip.partial").mkdir()
        with pytest.raises(NodeFailed, match=r"cannot copy rankdbg to the node: .*exists"):
            there.ask("profile", do="clock")
        assert len(both(there)) == 2


@pytest.mark.parametrize("python", OTHERS, ids=lambda path: path.parent.parent.name)
def test_each_python_can_be_sent_to(job: Job, python: Path) -> None:
    """Compiled for one whose bytecode is ours, else as source."""
    text = "from importlib.util import MAGIC_NUMBER as magic; print(magic.hex())"
    magic = subprocess.check_output([python, "-c", text], text=True).strip()
    is_ours = magic == MAGIC_NUMBER.hex()
    with node(python, RANKDBG_DIR=job.environment["RANKDBG_DIR"]) as there:
        assert len(both(there)) == 2
        assert there.sent == [sending.FIRST_COMPILED if is_ours else sending.FIRST_SOURCE]
        assert there.ask("profile", do="clock")
        rest = [kind for kind in there.given if kind in offers.REST]
        assert rest == [sending.COMPILED if is_ours else sending.SOURCE]


# --- what is installed there ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("venv")
    subprocess.run([BASE, "-m", "venv", "--without-pip", place], check=True)
    return place


@pytest.fixture
def packages(venv: Path) -> Iterator[Path]:
    (place,) = venv.glob("lib/python*/site-packages")
    yield place
    shutil.rmtree(place)
    place.mkdir()


def test_rankdbg_that_is_installed_is_used(venv: Path, packages: Path) -> None:
    """Its folder beside its metadata, or a .pth file that names its folder; else it is sent."""
    python = venv / "bin/python3"
    source = Path(rankdbg.__file__).parent

    def what_is_sent() -> list[str]:
        with node(python) as there:
            assert there.ask("profile", do="clock")
            return [*there.sent, *there.given]

    assert what_is_sent() == [sending.FIRST_COMPILED, sending.COMPILED]
    (packages / f"rankdbg-{__version__}.dist-info").mkdir()
    (packages / "rankdbg").symlink_to(source)
    assert what_is_sent() == []
    (packages / "rankdbg").unlink()
    (packages / "rankdbg.pth").write_text(f"{source.parent}\n")
    assert what_is_sent() == []


def test_probes_of_other_packages_are_found(job: Job, venv: Path, packages: Path) -> None:
    """On a node that rankdbg was sent to, too, although its Python starts without packages."""
    about = packages / "other-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: other\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[rankdbg.probes]\nothers = other_probe\n")
    (packages / "other_probe.py").write_text(
        "def available(pid):\n    return 'other_probe was asked'\n"
    )
    with node(venv / "bin/python3", RANKDBG_DIR=job.environment["RANKDBG_DIR"]) as there:
        found = there.ask("stacks", processes=both(there), engine="others")
        assert "other_probe was asked" in str(found)
