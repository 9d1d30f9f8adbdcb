"""Another package adds a cluster, a probe and rules: through entry points, and installed by pip."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from jobs import Job
from waiting import PATIENCE

ENTRY_POINTS = """
[rankdbg.clusters]
acme = acme_rankdbg.cluster:Acme
[rankdbg.probes]
acme = acme_rankdbg.probe
[rankdbg.rules]
acme = acme_rankdbg.rules
broken = acme_rankdbg.broken
"""
CLUSTER = """
from rankdbg.clusters import Cluster
from rankdbg.clusters.local import Local

class Acme(Cluster):
    def __init__(self, rest, options):
        self.target = f"acme:{rest}"
        self._machine = Local()

    def nodes(self):
        return self._machine.nodes()

    def open(self, node):
        return self._machine.open(node)
"""
PROBE = """
def available(pid):
    return None

def probe(pid, *, seconds, all_threads, with_locals):
    frame = ["seen_by_acme", "acme.py", 7]
    return {"threads": [{"name": "MainThread", "main": True, "frames": [frame]}]}
"""
RULES = """
[[failure]]
mode = "acme_link_down"
cause = "The link of the appliance is down."
fix = "Plug it in."
match = ["ACME link lost"]
"""


WHEEL = {
    "acme_rankdbg/__init__.py": "",
    "acme_rankdbg/cluster.py": CLUSTER,
    "acme_rankdbg/probe.py": PROBE,
    "acme_rankdbg/rules/__init__.py": "",
    "acme_rankdbg/rules/acme.toml": RULES,
    "acme_rankdbg/broken/__init__.py": "",
    "acme_rankdbg/broken/acme.toml": '[[failure]]\nmode = "no_cause"\n',
    "acme_rankdbg-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme-rankdbg\nVersion: 1.0\n",
    "acme_rankdbg-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "acme_rankdbg-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
    "acme_rankdbg-1.0.dist-info/RECORD": "",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has all that this one has, and the plug-in."""
    place = tmp_path_factory.mktemp("plugin")
    wheel = place / "acme_rankdbg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in WHEEL.items():
            file.writestr(name, text)
    subprocess.check_call([sys.executable, "-m", "venv", "--without-pip", place / "env"])
    python = place / "env/bin/python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(subprocess.check_output([python, "-c", where], text=True).strip())
    this = sysconfig.get_path("purelib")
    (own / "beside.pth").write_text(f"import site; site.addsitedir({this!r})\n")
    install = ("install", "-q", "--no-index", "--no-deps")
    subprocess.check_call([python, "-m", "pip", *install, wheel])
    return python


def rankdbg(
    python: Path, *words: object, job: Job | None = None
) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "rankdbg", *map(str, words)]
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # py-spy
    env = {**(job.environment if job else os.environ), "PATH": tools}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=env
    )


def test_cluster_and_probe(python: Path, job: Job) -> None:
    """Its cluster is a target, and its probe reads stacks."""
    job.start_ranks("waits", "waits")
    job.wait_at("waits", "waits")
    words = ("stacks", "-t", "acme:here", "--job", job.name, "--probe", "acme", "--json")
    result = rankdbg(python, *words, job=job)
    assert result.returncode == 0, result.stderr
    (group,) = json.loads(result.stdout)["groups"]
    assert (group["ranks"], group["frames"][0]["function"]) == ("0-1", "seen_by_acme")


def test_probe_that_is_not_there(python: Path, job: Job) -> None:
    """It is named, with those that are; py-spy answers instead."""
    job.start_ranks("waits", "waits")
    job.wait_at("waits", "waits")
    result = rankdbg(python, "stacks", "--job", job.name, "--probe", "nope", "--json", job=job)
    why = json.loads(result.stdout)["why"]
    assert {*why.values()} == {
        "no nope: no probe nope on this node; there are: py-spy, native, gdb, cuda, acme"
    }


def test_rules(python: Path, tmp_path: Path) -> None:
    """Its rules are used; those of a plug-in with a fault are left out, which `rules` says."""
    log = tmp_path / "train.log"
    log.write_text("2026-11-16 10:00:00 step 1\n2026-11-16 10:00:01 ERROR ACME link lost\n")
    result = rankdbg(python, "doctor", log, "--json")
    assert [f["mode"] for f in json.loads(result.stdout)["failures"]] == ["acme_link_down"]
    listed = rankdbg(python, "rules")
    assert "acme_link_down" in listed.stdout
    assert listed.stderr == (
        "note: rules of the plug-in broken (acme_rankdbg.broken) are left out: "
        "broken/acme.toml: [[failure]] no_cause: cause is missing\n"
    )
