"""The guide for notebooks, run in a real kernel against a real job that hangs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import Job, start_demo
from waiting import PATIENCE

GUIDE = Path(__file__).parents[2] / "docs/guides/in-a-notebook.md"


@pytest.mark.slow
def test_guide_in_a_kernel(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every snippet runs, and results are shown as HTML with the culprit in it."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat")
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient")
    pytest.importorskip("ipykernel", reason="needs ipykernel")
    start_demo(job, tmp_path)
    snippets = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(snippets) > 6
    cells = [code.replace('job="train"', f'job="{job.name}"') for code in snippets]
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)])
    monkeypatch.setenv("RANKDBG_DIR", str(job.directory))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(install_kernel(tmp_path / "jupyter")))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    nbclient.NotebookClient(notebook, timeout=PATIENCE, kernel_name="here").execute(
        cwd=str(tmp_path)
    )
    shown = dict(zip(snippets, map(texts, notebook.cells), strict=True))
    verdict = find(shown, "job.why()")
    assert "The job is stuck" in verdict and "rank 5" in verdict and "culprit" in verdict
    assert find(shown, "print(document").startswith("5 ")
    assert "odd one out" in find(shown, "job.stacks()")
    assert "<table" in find(shown, "to_pandas()")
    assert "The job is stuck" in find(shown, "job.watch(")


def install_kernel(place: Path) -> Path:
    """One that runs this Python."""
    folder = place / "kernels" / "here"
    folder.mkdir(parents=True)
    words = f'["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]'
    text = f'{{"argv": {words}, "display_name": "here", "language": "python"}}'
    (folder / "kernel.json").write_text(text)
    return place


def texts(cell: Any) -> str:
    """What a cell shows: HTML where there is some."""
    shown = []
    for output in cell.outputs:
        data = output.get("data", {})
        shown.append(output.get("text") or data.get("text/html") or data.get("text/plain", ""))
    return "".join(shown)


def find(shown: dict[str, str], code: str) -> str:
    return next(output for snippet, output in shown.items() if code in snippet)
