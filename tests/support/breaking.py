"""Jobs of programs/breaks.py, in each Python that is here, and a client that stays with them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from jobs import PROGRAMS, Job
from rankdbg.session import Session
from rankdbg.types import Answer, Rank, Silence
from waiting import PATIENCE, wait_for

PROGRAM = PROGRAMS / "breaks.py"
OTHERS = {
    path.parts[-3].rpartition(".")[0]: path
    for path in sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[0-9].*/bin/python"))
}
HERE = f"3.{sys.version_info.minor}"
PYTHONS = {**OTHERS, HERE: Path(sys.executable)}


def line_of(comment: str, program: Path = PROGRAM) -> int:
    """The line of the program that ends with this comment."""
    lines = program.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


def place(comment: str) -> str:
    return f"breaks.py:{line_of(comment)}"


class Running:
    """One job, and one session with it: a question takes milliseconds."""

    def __init__(self, job: Job, version: str = HERE) -> None:
        self.job = job
        self.python = PYTHONS[version]
        self.monitors = int(version.partition(".")[2]) >= 12
        self.ranks: list[Rank] = []
        self._open = ExitStack()
        self.session: Session = self._open.enter_context(job.session())

    def close(self) -> None:
        self._open.close()

    def begin(self, *behaviours: str, everything: int = 0, **settings: Any) -> Any:
        """Start ranks, and wait until each is in the function of its behaviour, or in one that
        it calls. `everything`: so many processes, children of ranks among them."""
        if len(behaviours) == 1:
            settings["env"] = {"RANK": "0", "WORLD_SIZE": "1", **settings.get("env", {})}
            process = self.job.start(self.python, PROGRAM, *behaviours, **settings)
        else:
            words = (PROGRAMS / "launch.py", len(behaviours), PROGRAM, *behaviours)
            process = self.job.start(self.python, *words, **settings)
        self.wait_for_ranks(everything or len(behaviours), bool(everything))
        return process

    def wait_for_ranks(
        self,
        count: int,
        everything: bool = False,
        program: Path = PROGRAM,
        patience: float = PATIENCE,
    ) -> None:
        def is_there(rank: Rank) -> bool:
            # From its agent: one that is just starting is seen from outside.
            where = rank.where if rank.agent else None
            return bool(where and where.file == str(program) and where.function != "<module>")

        def arrived() -> bool:
            processes = self.session.roster().jobs(everything).get(self.job.name, [])
            self.ranks = sorted(filter(is_there, processes), key=lambda r: (r.number or 0, r.pid))
            return len(self.ranks) == count

        wait_for(arrived, lambda: f"{count} ranks are there; last: {self.ranks}", patience)

    # --- questions; a rank that does not answer is a failure ------------------------------

    def set(self, comment: str, condition: str = "", log: str = "", ranks: Any = None) -> Any:
        """A break at the line with this comment: what the first rank says."""
        return self.set_at("breaks.py", line_of(comment), condition, log, ranks=ranks)

    def set_at(self, file: str, line: int, *more: str, ranks: Any = None) -> Any:
        return values(self.session.set_break(ranks or self.ranks, file, line, *more))[0]

    def clear(self, comment: str = "") -> Any:
        where = ("breaks.py", line_of(comment)) if comment else ()
        return [
            list(each) for each in values(self.session.clear_breaks(self.ranks, *where))[0].cleared
        ]

    def breaks(self) -> list[Any]:
        return list(values(self.session.breaks(self.ranks))[0].breaks)

    def pause(self, cancel: bool = False) -> list[Any]:
        return values(self.session.pause(self.ranks, cancel))

    def go_on(self) -> list[str]:
        """`continue` to all: their states afterwards."""
        return [value.state for value in self.command("continue")]

    def command(self, line: str, *ranks: Rank) -> list[Any]:
        return values(self.session.command(ranks or self.ranks, f"{line}\n"))

    def output(self, line: str, *ranks: Rank) -> str:
        """What the first of them printed."""
        return self.command(line, *ranks)[0].output

    def stops(self) -> list[tuple[Rank, Any]]:
        """Those that wait for a command."""
        answers = self.session.stops(self.ranks)
        return [
            (answer.rank, stop)
            for answer, value in zip(answers, values(answers), strict=True)
            for stop in value.stops
            if stop.state == "stopped"
        ]

    def wait(self, count: int) -> list[Any]:
        """The stops, as soon as there are so many."""
        found: list[Any] = []

        def arrived() -> bool:
            found[:] = self.stops()
            return len(found) == count

        wait_for(arrived, lambda: values(self.session.stops(self.ranks)))
        return [stop for _, stop in found]

    def wait_for_none(self) -> None:
        """Nobody is in the debugger, not even on the way there."""

        def gone() -> bool:
            return not any(value.stops for value in values(self.session.stops(self.ranks)))

        wait_for(gone, self.stops)

    def value(self, expression: str) -> str:
        return values(self.session.evaluate(self.ranks[:1], expression))[0].text

    def wait_value(self, expression: str, wanted: str) -> None:
        wait_for(lambda: self.value(expression) == wanted, lambda: self.value(expression))

    def wait_untouched(self) -> None:
        """The program has no trace function, and nobody uses sys.monitoring."""
        self.wait_value("tracer", "None")
        if self.monitors:
            tools = "[sys.monitoring.get_tool(i) for i in range(6)]"
            self.wait_value(tools, str([None] * 6))


def values(answers: list[Answer | Silence]) -> list[Any]:
    found = []
    for answer in answers:
        assert isinstance(answer, Answer), answer
        found.append(answer.value)
    return found
