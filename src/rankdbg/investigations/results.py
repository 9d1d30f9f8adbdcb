"""What every result of an investigation offers: JSON, a line, HTML for a notebook, a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic

from rankdbg.errors import RankdbgError
from rankdbg.types import Answer, Rank, Reply, Silence, V

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart

_LONGEST = 160  # characters of a repr


class Result(ABC):
    """An immutable value: the same whoever reads it, and after its job has ended."""

    def __post_init__(self) -> None:
        """A list that was handed over may still grow: a tuple of it is kept."""
        assert is_dataclass(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """What `--json` prints (docs/reference/json.md), without the name of the schema."""

    @abstractmethod
    def summary(self) -> str:
        """The result in one line."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """Flat rows for a table: one for each rank, message or place."""

    @abstractmethod
    def _parts(self) -> list[HtmlPart]:
        """What a notebook shows below the summary."""

    def __repr__(self) -> str:
        text = " ".join(self.summary().split())
        cut = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        return f"<{type(self).__name__}: {cut}>"

    def _repr_html_(self) -> str:
        from rankdbg.investigations import html

        return html.page(self.summary(), self._parts())

    def to_pandas(self) -> Any:
        """A pandas.DataFrame of `records()`."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise RankdbgError(
                "to_pandas() needs pandas, which is not installed here",
                hint="pip install pandas; or use records(), which are the same as plain dicts",
            ) from None
        return pandas.DataFrame(self.records())


@dataclass(frozen=True, repr=False)
class RankAnswers(Result, Generic[V]):
    """What ranks answered to one question. `all_ranks`: all ranks of the job, among which ranks are
    named."""

    answers: Sequence[Reply[V]]
    all_ranks: Sequence[Rank]

    @cached_property
    def answered(self) -> list[Answer[V]]:
        return [answer for answer in self.answers if isinstance(answer, Answer)]

    @cached_property
    def no_response(self) -> list[Silence]:
        """The ranks that gave no response, and why."""
        return [silence for silence in self.answers if isinstance(silence, Silence)]


def rank_record(rank: Rank, **more: Any) -> dict[str, Any]:
    """The columns that every row about a rank begins with."""
    return {
        "rank": rank.number,
        "role": rank.role,
        "host": rank.host,
        "pid": rank.pid,
        **more,
    }


def silent_records(silent: Sequence[Silence]) -> list[dict[str, Any]]:
    return [rank_record(silence.rank, no_response=silence.reason) for silence in silent]
