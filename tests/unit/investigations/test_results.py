"""What every result of a connection offers: a line, rows for a table, HTML."""

from __future__ import annotations

import inspect

from rankdbg.errors import NodeFailed
from rankdbg.investigations import connection, job_view
from rankdbg.investigations.connection import JobConnection
from rankdbg.investigations.job_lists import JobList
from rankdbg.investigations.job_view import JobView
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.investigations.results import Result
from rankdbg.investigations.saved_jobs import SavedJob
from rankdbg.types import ProcessKey, Rank
from rankdbg.wire.node_answers import Disk, Gpu, GpuFigures, Memory, NodeFigures

NOT_RESULTS = {JobView}
GIB = 1 << 30


def test_every_method_returns_a_result() -> None:
    """Or another view, an iterator of verdicts, or nothing."""
    names = {**vars(job_view), **vars(connection)}
    returned = {
        names[made]
        for _, method in inspect.getmembers(JobConnection, inspect.isfunction)
        if not method.__name__.startswith("_")
        if (made := inspect.signature(method).return_annotation)
        not in ("None", "Iterator[JobVerdict]")
    }
    assert {JobList, NodeStates, SavedJob} <= returned
    assert [kind for kind in returned - NOT_RESULTS if not issubclass(kind, Result)] == []


def test_list_of_jobs() -> None:
    """A row for each rank, and the nodes that do not respond."""
    ranks = [
        Rank(ProcessKey("gpu-1", 100 + n, 0), "train", n, coordinates={"dp": n}) for n in (0, 1)
    ]
    ages = {rank.process: 5.0 for rank in ranks}
    jobs = JobList({"train": ranks}, {}, ages, {"gpu-2": "no route"}, ["a <note>"], "")
    assert repr(jobs) == "<JobList: train: 2 ranks; nodes without a response: 1>"
    assert [(row["job"], row["rank"], row["pid"]) for row in jobs.records()] == [
        ("train", 0, 100),
        ("train", 1, 101),
    ]
    html = jobs._repr_html_()
    assert "dp=1" in html and "no response: gpu-2: no route" in html and "a &lt;note&gt;" in html


def test_node_health() -> None:
    """A row for each node; a full disk is named with what to do, and a lost node with its reason."""
    full = NodeFigures((Disk("/data", 100 * GIB, 0, 9, 9),), Memory(64 * GIB, 32 * GIB, ()), ())
    nodes = NodeStates(
        {"gpu-1": full, "gpu-2": NodeFailed("it does not answer")},
        {"gpu-1": GpuFigures((Gpu(0),), "570", "")},
    )
    assert repr(nodes).startswith("<NodeStates: 1 node: ") and "no response: 1" in repr(nodes)
    first, lost = nodes.records()
    assert (first["node"], first["gpus"], first["memory_available"]) == ("gpu-1", 1, 32 * GIB)
    assert "/data" in first["complaints"]
    assert lost == {"node": "gpu-2", "no_response": "it does not answer"}
    html = nodes._repr_html_()
    assert "next" in html and "gpu-2: it does not answer" in html


def test_node_health_without_complaints() -> None:
    """The twin: nothing is made up."""
    well = NodeFigures((Disk("/data", 100 * GIB, 90 * GIB, 9, 9),), Memory(GIB, GIB, ()), ())
    nodes = NodeStates({"gpu-1": well}, {})
    assert repr(nodes) == "<NodeStates: 1 node: nothing unusual>"
    assert nodes.records()[0]["complaints"] == "" and nodes.complaint_parts() == []


def test_saved_job() -> None:
    """Where it is, and how to open it."""
    saved = SavedJob("snap", 8, 4096)
    assert repr(saved) == "<SavedJob: saved 8 ranks in snap (4 KiB)>"
    assert saved.records() == [{"directory": "snap", "ranks": 8, "bytes": 4096}]
    assert "rankdbg stacks -t snapshot:snap" in saved._repr_html_()
