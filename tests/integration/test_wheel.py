"""The wheel as users install it: alone, for ranks, and with what it depends on."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from rankdbg.frontends.cli import VERBS

ROOT = Path(__file__).parents[2]
# pip needs a network.
pytestmark = [pytest.mark.slow, pytest.mark.machine]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", place, ROOT)
    (made,) = place.glob("*.whl")
    return made


class Environment:
    """A new one; `depends`: with rankdbg's dependencies, those that this machine has already."""

    def __init__(self, place: Path, wheel: Path, depends: bool) -> None:
        venv.create(place, symlinks=True)
        self.bin = place / "bin"
        pip = (sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "--quiet")
        call(*pip, *([] if depends else ["--no-deps"]), wheel)

    def run(self, *words: object, **settings: object) -> subprocess.CompletedProcess[str]:
        return call(self.bin / "python", *words, cwd=self.bin, **settings)


def call(*words: object, **settings: object) -> subprocess.CompletedProcess[str]:
    """Without what an environment around the tests would add."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "RANKDBG"))}
    environment = {**clean, **settings.pop("env", {})}  # type: ignore[dict-item]
    done = subprocess.run(
        [*map(str, words)], env=environment, capture_output=True, text=True, check=False, **settings
    )
    assert done.returncode == 0, done.stderr
    return done


def test_what_is_in_it(wheel: Path) -> None:
    """Rules and types travel with the code; tests do not."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {"rankdbg/py.typed", "rankdbg_agent.pth"} <= set(names)
    rules = [*(ROOT / "src/rankdbg").rglob("*.toml")]
    assert rules and {f"{path.relative_to(ROOT / 'src')}" for path in rules} <= set(names)
    guides = {
        f"rankdbg/frontends/mcp/documents/guides/{p.name}" for p in ROOT.glob("docs/guides/*.md")
    }
    assert guides and guides <= set(names)  # links in the checkout
    assert not [name for name in names if name.startswith("tests")]


def test_alone_it_is_enough_for_ranks(wheel: Path, tmp_path: Path) -> None:
    """`pip install --no-deps rankdbg`: the agent starts, and answers the rankdbg of another
    environment."""
    environment = Environment(tmp_path / "alone", wheel, depends=False)
    place = {"RANKDBG_DIR": str(tmp_path / "agents"), "RANKDBG": "1", "RANKDBG_JOB": "alone"}
    program = "import sys, time; loss = 2.5; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [environment.bin / "python", "-c", program],
        env={"PATH": os.environ["PATH"], "RANK": "0", "WORLD_SIZE": "1", **place},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as rank:
        assert rank.stdout is not None and rank.stdout.readline() == b"ready\n"
        words = ("-m", "rankdbg", "ask", "--job", "alone", "all", "loss")
        here = {"RANKDBG_DIR": place["RANKDBG_DIR"]}
        assert "2.5" in call(sys.executable, *words, env=here).stdout


def test_every_verb_with_its_dependencies(wheel: Path, tmp_path: Path) -> None:
    """Each says its help, and `python -m rankdbg` is the same as the script."""
    environment = Environment(tmp_path / "whole", wheel, depends=True)
    version = call(environment.bin / "rankdbg", "--version").stdout
    assert version == environment.run("-m", "rankdbg", "--version").stdout
    for verb in VERBS:
        said = call(environment.bin / "rankdbg", verb, "--help").stdout
        assert said.startswith("usage: rankdbg"), verb
