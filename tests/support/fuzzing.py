"""One target of `make fuzz`: a reader of something that others have made, and how its inputs are made.

An input is bytes, whatever the reader takes: so it can be saved, and tried again. `check` reads it as
the product does, and returns, also after an error that the reader documents. What else it raises, and
an input that takes too much time or memory, is a fault."""

from __future__ import annotations

import contextlib
import io
import json
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from bounds import bounded
from page_elements import refuse_constant
from rankdbg.errors import RankdbgError
from rankdbg.frontends import cli
from rankdbg.frontends.standard_streams import guarded
from rankdbg.frontends.terminal import print_error


@dataclass(frozen=True)
class Target:
    """`examples`: so many are tried in `make test`, the same ones in every run."""

    name: str
    make: Callable[[Random], bytes]
    check: Callable[[bytes], None]
    examples: int

    def inputs(self) -> st.SearchStrategy[bytes]:
        """hypothesis draws a number, from which all of an input is made: an input of which it draws
        every part takes fifty times as long."""
        return st.integers(0, 2**64 - 1).map(lambda number: self.make(Random(number)))

    def try_one(self, data: bytes) -> None:
        with bounded():
            self.check(data)


def short_form(target: Target) -> Callable[[], None]:
    """The test of a target, for `make test`."""

    @settings(max_examples=target.examples, database=None, phases=[Phase.generate])
    @seed(target.examples)
    @given(target.inputs())
    def try_all(data: bytes) -> None:
        target.try_one(data)

    def test() -> None:
        try_all()

    test.__doc__ = f"Nothing but documented errors, in bounded time and memory, of {target.name}."
    return test


def shown_by(*words: object) -> str:
    """What a verb prints, in this process: to start one would take longer than all that it reads.
    Errors that a user can see are shown as to a user; all others are raised."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), guarded():
        try:
            cli.dispatch([*map(str, words)])
        except RankdbgError as error:
            print_error(error)
    shown = out.getvalue() + err.getvalue()
    assert "internal error" not in shown, shown  # of a node process, which says so to its client
    check_visible(shown)
    if "--json" in words and out.getvalue():
        json.loads(out.getvalue(), parse_constant=refuse_constant)
    return shown


def check_visible(text: str) -> None:
    """Nothing that commands a terminal or deceives a reader."""
    hidden = {c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} - {*"\n\t"}
    turned = {c for c in text if unicodedata.bidirectional(c) in _DIRECTIONS}
    assert not hidden | turned, f"characters {hidden | turned} are printed"


_DIRECTIONS = ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@contextlib.contextmanager
def documented(*errors: type[Exception]) -> Iterator[None]:
    """An error that the reader documents, whose words can be shown."""
    try:
        yield
    except errors as error:
        str(error)
