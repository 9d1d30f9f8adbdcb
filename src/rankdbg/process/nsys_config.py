"""Nsight Systems from the start of a job: which ranks, which steps, and the command line.

    RANKDBG_NSYS_WORKERS    '*policy*,vllm*': patterns of workers' names
    RANKDBG_NSYS_STEPS      '3:7': from step 3 on, until step 7 begins; 'later': when asked
    RANKDBG_NSYS_OPTIONS    '{"trace": "cuda,nvtx"}': options of `nsys profile`

NeMo RL's variables have the same meaning; its first two must both be set. Pure functions from text
to values. The agent uses them before the program begins, so they use built-in types only.
"""

from __future__ import annotations

from rankdbg.errors import BadInput, RankdbgError
from rankdbg.wire import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Steps = tuple[int, int]

OURS = ("RANKDBG_NSYS_WORKERS", "RANKDBG_NSYS_STEPS", "RANKDBG_NSYS_OPTIONS")
NEMO = ("NRL_NSYS_WORKER_PATTERNS", "NRL_NSYS_PROFILE_STEP_RANGE", "NRL_NSYS_EXTRA_OPTIONS")
# Matches no step: `rankdbg profile --kind nsys` starts the capture.
LATER = (0, 0)
# nsys sets this variable in all processes that it starts.
UNDER_NSYS = "NSYS_PROFILING_SESSION_ID"

# Variables about one process alone: never passed to a process that it has not started, such as a
# worker of Ray.
OF_ONE_PROCESS = (
    "RANKDBG_NSYS_NAME",
    "RANKDBG_NSYS_PID",
    "RANKDBG_NSYS_REPORT",
    "RANKDBG_NSYS_TOLD",
    "RANKDBG_NSYS_TURN",
    "RANKDBG_NSYS_WORKER",
    "RANKDBG_LANDED",
    "RANKDBG_OFFERED",
    "RANKDBG_RAYLET",
    "RANKDBG_THERE",
)

_DEFAULTS = {
    "trace": "cuda,nvtx",
    "sample": "none",
    "cuda-graph-trace": "node",
    "stop-on-exit": "true",
    "force-overwrite": "true",  # pids recur; without it nsys would not write the report
}
_OF_STEPS = {"capture-range": "cudaProfilerApi", "capture-range-end": "stop"}
# nsys has two names for these options. The user's value overrides ours with either name.
_LONG_NAMES = {
    "b": "backtrace",
    "c": "capture-range",
    "d": "duration",
    "e": "env-var",
    "f": "force-overwrite",
    "n": "inherit-environment",
    "o": "output",
    "p": "nvtx-capture",
    "s": "sample",
    "t": "trace",
    "w": "show-output",
    "x": "stop-on-exit",
    "y": "delay",
}


class NsysConfig:
    """Which ranks and steps to profile, with which options of nsys."""

    def __init__(
        self, patterns: Iterable[str], steps: Steps | None, options: Mapping[str, str]
    ) -> None:
        self.patterns = tuple(patterns)
        self.steps = steps
        self.options = dict(options)

    def pattern_of(self, names: Iterable[str]) -> tuple[str, str]:
        """The first of these names that matches a pattern, and the pattern; or two ``."""
        for name in names:
            for pattern in self.patterns:
                if matches(name, pattern):
                    return name, pattern
        return "", ""

    def range_text(self) -> str:
        if self.steps == LATER:
            return "later"
        return f"{self.steps[0]}:{self.steps[1]}" if self.steps else ""

    def report_name(self, worker: str) -> str:
        """The name of a worker's report without its ending; nsys replaces %p by the pid."""
        worker = worker.replace("/", "_").replace("%", "%%")
        return "_".join(part for part in (worker, self.range_text(), "%p") if part)

    def profile_options(self, output: str) -> dict[str, str]:
        """By their long names. The user's values take precedence; an empty one removes an option."""
        wanted = {**_DEFAULTS, **(_OF_STEPS if self.steps else {}), "output": output}
        wanted.update(self.options)
        return {name: value for name, value in wanted.items() if value}

    def command(self, program: str, output: str) -> list[str]:
        """The words before the command of a rank."""
        words = [program, "profile"]
        for name, value in self.profile_options(output).items():
            words += [f"--{name}={value}"] if len(name) > 1 else [f"-{name}", value]
        return words


def read(environ: Mapping[str, str]) -> NsysConfig | None:
    """None if nothing is profiled. Raises BadInput."""
    for workers, steps, options in (OURS, NEMO):
        patterns = parse_patterns(environ.get(workers, ""))
        given = {name: environ.get(name, "").strip() for name in (steps, options)}
        if not patterns and not given[steps]:
            continue
        if not patterns or (workers == NEMO[0] and not given[steps]):
            there, missing = (steps, workers) if not patterns else (workers, steps)
            example = "'*policy*'" if missing == workers else "3:7"
            raise BadInput(f"{there} is set, but {missing} is not", hint=f"{missing}={example}")
        return NsysConfig(
            patterns,
            parse_steps(given[steps], steps) if given[steps] else None,
            parse_options(given[options], options) if given[options] else {},
        )
    return None


