"""One `srun` for many nodes: its stdin reaches every node process, its stdout comes labelled.

Every message names its recipient (`to`), and all nodes receive it: large content for many nodes
is sent once, and messages for many nodes are combined into one compressed line. Answers are short
lines, since srun cuts labelled lines at 1,024 bytes; each begins with the number of its task:
`3: {"id": ...`. The first line of a task names its node.

A node on which srun cannot start anything blocks all: srun forwards no stdin, and after 10 to 20
seconds gives up and ends the tasks of the other nodes too (measured, Slurm 22.05). So the nodes
that have responded are then started again, without it.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rankdbg import wire
from rankdbg.clusters import Options
from rankdbg.clusters.slurm.slurm_jobs import OWN_STEPS, environment
from rankdbg.clusters.transport import carrier
from rankdbg.clusters.transport.channel import (
    CONNECT_SECONDS,
    AskedQuestion,
    Conversation,
    last_lines,
)
from rankdbg.clusters.transport.launched import Launched
from rankdbg.clusters.transport.sending import first_words, landing_opening, shell_line
from rankdbg.errors import NodeFailed, RankdbgError

# The step takes no resources of the job, and survives the loss of a node and the end of a task,
# whatever the site's settings are.
_OPTIONS = (
    *("--overlap", "--mpi=none", "--label", "--input=all", "--output=all", "--error=all"),
    *("--no-kill", "--wait=0", "--kill-on-bad-exit=0"),
    *("--ntasks-per-node=1", "--chdir=/", f"--job-name={OWN_STEPS}"),
)
# srun ends the whole step when its connection to one node's slurmstepd is reset, whatever the
# options say, but not if there is this variable, which it sets for `srun --pty` (its
# step_launch_notify_io_failure(), from 17.02 to 25.05).
_OUTLIVES_NODES = {"SLURM_PTY_PORT": "0"}
# Signals that Slurm sends to all steps are meant for the program: when the job is cancelled or
# reaches its time limit, evidence can still be collected in the seconds that follow.
_OUTLIVED = "HUP INT QUIT USR1 USR2 ALRM TERM XCPU"
# Bytes in a line of a node, so that it fits together with its label.
LONGEST_LINE = 900
# srun never frees data for a lost node, and when it holds 2,048 portions (its step_io.c), it
# accepts no more for any node. Before that, a new srun replaces it.
_PORTION, _MOST_PORTIONS = 1024, 1000
# No further node is expected this long after the last one has responded.
STALLED_SECONDS = 2.0

_LABELLED = re.compile(rb" *([0-9]+): ?(.*)", re.DOTALL)
_ABOUT_NODE = re.compile(r"failed on node (\S+?): (.*)|srun: error: ([^\s:,\[]+): (task .*)")
_COMPLAINTS = 50

Launch = Callable[[Sequence[str]], list[str]]  # the nodes -> the command


def srun_command(job: str, nodes: Sequence[str], options: Sequence[str], python: str) -> list[str]:
    # The shell stays, to report the end of the node process: srun does not report status 0.
    ended = '{\\"ended\\": $?}'
    name = "$SLURMD_NODENAME"
    line = f'trap "" {_OUTLIVED}; echo "{name}"; ({shell_line(python, name)}); echo "{ended}"'
    count = (f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", f"--nodelist={','.join(nodes)}")
    return ["srun", f"--jobid={job}", *count, *_OPTIONS, *options, "sh", "-c", line]


class NodeChannel:
    """The connection to one node, through the step that reaches it."""

    def __init__(self, node: str, scope: dict[str, Any], options: Options) -> None:
        self.node = node
        self.asked = False
        self.begun = False  # an answer has come
        self.step: Step | None = None
        scope = {**scope, "line": LONGEST_LINE}
        opening = landing_opening(node, scope)
        connect_seconds = options.tolerance(CONNECT_SECONDS)
        self.conversation = Conversation(node, self._send, opening, connect_seconds)

    @property
    def failure(self) -> RankdbgError | None:
        return self.conversation.failure

    @property
    def usable(self) -> bool:
        worn_out = self.step is not None and self.step.worn_out and not self.conversation.busy
        return self.conversation.usable and not worn_out

    def begin(self, message: wire.Message) -> AskedQuestion:
        self.asked = True
        return self.conversation.begin(message)

    def feed(self, line: bytes) -> None:
        self.begun = True
        self.conversation.feed(line)

    def hang_up(self) -> None:
        if self.step is not None:
            self.step.leave(self)

    def close(self, deadline: float) -> None:
        self.hang_up()
        if self.step is not None:
            self.step.close(deadline)

    def last_lines(self) -> list[str]:
        return last_lines(self.conversation.noise)

    def fail(self, what: str) -> None:
        self.conversation.fail(NodeFailed(what))

    def _send(self, message: wire.Message) -> None:
        if self.step is not None:  # the step itself sends the first message
            self.step.send(self.node, message)


class Step:
    """One srun, and the connections that use it.

    `launch` makes the command for some nodes; `why_ended` says why the job has ended.
    """

    def __init__(
        self,
        channels: Iterable[NodeChannel],
        launch: Launch,
        why_ended: Callable[[], str],
        options: Options,
    ) -> None:
        self._channels = {channel.node: channel for channel in channels}
        self._launch = launch
        self._why_ended = why_ended
        self._options = options
        self._left: set[str] = set()
        self._nodes: dict[int, str] = {}  # by the number of the task
        self._parts: dict[int, wire.Continued] = {}
        self._offered: set[str] = set()
        self._together: deque[wire.Message] = deque()  # for single nodes, to be sent in one line
        self._gathers = False
        self._in_vain = 0  # portions sent since a node was lost
        self._complaints: list[str] = []
        self._lost: dict[str, str] = {}  # lost nodes, and why
        self._lines, self._complaint_lines = wire.Lines(), wire.Lines()
        self._news = threading.Condition()
        self.ended = self._over = False
        settings = {**environment(), **_OUTLIVES_NODES}
        self._process = Launched(launch(list(self._channels)), settings)
        for channel in self._channels.values():
            channel.step = self
        self._say(first_words())
        carrier.shared().on_rounds(self._keep_alive)
        self._process.listen(self._hear, self._hear_complaint)
        threading.Thread(target=self._watch_launch, name="rankdbg launch", daemon=True).start()

    # --- to the nodes -----------------------------------------------------------------------

    def send(self, node: str, message: wire.Message) -> None:
        files = message.get("files")
        if files:
            # Megabytes, and the same for all: sent once for all nodes.
            for name, content in files.items():
                if content is not None and name not in self._offered:
                    self._offered.add(name)
                    self._say({"offer": name, "files": content})
            message = {**message, "files": dict.fromkeys(files)}
        self._together.append({"to": node, **message})
        if not self._gathers:
            self._gathers = True
            carrier.shared().soon(self._say_together)

    def _say_together(self, before: int = 0) -> None:
        """Once no more messages are added: a thousand nodes are asked one after the other."""
        if (gathered := len(self._together)) > before:
            carrier.shared().soon(lambda: self._say_together(gathered))
            return
        self._gathers = False
        messages = []
        while self._together:
            messages.append(self._together.popleft())
        for line in wire.bundled(messages):
            self._pass_on(line)

    def _say(self, message: wire.Message) -> None:
        self._pass_on(wire.encode(message))

    def _pass_on(self, line: bytes) -> None:
        if not all(channel.conversation.usable for channel in self._carried()):
            self._in_vain += 1 + len(line) // _PORTION
        self._process.send(line)

    @property
    def worn_out(self) -> bool:
        return self._in_vain > _MOST_PORTIONS

    @property
    def is_over(self) -> bool:
        return self.ended or self.worn_out

    def _keep_alive(self) -> bool:
        self._say({"alive": True})
        return not self.ended

    def leave(self, channel: NodeChannel) -> None:
        """After the last channel has left, the node processes and srun end."""
        self._left.add(channel.node)
        if self._is_left():
            self._process.hang_up()

    def close(self, deadline: float) -> None:
        """Wait for srun, unless other channels still use it."""
        if self._is_left():
            self._process.wait_or_kill(deadline)

    def _is_left(self) -> bool:
        return all(
            channel.node in self._left
            for channel in self._carried()
            if channel.asked and channel.conversation.usable
        )

    # --- from the nodes -----------------------------------------------------------------------

    def _hear(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            labelled = _LABELLED.fullmatch(line)
            if labelled:
                self._hear_task(int(labelled[1]), labelled[2])
        if not data:
            self._over = True
            self._process.reap(0.5, self._look_at_job)

    def _hear_task(self, task: int, line: bytes) -> None:
        if task not in self._nodes:
            node = line.decode(errors="replace").strip()
            if node in self._channels:  # otherwise it is output of the site's scripts
                with self._news:
                    self._nodes[task] = node
                    self._parts[task] = wire.Continued()
                    self._news.notify_all()
            return
        channel = self._channels[self._nodes[task]]
        if channel.step is not self:
            return  # it was started again by another srun
        try:
            for whole in self._parts[task].feed(line):
                if whole.startswith(b'{"ended": '):
                    status = wire.decode(whole)["ended"]
                    self._lose(channel.node, f"the node process ended (status {status})")
                else:
                    channel.feed(whole)
        except RankdbgError as error:
            channel.fail(f"{channel.node}: {error}")

    def _hear_complaint(self, data: bytes) -> None:
        for raw in self._complaint_lines.feed(data):
            labelled = _LABELLED.fullmatch(raw)
            channel = (
                self._channels.get(self._nodes.get(int(labelled[1]), "")) if labelled else None
            )
            if labelled and channel is not None:
                channel.conversation.noise += labelled[2] + b"\n"
                continue
            line = raw.decode(errors="replace").strip()
            self._complaints = [*self._complaints, line][-_COMPLAINTS:]
            about = _ABOUT_NODE.search(line)
            if about:
                self._lose(about[1] or about[3], f"srun: {about[2] or about[4]}")

    # --- failures -----------------------------------------------------------------------------

    def _lose(self, node: str, why: str) -> None:
        """Note a lost node; it may be the first of many, if the job is ending."""
        self._lost.setdefault(node, why)
        if len(self._lost) == 1:
            self._process.reap(1.0, self._look_at_job)

    def _watch_launch(self) -> None:
        heard = 0
        while not self.ended and heard < len(self._channels):
            seconds = self._options.tolerance(STALLED_SECONDS if heard else CONNECT_SECONDS)
            if not self._wait_for_more_than(heard, seconds):
                if heard:
                    carrier.shared().soon(self._start_again)
                return
            heard = len(self._nodes)

    def _wait_for_more_than(self, heard: int, seconds: float) -> bool:
        with self._news:
            return self._news.wait_for(lambda: self.ended or len(self._nodes) > heard, seconds)

    def _start_again(self) -> None:
        """Start the nodes that have responded with a new srun; this one keeps trying the others,
        and reports in the end why they fail."""
        heard = set(self._nodes.values())
        self._move([channel for channel in self._waiting() if channel.node in heard])
        for channel in self._waiting():
            channel.conversation.noise += b"srun has started nothing on this node"

    def _carried(self) -> list[NodeChannel]:
        return [channel for channel in self._channels.values() if channel.step is self]

    def _waiting(self) -> list[NodeChannel]:
        return [channel for channel in self._carried() if channel.usable and not channel.begun]

    def _move(self, channels: list[NodeChannel]) -> None:
        if channels:
            try:
                Step(channels, self._launch, self._why_ended, self._options)
            except NodeFailed as error:
                for channel in channels:
                    channel.fail(error.what)

    def _look_at_job(self, status: int | None) -> None:
        """Find out why a node was lost, whether srun has ended or not."""
        of_job = self._why_ended()
        carrier.shared().soon(lambda: self._fail_lost(of_job))

    def _fail_lost(self, of_job: str) -> None:
        """Fail the lost nodes. Nodes that other nodes have blocked are tried again."""
        lost, self._lost = self._lost, {}
        for channel in self._carried():
            if channel.node in lost:
                its = channel.last_lines() if channel.node in self._nodes.values() else []
                why = of_job or ": ".join([lost[channel.node], *its])
                channel.fail(f"{channel.node}: {why}")
        if not self._over:
            return
        with self._news:
            self.ended = True
            self._news.notify_all()
        again = self._waiting() if len(self._waiting()) < len(self._carried()) else []
        self._move(again)
        for channel in self._carried():
            channel.fail(f"{channel.node}: {of_job or _cause(self._complaints)}")


def _cause(complaints: Sequence[str]) -> str:
    """The first error of srun; later ones are consequences."""
    return next((line for line in complaints if line.startswith("srun: ")), "srun has ended")
