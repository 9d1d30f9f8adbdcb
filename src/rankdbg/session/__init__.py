"""One investigation: a cluster, its roster, questions to its ranks, and what to save.

connections.py reaches nodes, asking.py asks them and decodes; here is what can be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from rankdbg.errors import NodeFailed, RankdbgError
from rankdbg.logs.patterns import Pattern
from rankdbg.logs.places import FoundLogs, LogFile, merged
from rankdbg.session.replicas import AskingForReplicas
from rankdbg.session.roster import Roster as Roster
from rankdbg.session.roster import check_job as check_job
from rankdbg.session.roster import known_as as known_as
from rankdbg.session.samples import child_process, read_samples
from rankdbg.session.saving import for_snapshot
from rankdbg.types import Answer, Frame, ProcessKey, Rank, Reply, Silence
from rankdbg.types import Sampled as Sampled
from rankdbg.wire import answers, nan_answers, node_answers, node_questions, questions
from rankdbg.wire.decoding import BadField, decode
from rankdbg.wire.ray_tables import RAY_TABLES, Raylet, RayTables

# How stacks are read, and the seconds for a sample of eight ranks in addition to --timeout.
PLUGIN_SECONDS = 20.0  # of a probe that another package adds
ENGINES = {"agent": 0.0, "py-spy": 0.0, "native": 10.0, "gdb": 60.0, "cuda": 60.0}


# Of the history of each rank, in a snapshot.
_SAVED_EVENTS = 2000


class Session(AskingForReplicas):
    """Use it in a with statement or close it: it has a process on every node."""

    # --- nodes ------------------------------------------------------------------------

    def check(self) -> dict[str, node_answers.CheckResult | RankdbgError]:
        """What works on each node, or why it cannot be reached."""
        return self.ask_nodes(node_questions.CheckNode())

    def gpus(self) -> dict[str, node_answers.GpuFigures | RankdbgError]:
        """The GPUs of each node from NVML."""
        return self.ask_nodes(node_questions.ReadGpus())

    def histories(
        self,
        job: str,
        ranks: Iterable[Rank] = (),
        steps: tuple[int, int] | None = None,
        last: int = 0,
        folder: str = "",
    ) -> dict[str, node_answers.Histories | RankdbgError]:
        """What the ranks of a job did, also those that have died: hashes of all steps, and the events
        of some."""
        known = [(rank.pid, rank.process.start) for rank in ranks]
        return self.ask_nodes(
            node_questions.ReadHistories(
                job=job, ranks=known, steps=steps, last=last, folder=folder
            )
        )

    def change_history(
        self, ranks: Sequence[Rank], trace: str = "", modules: int | None = None
    ) -> list[Reply[answers.HistoryChanged]]:
        return self.ask(questions.ChangeHistory(trace=trace, modules=modules), ranks)

    def nan(
        self, ranks: Sequence[Rank], timeout: float = 30.0
    ) -> list[Reply[nan_answers.NanReport]]:
        """Which tensors of each have nan or inf now, and the first one that its hooks have found."""
        return self.ask(questions.ReadNan(timeout=timeout), ranks)

    def arm_nan(
        self, ranks: Sequence[Rank], on: bool = True, exact: bool = False
    ) -> list[Reply[nan_answers.NanArmed]]:
        """Stop each at its first value that is not finite; or no more."""
        return self.ask(questions.ArmNan(on=on, exact=exact), ranks)

    def health(
        self,
        patterns: Sequence[Pattern],
        within: float,
        places: Sequence[str] = (),
        ranks: Iterable[Rank] | None = None,
    ) -> dict[str, node_answers.NodeFigures | RankdbgError]:
        """The health of each node for these ranks (None: for all that there are), with kernel
        messages of the last `within` seconds that match patterns."""
        question = node_questions.ReadHealth(
            patterns=[pattern.as_json() for pattern in patterns],
            within=within,
            places=[*places],
            ranks=None if ranks is None else [(rank.pid, rank.process.start) for rank in ranks],
        )
        return self.ask_nodes(question)

    def find_logs(
        self,
        paths: Sequence[str] = (),
        ended: bool = False,
        job: str | None = None,
        left: bool = False,
    ) -> FoundLogs:
        """The log files of every node, each once: those of the jobs there, or these `paths`.
        `ended`: if no Ray is running, the logs of its last cluster. `left`: also those that jobs
        have left of which no process runs."""
        slurm = self.cluster.slurm_logs()
        question = node_questions.FindLogs(
            paths=[*paths], ended=ended, job=job, slurm=slurm, left=left
        )
        found = FoundLogs()
        for node, answer in self.ask_nodes(question).items():
            if isinstance(answer, RankdbgError):
                found.silent_nodes[node] = answer.in_one_line()
                continue
            try:
                files = [decode(LogFile, {**entry, "node": node}) for entry in answer.files]
                found.clocks[node] = datetime.fromisoformat(answer.clock).timestamp()
            except ValueError as error:
                found.silent_nodes[node] = f"invalid answer about its logs: {error}"
                continue
            found.files += files
            found.notes += [f"{node}: {note}" for note in answer.notes]
        found.files = merged(found.files)
        return found

    # --- stacks -----------------------------------------------------------------------

    def stacks(
        self,
        ranks: Sequence[Rank],
        *,
        threads: str = "main",
        samples: int = 1,
        interval: float = 0.25,
        outside: bool = False,
        engine: str = "agent",
        with_locals: bool = False,
        tasks: bool = False,
    ) -> tuple[list[Sampled], list[Silence]]:
        """`engine`: one of ENGINES. All but `agent` read from outside; processes that must not be
        stopped by the engine are read with py-spy instead.
        `outside` is short for `py-spy`. `tasks`: those of asyncio too, by agents."""
        if outside and engine == "agent":
            engine = "py-spy"
        question = node_questions.SampleStacks(
            threads=threads,
            samples=samples,
            interval=interval,
            outside=engine != "agent",
            engine=engine,
            locals=with_locals,
            tasks=tasks,
        )
        extra = (interval + ENGINES.get(engine, PLUGIN_SECONDS) * (1 + len(ranks) / 8)) * samples
        seen: dict[ProcessKey, Sampled] = {}
        silent: dict[ProcessKey, str] = {}
        failed: dict[str, str] = {}  # nodes, and why
        known: dict[Frame, Frame] = {}
        by_key = {rank.process: rank for rank in ranks}
        for node, answer in self._ask_about(question, ranks, extra):
            if isinstance(answer, RankdbgError):
                failed[node] = answer.what
                continue
            seen.update(read_samples(node, answer, by_key, question, known))
            silent.update({ProcessKey(node, *each.process): each.reason for each in answer.silent})
        silent.update({rank.process: why for rank, why in self._lost_of(ranks)})
        missing = [rank for rank in ranks if rank.process not in seen]
        reasons = [
            silent.get(rank.process) or failed.get(rank.host, "not sampled") for rank in missing
        ]
        return (
            [seen[rank.process] for rank in ranks if rank.process in seen],
            [*map(Silence, missing, reasons)],
        )

    def vitals(self, ranks: Sequence[Rank]) -> list[Reply[answers.Vitals]]:
        """Kernel information about each: state, waits, counters, children."""
        return self.ask(node_questions.ReadVitals(), ranks)

    def wait_owners(
        self,
        ranks: Sequence[Rank],
        connections: Sequence[tuple[str, str]] = (),
        threads: Sequence[tuple[int, int]] = (),
    ) -> list[Reply[node_answers.WaitOwners]]:
        """Who owes what each waits for, or these of its threads; which of these connections it has."""
        question = node_questions.FindOwners(connections=tuple(connections), threads=tuple(threads))
        return self.ask(question, ranks)

    def addresses(self, ranks: Sequence[Rank]) -> list[Reply[node_answers.Addresses]]:
        """Where each listens, and on which connections it gets no answer."""
        return self.ask(node_questions.ReadAddresses(), ranks)

    def nccl_states(self, ranks: Sequence[Rank]) -> list[Reply[node_answers.NcclState]]:
        """What NCCL itself knows, from the one of these on each node that answers for all."""
        return self.ask(node_questions.ReadNcclState(), ranks)

    def thread_waits(
        self, ranks: Sequence[Rank], outside: bool = False
    ) -> list[Reply[answers.ThreadWaits]]:
        """What the threads of each wait for among themselves; `outside`: without its agent."""
        if outside:
            return self.ask(node_questions.FindThreadOwners(), ranks)
        return self.ask(questions.ReadThreadWaits(), ranks)

    def children(self, ranks: Sequence[Rank]) -> list[tuple[Rank, Rank]]:
        """The processes below each rank, but for multiprocessing's own: a process and its rank."""
        return [
            (child_process(child, answer.rank), answer.rank)
            for answer in self.vitals(ranks)
            if isinstance(answer, Answer)
            for child in answer.value.workers
            if child.start  # an older node does not tell what a process is known by
        ]

    # --- Ray --------------------------------------------------------------------------

    def ray_tables(self, ranks: Sequence[Rank]) -> RayTables | None:
        """What Ray knows about the job of these ranks; None if it is none of Ray's, or Ray cannot
        be asked."""
        ids = {rank.names["ray_job"] for rank in ranks if "ray_job" in rank.names}
        if len(ids) != 1:
            return None
        answer = self.cluster.ray_tables(ids.pop().removeprefix("ray-"))
        if answer is None:
            return None
        self._asked.setdefault(ranks[0].host, []).append(({"ask": RAY_TABLES}, answer))
        try:
            return decode(RayTables, answer)
        except BadField as error:
            raise NodeFailed(f"invalid answer of Ray about its tasks: {error}") from None

    def raylets(self) -> dict[str, Raylet]:
        """Those of the nodes that answer, by the id of their node."""
        found = self.ask_nodes(node_questions.ReadRaylets()).values()
        told = [each for each in found if not isinstance(each, RankdbgError)]
        return {raylet.node: raylet for each in told for raylet in each.raylets}

    def ray_waits(self, ranks: Sequence[Rank]) -> list[Reply[answers.RayWaits]]:
        """The objects that each waits for in ray.get() or ray.wait()."""
        return self.ask(questions.ReadRayWaits(), ranks)

    # --- values and sources -----------------------------------------------------------

    def evaluate(
        self,
        ranks: Sequence[Rank],
        expression: str,
        frame: int | str | None = None,
        thread: str | None = None,
    ) -> list[Reply[answers.Described]]:
        question = questions.Evaluate(expression=expression, frame=frame, thread=thread)
        return self.ask(question, ranks)

    def collectives(self, ranks: Sequence[Rank]) -> list[Reply[answers.Recorders]]:
        """The flight recorder dumps of each rank."""
        return self.ask(questions.ReadCollectives(), ranks)

    def source_digests(self, ranks: Sequence[Rank], file: str) -> list[Reply[answers.SourceFile]]:
        """The digest of a source file on the disk of each."""
        return self.ask(questions.DigestSource(file=file), ranks)

    def read_source(self, ranks: Sequence[Rank], file: str) -> list[Reply[answers.SourceFile]]:
        """The text of a source file, from ranks that have it on disk or in a notebook."""
        return self.ask(questions.ReadSource(file=file), ranks)

    def give_source(
        self, ranks: Sequence[Rank], file: str, text: str
    ) -> list[Reply[answers.SourceFile]]:
        """Send a copy to ranks that lack the file, to be shown at stops."""
        return self.ask(questions.GiveSource(file=file, text=text), ranks)

    # --- stops ------------------------------------------------------------------------

    def stops(self, ranks: Sequence[Rank]) -> list[Reply[answers.StopReports]]:
        """The list of stops of each rank."""
        return self.ask(questions.ListStops(), ranks)

    def command(
        self,
        ranks: Sequence[Rank],
        line: str | None,
        wait: float | None = None,
        without: Iterable[str] | None = None,
        next_stop: bool = False,
        threads: Sequence[str] = (),
    ) -> list[Reply[answers.StopReport]]:
        """One line for the debugger of each stopped rank; None waits for the last line, or, with
        `next_stop`, for the next stop of a running rank.
        `threads`: of the stops of threads or actors with these names (globs) alone.
        `wait`: how long to wait for output before the rank is reported as running (None: the
        usual timeout).

        A rank that needs the text of a missing file does not execute the line, unless the
        caller is `without` that file too (None: without any).
        """
        missing = None if without is None else sorted(without)
        question = questions.RunCommand(
            line=line, wait=wait, without=missing, next=next_stop, threads=[*threads]
        )
        return self.ask(question, ranks, max(self.timeout, 2 * (wait or 0.0)))

    def pause(self, ranks: Sequence[Rank], cancel: bool = False) -> list[Reply[answers.StopReport]]:
        """Stop the main thread of each where it is; or cancel that before it has taken effect."""
        return self.ask(questions.Pause(cancel=cancel), ranks)

    def set_break(
        self,
        ranks: Sequence[Rank],
        file: str,
        line: int,
        condition: str = "",
        log: str = "",
        together: bool = False,
    ) -> list[Reply[answers.BreakPlace]]:
        """Stop, or log, at a line of a running program. `together`: it takes
        effect after open_breaks(); answers of ranks that wait for that have `counts`."""
        question = questions.SetBreak(
            file=file, line=line, condition=condition, log=log, together=together
        )
        return self.ask(question, ranks)

    def open_breaks(
        self, ranks: Sequence[Rank], kind: str, count: int, measuring: bool = False
    ) -> list[Reply[answers.BreakCounts]]:
        question = questions.OpenBreaks(kind=kind, count=count, measuring=measuring)
        return self.ask(question, ranks)

    def confirm_breaks(self, ranks: Sequence[Rank]) -> list[Reply[answers.Done]]:
        return self.ask(questions.ConfirmBreaks(), ranks)

    def clear_breaks(
        self, ranks: Sequence[Rank], file: str | None = None, line: int | None = None
    ) -> list[Reply[answers.ClearedBreaks]]:
        """One, or all."""
        return self.ask(questions.ClearBreaks(file=file, line=line), ranks)

    def breaks(self, ranks: Sequence[Rank]) -> list[Reply[answers.BreakReports]]:
        return self.ask(questions.ListBreaks(), ranks)

    def hold_timeouts(self, ranks: Sequence[Rank], job: str) -> list[Reply[answers.HeldTimeouts]]:
        """Extend the timeouts of the job's process groups until released or closed, also in ranks
        that start later. Answers name the operations whose timeouts could not be extended."""
        return self.ask(node_questions.HoldTimeouts(job=job), ranks)

    def release_timeouts(self, ranks: Sequence[Rank]) -> None:
        """Restore the timeouts of all groups."""
        self.ask(node_questions.HoldTimeouts(end=True), ranks)

    # --- saving -----------------------------------------------------------------------

    def collect_all(self, ranks: Sequence[Rank]) -> None:
        """Ask everything that a snapshot should be able to answer."""
        children = [child for child, _ in self.children(ranks)]
        self.stacks([*ranks, *children], threads="all", samples=3, with_locals=True, tasks=True)
        self.vitals(ranks)
        self.ask(questions.ReadEnvironment(), ranks)
        self.collectives(ranks)
        self.gpus()
        self.histories(ranks[0].job if ranks else "", ranks, last=_SAVED_EVENTS)
        if self.ray_tables(ranks) is not None:
            self.ray_waits(ranks)
            self.raylets()

    def save(self, directory: str | Path) -> None:
        """Save all questions and answers of this session as a snapshot."""
        from rankdbg.clusters import snapshot

        asked = {node: for_snapshot(pairs, self._jobs) for node, pairs in self._asked.items()}
        snapshot.save(Path(directory), self.cluster.target, asked)
