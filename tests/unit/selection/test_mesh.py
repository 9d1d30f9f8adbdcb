"""The mesh of a job: read, written out, refused with a caret."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankdbg.errors import MeshError
from rankdbg.selection import mesh
from rankdbg.types import LABELS, ProcessKey

MESH = {"pp": 4, "dp": 8, "tp": 4}


def marked(error: MeshError) -> str:
    return error.text[error.start : error.end]


def test_parse() -> None:
    """A mesh keeps its dimensions in order; white space is free."""
    assert list(mesh.parse("pp=2,dp=3,tp=4").items()) == [("pp", 2), ("dp", 3), ("tp", 4)]
    assert mesh.parse(" pp = 2 , data_parallel=1 ") == {"pp": 2, "data_parallel": 1}


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ("", "invalid dimension '': expected NAME=SIZE", ""),
        ("pp=2,", "invalid dimension '': expected NAME=SIZE", ""),
        ("pp=2,,tp=2", "invalid dimension '': expected NAME=SIZE", ""),
        ("pp=2,tp", "invalid dimension 'tp': expected NAME=SIZE", "tp"),
        ("pp=2,3", "invalid dimension '3': expected NAME=SIZE", "3"),
        ("pp=1.5", "invalid dimension 'pp=1.5': expected NAME=SIZE", "pp=1.5"),
        ("pp=2 tp=2", "invalid dimension 'pp=2 tp=2': expected NAME=SIZE", "pp=2 tp=2"),
        ("pp=0", "invalid size of pp", "0"),
        ("dp=1,pp=-2", "invalid size of pp", "-2"),
        (f"pp={'9' * 5000}", "invalid size of pp", "9" * 5000),
        ("pp=2,pp=3", "pp given twice", "pp"),
        ("pp=2,role=3", "role is reserved and cannot be a dimension", "role"),
        ("pp=100000,tp=1000", "the mesh has more than 1,000,000 ranks", "pp=100000,tp=1000"),
    ],
)
def test_bad_mesh(text: str, what: str, place: str) -> None:
    """A mesh that is not well formed is refused with a caret under the place."""
    with pytest.raises(MeshError) as caught:
        mesh.parse(text)
    assert (caught.value.what, marked(caught.value)) == (what, place)


@pytest.mark.parametrize("name", LABELS)
def test_reserved_names(name: str) -> None:
    """No dimension can have a name that selections use otherwise."""
    with pytest.raises(MeshError):
        mesh.parse(f"{name}=2")


def test_coordinates() -> None:
    """The last dimension counts fastest; outside of the mesh there are none."""
    sizes = {"pp": 2, "dp": 2, "tp": 2}
    assert mesh.coordinates(0, sizes) == {"pp": 0, "dp": 0, "tp": 0}
    assert mesh.coordinates(3, sizes) == {"pp": 0, "dp": 1, "tp": 1}
    assert mesh.coordinates(6, sizes) == {"pp": 1, "dp": 1, "tp": 0}
    assert (
        mesh.coordinates(8, sizes) == mesh.coordinates(-1, sizes) == mesh.coordinates(0, {}) == {}
    )


def test_roster() -> None:
    """A made-up roster has every rank of the mesh, at its coordinates."""
    roster = mesh.roster(MESH)
    assert [rank.number for rank in roster] == list(range(128))
    assert all(rank.coordinates == mesh.coordinates(rank.pid, MESH) for rank in roster)
    assert roster[5].process == ProcessKey("", 5, 0)
    with pytest.raises(MeshError):
        mesh.roster({"x": 10_000, "y": 10_000})


words = "( ) , = - * 0 2 99 tp pp role \" ' . _ ٣ ranks"
pieces = st.sampled_from([*words.split(" "), " ", "\t", "\n", "\u3000", "\x00"])


@given(st.text(max_size=30) | st.lists(pieces, max_size=10).map("".join))
@settings(deadline=None)
def test_any_mesh(text: str) -> None:
    """Any text is a mesh, or an error that lies within the text."""
    try:
        assert mesh.parse(text)
    except MeshError as error:
        assert 0 <= error.start <= error.end <= len(text)
