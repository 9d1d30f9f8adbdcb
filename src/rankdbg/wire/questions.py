"""The questions that agents answer; those that nodes answer are in node_questions.py.

A question is one class: its fields are those of the message, its base names the type of the answer
(answers.py), and its first line is its row in the table:

    name        "break set" is {"ask": "break", "do": "set"} on the wire
    by          who answers: the "agent" of each rank, or the "node"
    repeatable  whether a node may ask again if an agent has closed the connection
    timed_by    whose time limit `timeout` is: of the "node", which waits for agents until then, or
                of the "agent", which gets a little less, so that its own error arrives
    extra       seconds that a session adds to its time limit
    saved       how a snapshot answers: from the "last" saved answer, from all of them "in order"
                (two show a change), or from one that is "fitting" (clusters/snapshot)

The agent imports this module at its start: dataclasses and typing would take 10 ms.

Questions that take over a connection are not here: `stream` (streams.py), `dap` and `watch`.
"""

from __future__ import annotations

from rankdbg.wire.decoding import BadField, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Generic, TypeVar

    from typing_extensions import dataclass_transform

    from rankdbg.wire import (  # noqa: F401 - in the bases below
        Message,
        answers,
        nan_answers,
        replica_answers,
    )

    A_co = TypeVar("A_co", covariant=True)

    @dataclass_transform(kw_only_default=True)
    class _Answered(Generic[A_co]):
        pass
else:

    class _Answered:
        __class_getitem__ = classmethod(type(list[int]))  # as Generic, without typing


MOST_PATIENCE = 100.0


class BadQuestion(Exception):
    """A question that is not in the table, or has an invalid field."""


BY_AGENT: dict[str, type[Question[Any]]] = {}
BY_NODE: dict[str, type[Question[Any]]] = {}


class Question(_Answered["A_co"]):
    timeout: float = 5.0
    patience: float = 1.0  # a factor: how much slower than usual the others may be

    wire_name, by, repeatable, timed_by, extra, saved = "", "node", False, "node", 0.0, "last"

    def __init_subclass__(cls, name: str = "", **row: Any) -> None:
        for column, value in row.items():
            setattr(cls, column, value)
        if name:
            cls.wire_name = name
            table = BY_NODE if cls.by == "node" else BY_AGENT
            assert name not in table, f"two questions {name!r}"
            table[name] = cls

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            self.__dict__ = fields

    def message(self) -> Message:
        """Without the fields that were not given."""
        ask, _, do = self.wire_name.partition(" ")
        return {"ask": ask, **({"do": do} if do else {}), **self.__dict__}

    @property
    def limit(self) -> float:
        return min(3600.0, max(0.0, self.timeout))

    def tolerance(self, seconds: float) -> float:
        """How long to wait for what usually takes much less than this."""
        return seconds * min(MOST_PATIENCE, max(1.0, self.patience))


class RankQuestion(Question["A_co"], by="agent"):
    """About ranks. A node asks their agents, unless it answers itself, and lists the answers."""

    processes: list[tuple[int, int]] = []  # noqa: RUF012 - pid and start; never changed

    def for_agents(self) -> Message:
        return {key: value for key, value in self.message().items() if key != "processes"}


class AgentQuestion(Question["A_co"], by="agent"):
    """What a node asks an agent on its own behalf."""


def name_in(message: Message) -> str:
    name = str(message.get("ask"))
    return name if message.get("do") is None else f"{name} {message['do']}"


def read_question(message: Message, table: Mapping[str, type[Question[Any]]]) -> Question[Any]:
    """Raises BadQuestion."""
    name = name_in(message)
    if name not in table:
        raise BadQuestion(f"unknown question {name[:80]!r}")
    try:
        return decode(table[name], message)
    except BadField as error:
        raise BadQuestion(f"invalid question {name!r}: {error}") from None


# --- values, stacks, files ------------------------------------------------------------------


class Evaluate(
    RankQuestion["answers.Described"], name="evaluate", timed_by="agent", saved="fitting"
):
    expression: str
    frame: int | str | None = None  # its number, 0 is the innermost; or its function
    thread: int | str | None = None


class ReadEnvironment(RankQuestion["answers.Environment"], name="environment", repeatable=True):
    pass


class ReadCollectives(
    RankQuestion["answers.Recorders"], name="collectives", repeatable=True, saved="in order"
):
    pass


class ReadRayWaits(RankQuestion["answers.RayWaits"], name="ray_waits", repeatable=True):
    pass


class ChangeHistory(RankQuestion["answers.HistoryChanged"], name="change_history"):
    """What is noted besides: branches of a function (FILE:FUNCTION, `off`: of none), and calls of
    modules down to a depth (0: none)."""

    trace: str = ""
    modules: int | None = None


class HashReplicas(
    RankQuestion["replica_answers.ReplicaHashes"], name="replicas", timed_by="agent"
):
    """Hashes of tensors of these kinds, at the start of a step, or now."""

    kinds: tuple[str, ...]
    step: int | None = None


