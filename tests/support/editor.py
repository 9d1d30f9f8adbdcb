"""An editor for tests: one attach to `rankdbg dap`, a session for each rank that is offered, and
its breakpoints set in all of them, as VS Code and Neovim do."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dap_client import DapClient
from jobs import PROGRAMS, Job, command
from waiting import PATIENCE, wait_for

LOOP = PROGRAMS / "dap_loop.py"
TORCH = PROGRAMS / "dap_torch.py"

# Where no directory of the test's own keeps one.
TOKEN = {"RANKDBG_DAP_TOKEN": "of a test"}

INITIALIZE = {
    "clientID": "test",
    "adapterID": "debugpy",
    "linesStartAt1": True,
    "columnsStartAt1": True,
    "pathFormat": "path",
    "supportsStartDebuggingRequest": True,
    "supportsVariableType": True,
}


def line_of(program: Path, mark: str) -> int:
    lines = program.read_text().splitlines()
    return next(number for number, text in enumerate(lines, 1) if f"# {mark}" in text)


def start_torch(job: Job, count: int, *torchrun: object) -> Path:
    """Ranks that wait for the file that is returned."""
    gate = job.directory.parent / "gate"
    start = job.start if torchrun else job.start_torch
    start(*torchrun, count, TORCH, env={"GATE": str(gate)})
    standing = ["train"] * count
    job.wait_for(
        lambda ranks: [rank.where.function for rank in ranks if rank.where] == standing,
    )
    return gate


class DapServer:
    """`rankdbg dap`, as a user starts it."""

    def __init__(
        self,
        job: Job | Mapping[str, str],
        *words: object,
        inside: tuple[str, ...] = (),
        limit: str = "",
        **settings: Any,
    ) -> None:
        """For a job, or in an environment in which the words find one; `inside` what a command
        before it makes of the machine; `limit` as of jobs.command."""
        options = [] if "--socket" in words else ["--port", "0"]
        options += ["--job", job.name] if isinstance(job, Job) else []
        environment = job.environment if isinstance(job, Job) else {**TOKEN, **job}
        self.process = subprocess.Popen(
            [*inside, *command("dap", *options, *words, limit=limit)],
            env={**environment, **settings.pop("env", {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **settings,
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.said = self.process.stdout.readline()
        found = re.match(r"rankdbg dap: listening on (?:127\.0\.0\.1:(\d+)|(\S+)) \(", self.said)
        assert found, self.process.stderr.read()
        self.port = int(found[1] or 0)
        self.address: int | str = found[2] or self.port
        self.configuration: dict[str, Any] = {}
        if self.port:
            needed = self.process.stdout.readline().removeprefix("editors need: ")
            self.configuration = json.loads(f"{{{needed}}}")

    def __enter__(self) -> DapServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)


class Editor:
    def __init__(self, server: DapServer | int, **settings: Any) -> None:
        """`settings` go into the attach, as from a configuration; with what the server says that
        must be there, unless they have their own."""
        self.address = server.address if isinstance(server, DapServer) else server
        if isinstance(server, DapServer):
            settings = {**server.configuration, **settings}
        self.breakpoints: dict[str, list[dict[str, Any]]] = {}
        self.filters: list[str] = []
        self.sessions: dict[str, DapClient] = {}
        self.refusals: dict[str, str] = {}
        self.offered: dict[str, dict[str, Any]] = {}  # the configurations of sessions, by name
        self._settings = settings
        self._patience = PATIENCE  # for a debugger to be loaded
        self.parent = DapClient.connect(self.address)
        self.parent.ask("initialize", **INITIALIZE)

    def break_at(self, file: Path | str, *lines: int | dict[str, Any]) -> None:
        """In the sessions that are open, and in those to come."""
        self.breakpoints[str(file)] = [
            line if isinstance(line, dict) else {"line": line} for line in lines
        ]
        for session in self.living().values():
            self._set_breakpoints(session, str(file))

    def attach(self) -> None:
        given = {"name": "rankdbg", "type": "debugpy", "request": "attach", **self._settings}
        attach = self.parent.request("attach", **given)
        self.parent.event("initialized")
        for file in self.breakpoints:
            self._set_breakpoints(self.parent, file)
        self.parent.ask("configurationDone")
        assert self.parent.response(attach)["success"]
        threading.Thread(target=self._open_what_is_offered, daemon=True).start()

    def attach_all(self, count: int, patience: float = PATIENCE) -> dict[int, DapClient]:
        """Attach, and wait for so many sessions, and until their breakpoints have taken effect; by
        rank."""
        self._patience = patience
        self.attach()
        sessions = self.wait_for(count, patience)
        wanted = sum(map(len, self.breakpoints.values()))
        for session in sessions.values():
            wait_for(
                lambda session=session: len(session.seen("breakpoint")) >= wanted,  # type: ignore[misc]
                lambda session=session: session.messages,  # type: ignore[misc]
                patience,
            )
        return sessions

    def wait_for(self, count: int, patience: float = PATIENCE) -> dict[int, DapClient]:
        wait_for(
            lambda: len(self.living()) == count,
            lambda: f"{count} sessions; there are {list(self.sessions)}, {self.refusals}",
            patience,
        )
        return self.living()

    def living(self) -> dict[int, DapClient]:
        ranks = {}
        for name, session in list(self.sessions.items()):
            number = re.match(r"(?!pid )\w+ (\d+) ·", name)
            if number and not session.closed:
                ranks[int(number[1])] = session
        return dict(sorted(ranks.items()))

    def say(self, line: str) -> str:
        """In the parent's debug console."""
        return str(self.parent.ask("evaluate", expression=line, context="repl")["result"])

    def leave(self) -> None:
        self.parent.ask("disconnect", restart=False, terminateDebuggee=True)
        self.close()

    def close(self) -> None:
        """Without a word, as an editor that is killed."""
        for client in [self.parent, *self.sessions.values()]:
            client.close()

    def _open_what_is_offered(self) -> None:
        while True:
            try:
                request = self.parent.wait(
                    lambda m: m.get("command") == "startDebugging" and m["type"] == "request", 3600
                )
            except AssertionError:
                return  # it has closed
            answer = {"type": "response", "request_seq": request["seq"], "success": True}
            self.parent.send({**answer, "command": "startDebugging"})
            configuration = request["arguments"]["configuration"]
            self.offered[configuration["name"]] = configuration
            threading.Thread(target=self.open, args=(configuration,), daemon=True).start()

    def about_to_configure(self, name: str) -> None:
        """A session has its breakpoints, and is about to say that this is all."""

    def open(self, configuration: dict[str, Any]) -> None:
        connect = configuration.get("connect")
        session = DapClient.connect(connect["port"] if connect else self.address)
        session.ask("initialize", **INITIALIZE)
        attach = session.request("attach", **configuration)
        begun = session.wait(
            lambda m: m.get("event") == "initialized" or m.get("request_seq") == attach,
            self._patience,
        )
        if begun.get("success") is False:
            self.refusals[configuration["name"]] = begun["message"]
            session.close()
            return
        for file in self.breakpoints:
            self._set_breakpoints(session, file)
        session.ask("setExceptionBreakpoints", filters=self.filters)
        self.about_to_configure(configuration["name"])
        session.ask("configurationDone")
        if begun.get("event"):
            assert session.response(attach)["success"]
        self.sessions[configuration["name"]] = session

    def _set_breakpoints(self, session: DapClient, file: str) -> None:
        source = {"path": file, "name": Path(file).name}
        session.ask("setBreakpoints", source=source, breakpoints=self.breakpoints[file])


def frames(session: DapClient, thread: int) -> list[tuple[str, int]]:
    """Where a stopped thread is: functions and lines, innermost first."""
    stack = session.ask("stackTrace", threadId=thread)["stackFrames"]
    return [(frame["name"], frame["line"]) for frame in stack]


def evaluate(session: DapClient, thread: int, expression: str) -> str:
    """In the innermost frame of a stopped thread."""
    (frame, *_) = session.ask("stackTrace", threadId=thread)["stackFrames"]
    answer = session.ask("evaluate", expression=expression, frameId=frame["id"], context="watch")
    return str(answer["result"])


def variables(session: DapClient, thread: int) -> dict[str, str]:
    """The local ones of the innermost frame."""
    (frame, *_) = session.ask("stackTrace", threadId=thread)["stackFrames"]
    scopes = session.ask("scopes", frameId=frame["id"])["scopes"]
    reference = scopes[0]["variablesReference"]
    found = session.ask("variables", variablesReference=reference)["variables"]
    return {variable["name"]: variable["value"] for variable in found}
