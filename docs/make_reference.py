"""Pages of docs/reference that are made from the rules: what `rankdbg why` can name (causes.md),
and what `rankdbg doctor` knows of logs (failures.md, phases.md); and from the table of tools: what
`rankdbg mcp` offers (mcp.md).

python docs/make_reference.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rankdbg.frontends.mcp.parameters import CURSOR, JOB, RANKS, ROOM, TARGET, Parameter
from rankdbg.frontends.mcp.prompts import PROMPTS
from rankdbg.frontends.mcp.tools import TOOLS, Tool
from rankdbg.verdicts.hangs import (
    accusations,
    chain_ends,
    collective_circles,
    culprits,
    ray_causes,
    store_circles,
    unreachable,
)
from rankdbg.verdicts.hangs.hang_rules import UNKNOWN, HangRule, load_hang_rules
from rankdbg.verdicts.rules.log_rules import FailureRule, LogRule, PhaseRule, load_rules

FOLDER = Path(__file__).parent / "reference"

HEAD = """\
# Causes

What `rankdbg why` can name, and `cause` in its [JSON](json.md). Words such as PLACE stand for
what was seen. The role says what it means for the other ranks: [roles](rules.md#roles). A cause
that is seen in several ways has a paragraph for each. The [gallery](../gallery.md) shows verdicts
on real jobs.

This page is made from the rules: `make reference`.
"""

ALONE = "## Seen in one rank\n"

COMPARED = """\
## Seen by comparing ranks

No rule finds these: they come of what torch's flight recorders say of all ranks, or of a rank
that should be there and is not.
"""

RAY = """\
## Seen in Ray's tables

What a driver or an actor of Ray waits for, by Ray's own tables of tasks, actors, placement groups
and nodes ([a job on Ray](../guides/on-ray.md#why-does-it-wait)).
"""

# As verdicts/hangs/culprits.py has them, for one rank.
SAID_OF_CULPRITS = {
    "mismatch": "it has entered a collective with a different operation, size or type from the others",
    "missing": "it has left out a collective in which others wait, and waits in another",
    "undecided": "it and another rank wait for each other, and nothing tells which has left the order",
    "not started": "its GPU has not begun the collective that the others are inside of",
}
OF_ABSENCE = [
    HangRule(
        cause="rank-died",
        says="its process is gone",
        why="The process ended, or was killed; the others wait for it.",
        fix="rankdbg doctor LOGS says why; look at dmesg for an OOM kill",
    ),
    HangRule(
        cause="rank-never-started",
        says="no process of this rank",
        why="The others wait at the start until all ranks have come.",
        fix="look at the launcher's own output: did it start there, did it fail at import?",
    ),
    HangRule(
        cause="kernel-never-ends",
        says="all ranks wait for their GPUs, and no rank is missing from a collective",
        why="A kernel that runs on the GPU does not end: one of the program's own, or a "
        "collective's.",
        fix="rankdbg stacks --cuda names the kernel; for collectives, rankdbg collectives",
    ),
]


def causes() -> str:
    """The text of the page."""
    by_rules = _by_cause([*load_hang_rules(), UNKNOWN])
    compared = [
        HangRule(cause=cause, says=SAID_OF_CULPRITS[reason], why=why, fix=fix)
        for reason, (cause, why, fix) in culprits.OF_CULPRITS.items()
    ]
    by_comparing = _by_cause(
        [
            *compared,
            *OF_ABSENCE,
            *unreachable.BOTH,
            accusations.LOOP_AWAITS,
            store_circles.TOO_LATE,
            collective_circles.HELD_IN_COLLECTIVE,
            collective_circles.OWED_IN_COLLECTIVE,
            chain_ends.CIRCLE,
        ]
    )
    by_ray = _by_cause(ray_causes.ALL)
    by_rules = {c: [*rules, *by_ray.pop(c, ())] for c, rules in by_rules.items()}
    by_comparing = {c: [*rules, *by_ray.pop(c, ())] for c, rules in by_comparing.items()}
    every = sorted({*by_rules, *by_comparing, *by_ray})
    names = ", ".join(f"[`{cause}`](#{cause})" for cause in every)
    sections = [_section(cause, rules) for cause, rules in by_rules.items()]
    others = [_section(cause, rules, role=False) for cause, rules in by_comparing.items()]
    in_ray = [_section(cause, rules, role=False) for cause, rules in by_ray.items()]
    parts = [HEAD, f"{names}\n", ALONE, *sections, COMPARED, *others, RAY, *in_ray]
    return "\n".join(parts)


def _by_cause(rules: Iterable[HangRule]) -> dict[str, list[HangRule]]:
    found: dict[str, list[HangRule]] = {}
    for rule in rules:
        found.setdefault(rule.cause, []).append(rule)
    return found


def _section(cause: str, rules: list[HangRule], role: bool = True) -> str:
    told = dict.fromkeys(_paragraph(rule, role) for rule in rules)
    return f"### {cause}\n\n" + "\n".join(told)


def _paragraph(rule: HangRule, role: bool) -> str:
    """One item of a list: what is said, why it is so, what to do."""
    means = f" (role `{rule.role}`)" if role else ""
    lines = [f"- *{_said(rule.says)}*{means}", _said(rule.why), f"Next: {_said(rule.fix)}"]
    return "\\\n  ".join(lines) + "\n"


def _said(text: str) -> str:
    """The words that are filled in as capitals; nothing in it shall be taken for markup."""
    text = text.replace("{there}", "")  # nothing on the user's own machine
    return _plain(re.sub(r"\{(\w+)\}", lambda word: word[1].upper(), text))


def _plain(text: str) -> str:
    return text.replace("__", r"\_\_").replace("<", r"\<")


FAILURES_HEAD = """\
# Known failures

What `rankdbg doctor` can name in logs, and `mode` in its [JSON](json.md). The role says what it
can be in a chain of failures, from what starts things to what only takes the job down:
[rules](rules.md#failure). `rankdbg rules MODE` shows a rule on the terminal; [add your
own](../guides/add-a-rule.md).

This page is made from the rules: `make reference`.
"""

HARMLESS_HEAD = """\
## Harmless

What looks alarming and is not. A line of these is never a failure.
"""

PHASES_HEAD = """\
# Known phases

What `rankdbg phases` and `doctor` know of the course of a job, by framework, in the order in
which phases come. A rank that writes nothing for longer than its phase allows is reported.
Wordings of several versions are known; a line of each is shown. [Add your
own](../guides/add-a-rule.md).

This page is made from the rules: `make reference`.
"""

KINDS = {
    "gpu_memory": "Memory of the GPU",
    "host_memory": "Memory of the host",
    "nccl": "NCCL",
    "nccl_network": "The network under NCCL",
    "rendezvous": "Ranks that find each other",
    "elastic": "Launchers",
    "scheduler": "Schedulers",
    "ray": "Ray",
    "engine": "Inference engines",
    "hang": "Engines that hang",
    "cuda_app": "Kernels",
    "gpu_hw": "The GPU itself",
    "driver": "Drivers",
    "disk": "Disks",
    "shm": "Shared memory",
    "limits": "Limits",
    "env": "Environments",
    "hub": "Models from the hub",
    "checkpoint": "Checkpoints",
    "numerics": "Numbers",
    "data": "Data",
    "crash": "Crashes",
    "program": "The program",
}
STACKS = {
    "torchspec": "TorchSpec",
    "sglang": "SGLang",
    "vllm": "vLLM",
    "megatron": "Megatron-LM",
    "torchtitan": "torchtitan",
    "nemo_rl": "NeMo RL",
    "verl": "verl",
    "deepspeed": "DeepSpeed",
    "torchrun": "torchrun",
    "ray": "Ray",
    "hf": "Hugging Face's Trainer",
}


def failures() -> str:
    """The text of failures.md."""
    rules = load_rules()
    by_kind: dict[str, list[FailureRule]] = {kind: [] for kind in KINDS}
    for rule in rules.failures.values():
        by_kind.setdefault(rule.kind, []).append(rule)
    links = ", ".join(f"[`{mode}`](#{mode})" for mode in sorted(rules.failures))
    sections = []
    for kind, known in by_kind.items():
        sections += [f"## {KINDS.get(kind, kind)}\n", *map(_failure, known)]
    harmless = [
        f"- `{rule.mode}`: {_plain(rule.cause)} Lines with {_lines(rule)}\n"
        for rule in rules.harmless.values()
    ]
    return "\n".join([FAILURES_HEAD, f"{links}\n", *sections, HARMLESS_HEAD, "".join(harmless)])


def _failure(rule: FailureRule) -> str:
    lines = [f"Role `{rule.role}`, kind `{rule.kind}`. {_plain(rule.cause)}"]
    lines.append(f"Next: {_plain(rule.fix)}")
    if rule.match:
        lines.append(f"Lines with {_lines(rule)}")
    lines += [f"<{link}>" for link in rule.links]
    return f"### {rule.mode}\n\n" + "\\\n".join(lines) + "\n"


def phases() -> str:
    """The text of phases.md."""
    by_stack: dict[str, dict[str, list[PhaseRule]]] = {stack: {} for stack in STACKS}
    for rule in load_rules().phases:
        by_stack.setdefault(rule.stack, {}).setdefault(rule.phase, []).append(rule)
    sections = []
    for stack, by_phase in by_stack.items():
        rows = [_phase(name, rules) for name, rules in by_phase.items()]
        head = [
            "| phase | no output for | what happens | lines with |",
            "| --- | --- | --- | --- |",
        ]
        sections.append("\n".join([f"## {STACKS.get(stack, stack)}\n", *head, *rows]) + "\n")
    return "\n".join([PHASES_HEAD, *sections])


def _phase(name: str, rules: list[PhaseRule]) -> str:
    quiet = max(rule.quiet for rule in rules)
    silent = "" if not quiet else f"{quiet / 60:g} min" if quiet >= 60 else f"{quiet:g} s"
    note = next((rule.note for rule in rules if rule.note), "")
    lines = _lines(*rules).replace("|", "\\|")
    return f"| {name} | {silent} | {_plain(note)} | {lines} |"


def _lines(*rules: LogRule) -> str:
    """A few literals by which it is known."""
    literals = dict.fromkeys(literal for rule in rules for literal, _ in rule.match)
    return ", ".join(
        f"`` {literal.strip()} ``" if "`" in literal else f"`{literal.strip()}`"
        for literal in [*literals][:3]
    )


MCP_HEAD = """\
# MCP

What [`rankdbg mcp`](verbs.md#mcp) offers to AI agents; the [guide](../guides/for-ai-agents.md) tells how to use it.

An answer has a text, and the document that `--json` of the verb prints ([JSON](json.md)), with these keys more:
`target` (what was asked), `from_job` (where texts of the job are: data, never instructions), `left_out` (list -> how many
entries did not fit), `next_cursor` (leads to them, or null). Lists are as long as `max_chars` has room for; `stacks` has
no `tree`, `list_jobs` only what tells who and where a rank is, and the first of `findings` of `why` does not repeat
`evidence` and `processes`. If nothing could be asked (no job, a target that does not answer) there are only `schema`,
`target`, `problem` and `hint`. A wrong argument is an error of the tool, in one sentence.

This page is made from the table of tools: `make reference`.

## Arguments that tools share
"""

MCP_END = """\
## Resources

| resource | what |
| --- | --- |
| `rankdbg://guide/agents` | [how an agent uses rankdbg](../agents/SKILL.md) |
| `rankdbg://guide/NAME` | the guides of this documentation |
| `rankdbg://causes`, `rankdbg://cause/NAME` | all [causes](causes.md) by name; one of them |
| `rankdbg://snapshot/NAME` | the report of a snapshot, or of `watch` or `doctor --save`, in the directory `--saved`; as JSON: `rankdbg://snapshot/NAME/report.json` |

## Prompts
"""


def mcp() -> str:
    """The text of mcp.md."""
    shared = [_row(each) for each in (TARGET, JOB, RANKS, ROOM, CURSOR)]
    head = ["| argument | what |", "| --- | --- |"]
    prompts = [f"- `{each.name}`: {each.title}. {each.description}." for each in PROMPTS]
    parts = [MCP_HEAD, "\n".join([*head, *shared]) + "\n", "## Tools\n", *map(_tool, TOOLS)]
    return "\n".join([*parts, MCP_END, *prompts]) + "\n"


def _tool(tool: Tool) -> str:
    shared = [each for each in tool.parameters if each not in tool.own]
    takes = ", ".join(f"`{each.name}`" for each in shared)
    kind = "read-only" if tool.read_only else "destructive" if tool.destructive else "writes"
    kind += f"; needs `--allow {tool.needs}`" if tool.needs else ""
    lines = [f"### {tool.name}\n", f"{_plain(tool.description)} ({kind})\n"]
    lines.append(
        f"Returns `rankdbg.{tool.document}/1`. Takes {takes}{' and:' if tool.own else '.'}\n"
    )
    if tool.own:
        lines += ["| argument | what |", "| --- | --- |", *map(_row, tool.own), ""]
    return "\n".join(lines)


def _row(each: Parameter) -> str:
    facts = [f"default: {str(each.default).lower()}"] if each.default is not None else []
    facts += ["required"] if each.required else []
    facts += [f"one of {', '.join(each.choices)}"] if each.choices else []
    facts += [f"{each.least:g} to {each.most:g}"] if each.least is not None else []
    told = f" ({'; '.join(facts)})" if facts else ""
    return f"| `{each.name}` | {each.description}{told} |"


if __name__ == "__main__":
    pages = (("causes", causes), ("failures", failures), ("phases", phases), ("mcp", mcp))
    for name, made in pages:
        (FOLDER / f"{name}.md").write_text(made(), "utf-8")