class ReadReplicaBlocks(
    RankQuestion["replica_answers.ReplicaBlocks"], name="replica_blocks", timed_by="agent"
):
    """Figures of tensors (kind and name) and hashes of their blocks; or, where there are numbers of
    `blocks` beside the tensors, the values of these."""

    tensors: tuple[tuple[str, str], ...]
    step: int | None = None
    blocks: tuple[tuple[int, ...], ...] = ()


class KeepReplicas(RankQuestion["replica_answers.ReplicaKeeping"], name="keep_replicas"):
    """Hash tensors of these kinds at the start of every N-th step, and keep the hashes; 0: no longer."""

    every: int
    kinds: tuple[str, ...] = ()


class ReadKeptReplicas(
    RankQuestion["replica_answers.ReplicaRecords"], name="kept_replicas", repeatable=True
):
    """All tensors at one step that was kept; and the hashes of some tensors at all of them."""

    step: int | None = None
    tensors: tuple[tuple[str, str], ...] = ()


class TraceModules(
    RankQuestion["replica_answers.ModuleCalls"], name="module_calls", timed_by="agent"
):
    """The calls of modules in one step. `under`: of these only, if the model is large. `inside`: the
    module whose operators are followed too."""

    step: int
    under: str = ""
    inside: str | None = None


class ReadNan(RankQuestion["nan_answers.NanReport"], name="nan", repeatable=True, timed_by="agent"):
    """Which tensors have nan or inf now, and what the hooks of ArmNan have found."""


class ArmNan(RankQuestion["nan_answers.NanArmed"], name="nan arm"):
    """Hooks that stop the rank at the first value that is not finite; or no more. `exact`: wait for
    the GPU at each output."""

    on: bool = True
    exact: bool = False


class ReadThreadWaits(
    RankQuestion["answers.ThreadWaits"], name="thread_waits", repeatable=True, saved="in order"
):
    """What threads wait for among themselves."""


class DigestSource(RankQuestion["answers.SourceFile"], name="source digest"):
    file: str


class ReadSource(RankQuestion["answers.SourceFile"], name="source read"):
    file: str


class GiveSource(RankQuestion["answers.SourceFile"], name="source give"):
    """A copy for ranks that lack the file, to be shown at stops."""

    file: str
    text: str


class DigestSources(RankQuestion["answers.SourceDigests"], name="sources"):
    """Of the files that the user's code comes from."""


# --- stops ----------------------------------------------------------------------------------


class ListStops(RankQuestion["answers.StopReports"], name="stops", repeatable=True):
    pass


class RunCommand(RankQuestion["answers.StopReport"], name="command", timed_by="agent"):
    line: str | None = None  # None: wait for the end of the last
    wait: float | None = None  # seconds until the rank is reported as running
    threads: list[str] | None = None  # globs: only stops of these threads or actors
    without: list[str] | None = None  # files whose text the client does not have either
    next: bool = False  # wait for a rank that has continued to stop again


class Pause(RankQuestion["answers.StopReport"], name="pause", timed_by="agent"):
    cancel: bool = False


class SetBreak(RankQuestion["answers.BreakPlace"], name="break set"):
    file: str
    line: int
    condition: str = ""
    log: str = ""
    together: bool = False  # takes effect after OpenBreaks


class OpenBreaks(RankQuestion["answers.BreakCounts"], name="break open"):
    """From this count of steps (`step`) or collectives (`collective`) on, once it is confirmed; or
    at once (empty)."""

    kind: str = ""
    count: int = 0
    measuring: bool = False  # only for the counts in the answers


class ConfirmBreaks(RankQuestion["answers.Done"], name="break confirm"):
    """Ranks that have reached the count of OpenBreaks stop now."""


class ClearBreaks(RankQuestion["answers.ClearedBreaks"], name="break clear"):
    """One, or all."""

    file: str | None = None
    line: int | None = None


class ListBreaks(RankQuestion["answers.BreakReports"], name="break list"):
    pass


class LoadEditor(RankQuestion["answers.Done"], name="load_editor"):
    """Load the debugger for editors ahead of an editor, in the background."""


class ReleaseFromWait(RankQuestion["answers.Done"], name="release_from_wait"):
    """Of ranks that wait for an editor before their first line."""


# --- from a node to an agent ----------------------------------------------------------------


class Ping(AgentQuestion["Any"], name="ping", repeatable=True):
    pass


class ReadCard(AgentQuestion["Any"], name="card", repeatable=True):
    pass


class ReadStacks(AgentQuestion["Any"], name="stacks", repeatable=True):
    threads: str = "main"
    locals: bool = False
    tasks: bool = False  # those of asyncio too


class HoldLease(AgentQuestion["Any"], name="hold", repeatable=True):
    """Hold the timeouts of process groups for this many seconds; 0 releases them."""

    holder: str
    lease: float = 0.0
    renewal: bool = False


class StartProfiler(AgentQuestion["Any"], name="profile begin"):
    directory: str
    kind: str = "torch"
    seconds: float = 10.0
    stack: bool = False


class StopProfiler(AgentQuestion["Any"], name="profile end", timed_by="agent"):
    pass