def parse_patterns(text: str) -> list[str]:
    return [pattern.strip() for pattern in text.split(",") if pattern.strip()]


def parse_steps(text: str, source: str) -> Steps:
    """`3:7` as in NeMo RL: steps count from 1, and the second one is excluded. Or `later`."""
    if text.strip() == "later":
        return LATER
    words = [word.strip() for word in text.split(":")]
    if len(words) != 2:
        near = text.replace("-", ":")
        hint = f"{source}={near}" if near.count(":") == 1 else f"{source}=3:7"
        raise BadInput(f"invalid {source}: expected steps such as 3:7, not {text!r}", hint=hint)
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise BadInput(
                f"invalid {source}={text}: expected whole numbers, not {word!r}",
                hint=f"{source}=3:7",
            )
    first, end = int(words[0]), int(words[1])
    if first < 1:
        raise BadInput(
            f"invalid {source}={text}: step {first} does not exist, steps count from 1",
            hint=f"{source}=1:{max(end, 2)}",
        )
    if first >= end:
        hint = f"{source}={end}:{first}" if 0 < end < first else f"{source}={first}:{first + 1}"
        raise BadInput(
            f"invalid {source}={text}: expected a first step below the second", hint=hint
        )
    return first, end


def parse_options(text: str, source: str) -> dict[str, str]:
    """A JSON object, by nsys's long names."""
    example = f"""{source}='{{"trace": "cuda,nvtx,osrt"}}'"""
    try:
        given = decode(" ".join(text.splitlines()).encode())
    except RankdbgError:
        raise BadInput(
            f"invalid {source}: expected a JSON object", text[:72], hint=example
        ) from None
    options: dict[str, str] = {}
    for name, value in given.items():
        if not name or name[0] == "-" or not name.isprintable() or set(name) & set(" ='\""):
            raise BadInput(
                f"invalid {source}: expected the name of an option, not {name!r}", hint=example
            )
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif value is None:
            value = ""
        elif not isinstance(value, (str, int, float)):
            raise BadInput(
                f"invalid {source}: expected a single value for {name}, not {value!r}", hint=example
            )
        options[_LONG_NAMES.get(name, name)] = _without_quotes(str(value))
    return options


def _without_quotes(value: str) -> str:
    """Ray passes options to a shell unquoted, so users write them with quotes for Ray."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def expand(template: str, pid: int, host: str, environ: Mapping[str, str]) -> str:
    """Expand %p, %h, %q{VARIABLE} and %% in a file name as nsys does; `` for others, such as %n,
    which only nsys can expand."""
    made, rest = "", template
    while rest:
        before, percent, rest = rest.partition("%")
        made += before
        if not percent:
            break
        letter, rest = rest[:1], rest[1:]
        if letter == "q" and rest[:1] == "{" and "}" in rest:
            name, _, rest = rest[1:].partition("}")
            made += environ.get(name, "")
        elif letter in ("p", "h", "%"):
            made += {"p": str(pid), "h": host, "%": "%"}[letter]
        else:
            return ""
    return made if made.endswith(".nsys-rep") else f"{made}.nsys-rep"


# --- patterns ---------------------------------------------------------------------------------


def matches(name: str, pattern: str) -> bool:
    """fnmatch.fnmatchcase(), whose import would load a dozen modules into a rank."""
    places = {0}  # in the pattern, up to which it may match the name so far
    parts = _parts(pattern)
    for letter in [*name, None]:
        for place in sorted(places):
            while place < len(parts) and parts[place] == "*":
                place += 1
                places.add(place)
        if letter is None:
            break
        places = {
            place if parts[place] == "*" else place + 1
            for place in places
            if place < len(parts) and _takes(parts[place], letter)
        }
    return len(parts) in places


def _parts(pattern: str) -> list[str]:
    """Split a pattern: a letter as `=x`, a set as `[…`, and * and ? unchanged."""
    parts = []
    place = 0
    while place < len(pattern):
        letter = pattern[place]
        place += 1
        if letter == "[":
            start = place + (pattern[place : place + 1] == "!")
            end = pattern.find("]", start + 1)
            if end >= 0:
                parts.append("[" + pattern[place:end])
                place = end + 1
                continue
        parts.append(letter if letter in "*?" else "=" + letter)
    return parts


def _takes(part: str, letter: str) -> bool:
    if part in ("*", "?"):
        return True
    if part[0] == "=":
        return part[1:] == letter
    wanted = not part.startswith("[!")
    letters = part[1 if wanted else 2 :]
    while letters:
        if letters[1:2] == "-" and len(letters) > 2:
            if letters[0] <= letter <= letters[2]:
                return wanted
            letters = letters[3:]
        else:
            if letters[0] == letter:
                return wanted
            letters = letters[1:]
    return not wanted
