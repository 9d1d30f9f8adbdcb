"""node_views.py: what nodes tell of their health and GPUs -> what the page is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rankdbg.errors import NodeFailed, SnapshotError
from rankdbg.frontends.html.document import NodeHealth, NodesView
from rankdbg.frontends.html.job_document import document_later, document_of
from rankdbg.frontends.html.log_document import document_of_logs
from rankdbg.frontends.html.node_views import by_gpu_use, node_view
from rankdbg.frontends.html.page_files import page_text
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.plain_pages import plain_page, plain_verdict
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.investigations.logs.job_files import JobState
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.verdicts.failures.root_causes import Diagnosis
from rankdbg.wire.node_answers import GpuFigures
from simulated_jobs import job_of, moving_job
from simulated_nodes import figures, gpu, troubled, well

ORIGIN = PageOrigin("rankdbg why", "local", "2026-11-18T03:11:26+00:00")
RANKS = job_of({"dp": 8, "tp": 8})  # on eight nodes


def view_of(states: NodeStates | None) -> NodesView:
    view = node_view(states, RankTable(RANKS), ORIGIN.time)
    assert view is not None
    return view


def health_of(view: NodesView, host: str) -> NodeHealth:
    return view["health"][view["of"][view["hosts"].index(host)]]


def test_each_node_has_its_ranks_and_figures() -> None:
    """All in percent: a bar shows no more."""
    view = view_of(well(RANKS))
    assert view["hosts"] == [f"node-0{number}" for number in range(8)]
    assert view["ranks"][1] == "8-15"
    assert (view["load"][1], view["processors"][1]) == (12, 96)
    assert (view["memory"][1], view["memory_size"][1]) == (20, 2048 << 30)
    assert (view["disk"][1], view["disks"][view["fullest"][1]]) == (43, "/data")
    gpus = view["gpus"]
    assert gpus["node"][:9] == [0] * 8 + [1] and gpus["index"][:9] == [*range(8), 0]
    assert (gpus["memory"][0], gpus["temperature"][0]) == (85, 61)
    assert gpus["names"] == ["NVIDIA H100 80GB HBM3"]


def test_nodes_that_do_well_are_one() -> None:
    """They share what is said of them, though their figures differ."""
    view = view_of(well(RANKS))
    assert [each["text"] for each in view["health"]] == ["healthy"]
    assert {*view["of"]} == {0} and view["gpus"]["troubled"] == ""


def test_what_is_unusual() -> None:
    """A GPU that is slowed by heat, a node without a response, a full disk, and idle GPUs."""
    view = view_of(troubled(RANKS))
    told = {host: health_of(view, host) for host in view["hosts"]}
    assert {host: each["kind"] for host, each in told.items() if each["kind"]} == {
        "node-01": "complaint",
        "node-02": "unknown",
        "node-03": "complaint",
        "node-04": "apart",
    }
    assert told["node-01"]["text"].startswith("GPU 3: slowed by heat: 1380 of 1980 MHz")
    assert "cooling" in told["node-01"]["next"]
    assert told["node-02"]["text"] == "no response: node-02 did not respond within 5 s"
    assert told["node-03"]["text"].startswith("disk: /tmp is full")
    assert told["node-04"]["text"] == "GPU use 0 %, of most nodes 97 %"
    gpus, place = view["gpus"], int(view["gpus"]["troubled"])
    assert (gpus["node"][place], gpus["index"][place]) == (1, 3)


@pytest.mark.parametrize(("idle", "nodes"), [(3, 8), (1, 3)])
def test_no_node_is_the_odd_one_of_few(idle: int, nodes: int) -> None:
    """Where many differ, or there are few nodes, it is not said which of them are unusual."""
    ranks = RANKS[: 8 * nodes]
    states = well(ranks)
    quiet = GpuFigures(tuple(gpu(number, 1, 0) for number in range(8)), "580", "")
    gpus = {**states.gpus, **{f"node-0{number}": quiet for number in range(idle)}}
    view = node_view(replace(states, gpus=gpus), RankTable(ranks), ORIGIN.time)
    assert view is not None and {*view["of"]} == {0}


def test_a_part_of_the_figures() -> None:
    """Nodes without GPUs, and GPUs of which NVML tells nothing: no figure is invented."""
    lost = gpu(0, 1, utilization=None, memory_used=None, temperature=None, error="GPU is lost")
    states = NodeStates(
        {"a": replace(figures(), load=None, disks=())},
        {"a": GpuFigures((lost,), "580", "")},
    )
    view = view_of(states)
    assert (view["load"], view["disk"], view["fullest"]) == ([None], [None], [-1])
    gpus = view["gpus"]
    assert (gpus["use"], gpus["memory"], gpus["temperature"]) == ([None], [None], [None])
    assert gpus["troubled"] == "0"
    assert health_of(view, "a")["text"] == "GPU 0: NVML cannot read it: GPU is lost"


@pytest.mark.parametrize(
    "states",
    [
        None,
        NodeStates({}, {}),
        NodeStates({"a": SnapshotError("the snapshot contains no health")}, {}),
        NodeStates({"a": NodeFailed("gone")}, {"a": GpuFigures((), "", "no driver")}),
    ],
)
def test_where_nothing_is_known_there_is_no_section(states: NodeStates | None) -> None:
    assert node_view(states, RankTable(RANKS), ORIGIN.time) is None
    assert by_gpu_use(states, RankTable(RANKS)) == []


def test_ranks_by_the_use_of_their_gpus() -> None:
    """In ranges, so that a class stays the same while it wavers; who is on no GPU is not called idle."""
    states = troubled(RANKS)
    (colouring,) = by_gpu_use(states, RankTable(RANKS))
    told = {each["text"]: each["ranks"] for each in colouring["classes"]}
    assert told == {"75-100 %": "0-15,24-31,40-63", "not known": "16-23", "under 5 %": "32-39"}
    assert not any(each["odd"] for each in colouring["classes"])


def test_a_live_page_is_told_of_nodes_between_two_verdicts() -> None:
    """The nodes and the colouring by GPU use are new, and the rest is as it was."""
    found = replace(moving_job({"dp": 8, "tp": 8}), nodes=well(RANKS))
    before = document_of(found, ORIGIN)
    later = document_later(before, replace(found, nodes=troubled(RANKS)), "2026-11-18T03:11:31Z")
    assert later["nodes"] is not None and later["nodes"]["time"] == "2026-11-18T03:11:31Z"
    assert len(later["nodes"]["health"]) == 5
    assert [each["name"] for each in later["colourings"]] == ["equal stacks", "state", "GPU use"]
    assert len(later["colourings"][2]["classes"]) == 3
    assert later["frames"] is before["frames"]


def test_the_page_of_doctor_has_them() -> None:
    """Of a job that runs; of files alone, nothing is known of nodes."""
    states = well(RANKS)
    state = JobState(job="train", ranks=RANKS, health=states.health, gpus=states.gpus)
    page = document_of_logs(LogDiagnosis([], [], Diagnosis((), ()), state), ORIGIN)
    assert page["nodes"] is not None and len(page["nodes"]["hosts"]) == 8
    assert document_of_logs(LogDiagnosis([], [], Diagnosis((), ())), ORIGIN)["nodes"] is None


def test_ten_thousand_ranks_on_many_nodes() -> None:
    """1,250 nodes with eight GPUs each: a page that fits into a mail."""
    ranks = job_of({"dp": 1250, "tp": 8})
    table, states = RankTable(ranks), troubled(ranks)
    page = plain_page(table, plain_verdict("Simulated."), by_gpu_use(states, table), ORIGIN)
    page["nodes"] = node_view(states, table, ORIGIN.time)
    assert page["nodes"] is not None and len(page["nodes"]["gpus"]["use"]) == 9_992
    assert len(page_text(page)) < 1_000_000
