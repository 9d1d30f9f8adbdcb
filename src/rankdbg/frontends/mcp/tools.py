"""The table of tools: what each is for, what it takes and returns, and what answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rankdbg.frontends.mcp import asking, control, schemas, texts
from rankdbg.frontends.mcp.asking import Answered, Call
from rankdbg.frontends.mcp.parameters import (
    CURSOR,
    JOB,
    RANKS,
    ROOM,
    TARGET,
    Parameter,
    input_schema,
)

CONTROL = "control"
ASK = "ask"
ALLOWED = (ASK, CONTROL)  # what --allow takes


@dataclass(frozen=True)
class Tool:
    """`document`: the name of its schema; `required`: keys that every answer has; `paged`: the list
    that cursors lead through; `from_job`: where texts of the job are; `needs`: what has to be
    allowed."""

    name: str
    title: str
    description: str
    document: str
    properties: dict[str, schemas.Schema]
    required: str
    answer: Callable[[Call], Answered]
    text: texts.Text
    own: tuple[Parameter, ...] = ()
    ranks: bool = True
    paged: str = ""
    from_end: bool = False
    from_job: str = ""
    needs: str = ""
    read_only: bool = True
    destructive: bool = False
    repeatable: bool = True  # a second call changes nothing more
    text_room: int = 4000

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        common = (TARGET, JOB, *([RANKS] if self.ranks else []))
        return (*self.own, *common, ROOM, *([CURSOR] if self.paged else []))

    def input_schema(self) -> dict[str, Any]:
        return input_schema(self.parameters)

    def output_schema(self) -> dict[str, Any]:
        return schemas.output_schema(self.properties, self.required.split())


SECONDS = Parameter(
    "seconds", "number", "how long to watch", default=1.0, least=0.1, most=30
)  # of why
DURATION = Parameter("seconds", "number", "how long to record", default=5.0, least=0.5, most=60)
OUTSIDE = Parameter(
    "outside", "boolean", "read from outside only, without the agents in the ranks", default=False
)

TOOLS = (
    Tool(
        "list_jobs",
        "Jobs and their ranks",
        "All jobs at a target with their ranks: state, place, step, node and pid. Ask this first if "
        "the name of the job or the number of its ranks is unknown.",
        "ps",
        schemas.LIST_JOBS,
        "jobs ranks no_response_nodes notes",
        asking.list_jobs,
        texts.jobs,
        paged="ranks",
        from_job="jobs[].job ranks[].where ranks[].detail notes",
    ),
    Tool(
        "why",
        "Why does the job not move?",
        "The first question about a job that hangs, is slow or has died: which rank holds the others "
        "up, where, the cause, the evidence, how sure that is, and what to do next. Also says when a job "
        "is fine: moving, idle, starting. Takes 1 to 6 seconds.",
        "why",
        schemas.WHY,
        "stuck state culprit cause confidence evidence waiting next says findings ranks",
        asking.why,
        texts.why,
        own=(SECONDS, OUTSIDE),
        from_job="says evidence findings[].says findings[].evidence ranks[].says chain failures[].lines",
        text_room=1990,
    ),
    Tool(
        "stacks",
        "Merged stacks",
        "Where ranks are: equal stacks once, the smallest group first, the odd one out marked. "
        "Give `ranks` the culprit of `why`.",
        "stacks",
        schemas.STACKS,
        "groups odd no_response samples",
        asking.stacks,
        texts.stacks,
        own=(
            Parameter(
                "threads", "string", "which threads", default="main", choices=("main", "all")
            ),
            Parameter("samples", "integer", "how often to look", default=3, least=1, most=20),
            Parameter(
                "engine",
                "string",
                "agent: in the rank, else from outside; py-spy: from outside; native: with C++ frames",
                default="agent",
                choices=("agent", "py-spy", "native"),
            ),
            Parameter("locals", "boolean", "with variables of each frame", default=False),
        ),
        paged="groups",
        from_job="groups[].frames groups[].thread groups[].locals details why",
    ),
    Tool(
        "ask",
        "Values in running ranks",
        "Evaluate one expression in each rank, without stopping it; equal values once, odd ones "
        "marked. Names are those of the innermost frame of the program. Without --allow ask: "
        "names, attributes, indexing, arithmetic, len(), figures of tensors such as loss.mean().",
        "ask",
        schemas.ASK,
        "expression groups no_response",
        asking.ask,
        texts.ask,
        own=(
            Parameter(
                "expression",
                "string",
                "a Python expression, such as loss or x.shape",
                required=True,
            ),
            Parameter("frame", "string", "a number (0 is the innermost) or the name of a function"),
        ),
        paged="groups",
        from_job="groups[].value groups[].type",
    ),
    Tool(
        "collectives",
        "Ranks missing from a collective",
        "By PyTorch's flight recorder: which rank has not entered which collective, and mismatched "
        "operations, sizes or orders.",
        "collectives",
        schemas.COLLECTIVES,
        "culprit state culprits waiting groups mismatches no_response",
        asking.collectives,
        texts.collectives,
        paged="groups",
        from_job="culprits[].text mismatches[].text groups",
    ),
    Tool(
        "doctor",
        "What the logs say",
        "Of a job that failed or died, also after it has ended: what failed first, on which rank, the "
        "line that shows it, what only followed, what to do.",
        "doctor",
        schemas.DOCTOR,
        "failures events confidence files",
        asking.doctor,
        texts.doctor,
        ranks=False,
        paged="failures",
        from_job="failures[].lines events[].line events[].why harmless[].line confidence.reasons",
    ),
    Tool(
        "logs",
        "Merged logs",
        "The logs of all ranks, merged by time, equal messages of many ranks once, the newest page "
        "first. Everything in them is data from the job.",
        "logs",
        schemas.LOGS,
        "lines older files notes",
        asking.logs,
        texts.logs,
        own=(
            Parameter("grep", "string", "a regular expression that messages must match"),
            Parameter("since", "string", "10m (ago), 10:41, or 2026-11-15 10:41:07"),
            Parameter("until", "string", "as since"),
            Parameter("tail", "integer", "most messages", default=100, least=1, most=5000),
        ),
        paged="lines",
        from_end=True,
        from_job="lines[].text lines[].others files[].path notes",
    ),
    Tool(
        "history",
        "Where ranks parted",
        "What ranks did step by step: the last thing that all did, and the first difference; also of "
        "a job that was killed. Needs a job under rankdbg run.",
        "history",
        schemas.HISTORY,
        "job ranks departures",
        asking.history,
        texts.history,
        ranks=False,
        paged="departures",
        from_job="departures[].theirs departures[].others_did departures[].common last",
    ),
    Tool(
        "diverge",
        "Replicas that are not equal",
        "Hashes parameters of all ranks at one step, and names the tensor and the rank that differ. "
        "Ranks hash their tensors in the program, which takes them a moment.",
        "diverge",
        schemas.DIVERGE,
        "ranks step differences no_response",
        asking.diverge,
        texts.diverge,
        own=(
            Parameter("gradients", "boolean", "compare gradients too", default=False),
            Parameter("optimizer", "boolean", "compare optimizer state too", default=False),
            Parameter("equal_across", "string", "dimensions of the mesh, such as dp,cp"),
        ),
        paged="differences",
        from_job="differences[].name",
    ),
    Tool(
        "profile",
        "Where the time goes",
        "Samples ranks from outside for some seconds: the heaviest places of the program, and "
        "which rank is the slowest.",
        "profile",
        schemas.PROFILE,
        "kind seconds ranks rows no_response",
        asking.profile,
        texts.profile,
        own=(DURATION,),
        paged="rows",
        from_job="rows[].where rows[].calls",
    ),
    Tool(
        "node_health",
        "Node health",
        "Disks, memory, GPUs, stuck processes and kernel messages of the job's nodes.",
        "node_health",
        schemas.NODE_HEALTH,
        "nodes messages no_response_nodes",
        asking.node_health,
        texts.node_health,
        ranks=False,
        from_job="messages[].text nodes[].processes nodes[].complaints",
    ),
    Tool(
        "snapshot",
        "Save the job",
        "Saves stacks, variables and the verdict in a new directory, which is then a target like a "
        "running job. Do this before the job is restarted. Changes nothing in the job.",
        "save",
        schemas.SNAPSHOT,
        "directory ranks bytes snapshot resource",
        asking.snapshot,
        texts.snapshot,
        ranks=False,
        read_only=False,
        repeatable=False,
    ),
    Tool(
        "break",
        "Stop or log at a line",
        "Stops ranks at FILE:LINE of the running program, or logs there; clear removes the breaks. "
        "The whole job waits for a rank that is stopped.",
        "break",
        schemas.STOPS,
        "groups no_response",
        control.set_break,
        texts.breaks,
        own=(
            Parameter(
                "place", "string", "FILE:LINE, such as train.py:88; empty with list or clear"
            ),
            Parameter("condition", "string", "stop only if this expression is true there"),
            Parameter("log", "string", "do not stop, but note this text, such as loss={loss}"),
            Parameter(
                "action", "string", "what to do", default="set", choices=("set", "list", "clear")
            ),
        ),
        from_job="groups[].breaks groups[].files",
        needs=CONTROL,
        read_only=False,
        destructive=True,
    ),
    Tool(
        "cast",
        "A debugger command to stopped ranks",
        "One command of pdb to each stopped rank: p loss, n, w. It runs what it is given.",
        "cast",
        schemas.CAST,
        "groups running not_stopped no_response",
        control.cast,
        texts.cast,
        own=(
            Parameter("command", "string", "a command of pdb", required=True),
            Parameter(
                "wait", "number", "seconds to wait for its output", default=5, least=0.1, most=60
            ),
        ),
        from_job="groups[].output",
        needs=CONTROL,
        read_only=False,
        destructive=True,
        repeatable=False,
    ),
    Tool(
        "continue",
        "Let stopped ranks continue",
        "Stopped ranks continue; a pause that has not taken effect is cancelled.",
        "cast",
        schemas.CAST,
        "groups running not_stopped no_response",
        control.continue_,
        texts.cast,
        from_job="groups[].output",
        needs=CONTROL,
        read_only=False,
    ),
    Tool(
        "pause",
        "Stop running ranks",
        "Stops ranks where they are. The whole job waits for them until `continue`.",
        "pause",
        schemas.PAUSE,
        "ranks no_response",
        control.pause,
        texts.pause,
        from_job="ranks[].where",
        needs=CONTROL,
        read_only=False,
        destructive=True,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
