"""Named tuples that do not load typing are like those of typing."""

from __future__ import annotations

import typing

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple


class Light(NamedTuple):
    """A comment."""

    pid: int
    name: str = "x"

    @property
    def twice(self) -> int:
        return 2 * self.pid


class Usual(typing.NamedTuple):
    pid: int
    name: str = "x"


def test_like_typing() -> None:
    assert Light(1) == Usual(1) == (1, "x")
    assert Light(1, name="y")._replace(pid=2) == (2, "y")
    assert Light._fields == Usual._fields
    assert repr(Light(1)) == "Light(pid=1, name='x')"
    assert (Light(2).twice, Light.__doc__, Light.__module__) == (4, "A comment.", __name__)
    with pytest.raises(TypeError):
        Light()  # type: ignore[call-arg]
