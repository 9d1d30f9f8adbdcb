"""Names from elsewhere as names of files here: none leads out of its directory, none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankdbg.files.safe_names import below, component

NAMES = st.text(st.characters(exclude_categories=[]), max_size=300)


@given(NAMES)
@example("..")
@example("")
@example("a/../../etc")
@example("a\0b")
@example("-rf")
@example(".ssh")
@example("\ud800")
@example("é" * 300)
def test_a_component_is_one(name: str) -> None:
    """Whatever it was: not hidden, no option, no longer than a name may be."""
    made = component(name)
    assert Path("base", made).parent == Path("base")
    assert made[0] not in ".-"
    assert not {"/", "\0", "\n", "\x1b"} & {*made}
    assert len(made.encode()) <= 255


@given(NAMES, NAMES)
@example("a/b", "a_b")
@example("a%2Fb", "a/b")
@example("x" * 300 + "1", "x" * 300 + "2")
@example("", "%")
def test_two_names_stay_two(one: str, other: str) -> None:
    """Different names never become one."""
    assert (component(one) == component(other)) == (one == other)


@pytest.mark.parametrize(
    "name", ["node-3", "gpu01.cluster", "pod_7", "10.0.0.1", "knoten-é", "a b"]
)
def test_ordinary_names_stay(name: str) -> None:
    """As they are."""
    assert component(name) == name


@given(st.lists(NAMES, max_size=6).map("/".join))
@example("/../../etc/passwd")
@example("a/../../..")
@example("/")
def test_a_path_stays_below(path: str) -> None:
    """No path leads out of the directory it is put into."""
    made = below(path)
    assert ".." not in Path(made).parts
    assert not Path(made).is_absolute()
    assert Path("base", made) != Path("base")


def test_ordinary_paths_stay() -> None:
    """Dot files and dashes too."""
    assert below("/home/me/.cache/-x/trace 3.log") == "home/me/.cache/-x/trace 3.log"
