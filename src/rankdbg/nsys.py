"""Nsight Systems from the start of a job: which ranks, which steps, and the command line.

    RANKDBG_NSYS_WORKERS    '*policy*,vllm*': patterns of workers' names
    RANKDBG_NSYS_STEPS      '3:7': from step 3 on, until step 7 begins; 'later': when asked
    RANKDBG_NSYS_OPTIONS    '{"trace": "cuda,nvtx"}': options of `nsys profile`

NeMo RL's variables mean the same, and only both of its first two together mean something.
Pure functions from text to values. The agent uses them before the program has begun, so:
nothing but built-in types.
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
# Steps that never come: `rankdbg profile --kind nsys` will say when.
LATER = (0, 0)
# What nsys itself sets in everything that it starts.
UNDER_NSYS = "NSYS_PROFILING_SESSION_ID"

_DEFAULTS = {
    "trace": "cuda,nvtx",
    "sample": "none",
    "cuda-graph-trace": "node",
    "stop-on-exit": "true",
    "force-overwrite": "true",  # a process id comes again, a report that is not written never
}
_OF_STEPS = {"capture-range": "cudaProfilerApi", "capture-range-end": "stop"}
# nsys has two names for these, and the user's word must win whichever it uses.
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


class Wish:
    """What is to be profiled."""

    def __init__(
        self, patterns: Iterable[str], steps: Steps | None, options: Mapping[str, str]
    ) -> None:
        self.patterns = tuple(patterns)
        self.steps = steps
        self.options = dict(options)

    def pattern_of(self, names: Iterable[str]) -> tuple[str, str]:
        """The first of these names that fits, and the pattern that it fits; or two ``."""
        for name in names:
            for pattern in self.patterns:
                if fits(name, pattern):
                    return name, pattern
        return "", ""

    def range_text(self) -> str:
        if self.steps == LATER:
            return "later"
        return f"{self.steps[0]}:{self.steps[1]}" if self.steps else ""

    def report_name(self, worker: str) -> str:
        """Of a worker's report, without its ending; nsys puts the process id in place of %p."""
        worker = worker.replace("/", "_").replace("%", "%%")
        return "_".join(part for part in (worker, self.range_text(), "%p") if part)

    def profile_options(self, output: str) -> dict[str, str]:
        """By their long names. What the user says wins, and an empty text takes one away."""
        wanted = {**_DEFAULTS, **(_OF_STEPS if self.steps else {}), "output": output}
        wanted.update(self.options)
        return {name: value for name, value in wanted.items() if value}

    def command(self, program: str, output: str) -> list[str]:
        """What to put before the command of a rank."""
        words = [program, "profile"]
        for name, value in self.profile_options(output).items():
            words += [f"--{name}={value}"] if len(name) > 1 else [f"-{name}", value]
        return words


def read(environ: Mapping[str, str]) -> Wish | None:
    """None if nothing is to be profiled. Raises BadInput."""
    for workers, steps, options in (OURS, NEMO):
        patterns = parse_patterns(environ.get(workers, ""))
        given = {name: environ.get(name, "").strip() for name in (steps, options)}
        if not patterns and not given[steps]:
            continue
        if not patterns or (workers == NEMO[0] and not given[steps]):
            there, missing = (steps, workers) if not patterns else (workers, steps)
            example = "'*policy*'" if missing == workers else "3:7"
            raise BadInput(f"{there} is set and {missing} is not", hint=f"{missing}={example}")
        return Wish(
            patterns,
            parse_steps(given[steps], steps) if given[steps] else None,
            parse_options(given[options], options) if given[options] else {},
        )
    return None


def parse_patterns(text: str) -> list[str]:
    return [pattern.strip() for pattern in text.split(",") if pattern.strip()]


def parse_steps(text: str, source: str) -> Steps:
    """`3:7` as NeMo RL means it: one-based, from the first on and until the second begins.
    Or `later`."""
    if text.strip() == "later":
        return LATER
    words = [word.strip() for word in text.split(":")]
    if len(words) != 2:
        near = text.replace("-", ":")
        hint = f"{source}={near}" if near.count(":") == 1 else f"{source}=3:7"
        raise BadInput(f"{source}: {text!r} is not a range of steps such as 3:7", hint=hint)
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise BadInput(
                f"{source}: {word!r} in {text!r} is not a whole number", hint=f"{source}=3:7"
            )
    first, end = int(words[0]), int(words[1])
    if first < 1:
        raise BadInput(
            f"{source}: {text!r} begins with step {first}, and steps count from 1",
            hint=f"{source}=1:{max(end, 2)}",
        )
    if first >= end:
        hint = f"{source}={end}:{first}" if 0 < end < first else f"{source}={first}:{first + 1}"
        raise BadInput(
            f"{source}: {text!r} has no steps: it goes from {first} until {end} begins", hint=hint
        )
    return first, end


def parse_options(text: str, source: str) -> dict[str, str]:
    """A JSON object, by nsys's long names."""
    example = f"""{source}='{{"trace": "cuda,nvtx,osrt"}}'"""
    try:
        given = decode(" ".join(text.splitlines()).encode())
    except RankdbgError:
        raise BadInput(f"{source} is not a JSON object", text[:72], hint=example) from None
    options: dict[str, str] = {}
    for name, value in given.items():
        if not name or name[0] == "-" or not name.isprintable() or set(name) & set(" ='\""):
            raise BadInput(f"{source}: not the name of an option: {name!r}", hint=example)
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif value is None:
            value = ""
        elif not isinstance(value, (str, int, float)):
            raise BadInput(f"{source}: {name} has no single value: {value!r}", hint=example)
        options[_LONG_NAMES.get(name, name)] = _without_quotes(str(value))
    return options


def _without_quotes(value: str) -> str:
    """Ray hands options to a shell as they are, so that for Ray they are written with quotes."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def expand(template: str, pid: int, host: str, environ: Mapping[str, str]) -> str:
    """The name that nsys makes of one with %p, %h, %q{VARIABLE} and %%; `` if that cannot be
    known, as with %n."""
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


def fits(name: str, pattern: str) -> bool:
    """fnmatch.fnmatchcase(), whose import would bring a dozen modules into a rank."""
    places = {0}  # in the pattern, which the name so far may have led to
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
    """A letter as `=x`, a set as `[…`, and * and ? as they are."""
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
