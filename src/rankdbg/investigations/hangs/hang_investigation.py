"""HangInvestigation at a job that may hang: questions to its ranks -> the evidence for a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rankdbg.errors import RankdbgError
from rankdbg.investigations.collectives.live_traces import recorded_by
from rankdbg.investigations.hangs import readings
from rankdbg.investigations.hangs.ray_looks import RayLook
from rankdbg.investigations.hangs.wait_looks import WaitLooks
from rankdbg.session import Sampled, Session
from rankdbg.session.samples import child_process
from rankdbg.types import Answer, ProcessKey, Rank, RunningKernel, Silence, Stack
from rankdbg.verdicts.collectives.nccl_counts import traces_of
from rankdbg.verdicts.collectives.worlds import RecordedCollectives, judge_worlds
from rankdbg.verdicts.hangs import gpu_signs
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.gpu_kernels import Kernel
from rankdbg.verdicts.waits.wait_links import ProcessPlace, place_of
from rankdbg.wire.answers import Child, Vitals
from rankdbg.wire.node_answers import Gpu, NcclCommunicator

# Nodes that are asked for what NCCL knows, one after the other: each knows the same.
MOST_ASKED = 2
# Launches of a graph of CUDA differ only in the warp, which may be the same by chance.
FURTHER_LOOKS_AT_KERNELS = 3


class _Advance(NamedTuple):
    """Of a rank between the first look and the last, by what it counts itself."""

    counted_on: bool = False
    entered_more: bool = False
    stepped: bool = False


class HangInvestigation:
    """The evidence about some ranks, from one or several looks."""

    def __init__(
        self,
        session: Session,
        ranks: Sequence[Rank],
        all_ranks: Sequence[Rank],
        outside: bool = False,
    ) -> None:
        self._session = session
        self._all_ranks = all_ranks
        chosen = {rank.process for rank in ranks}
        self._others = [rank for rank in all_ranks if rank.process not in chosen]
        self._alive = [rank for rank in ranks if rank.state not in ("gone", "zombie")]
        self._gone = [rank for rank in ranks if rank.state in ("gone", "zombie")]
        self._outside = outside
        self._samples: dict[ProcessKey, tuple[tuple[Stack, ...], ...]] = {}
        self._gil: dict[ProcessKey, str] = {}
        self._last_seen: dict[ProcessKey, Seen] = {}  # in the last evidence
        self._why: dict[ProcessKey, str] = {}
        # Agents that have not answered, until they answer again: each question to one of them takes
        # as long as the timeout. A process that holds the GIL or is stopped has such an agent.
        self._mute = {rank.process: rank.detail for rank in all_ranks if rank.state == "blocked"}
        self._native: dict[ProcessKey, tuple[Stack, ...]] = {}
        self._gpus: dict[str, Sequence[Gpu]] = {}
        self._kernels: dict[ProcessKey, list[Kernel]] = {}
        self._masters: dict[ProcessKey, str] = {}
        self._names_group: dict[ProcessKey, bool] = {}
        self._parents: set[ProcessKey] = set()  # those whose children are looked at
        self._children: dict[ProcessKey, Rank] = {}
        self._variables: dict[
            ProcessKey, list[readings.Variables]
        ] = {}  # of those that are followed
        self._variables_from: dict[ProcessKey, str] = {}  # by which of them they were first read
        self._helpers: list[Rank] = []  # no ranks, but at the end of a rank's wait
        self.waits = WaitLooks(session, self._alive, outside, self._can_be_asked)
        self._ray = RayLook(session, all_ranks, outside)
        self._steps = {rank.process: rank.step for rank in ranks}
        self._before = self._vitals()
        self._after = self._before
        self._first_traces = self._traces()
        self._traces_now = self._first_traces
        self._nccl: list[Sequence[NcclCommunicator]] = []  # of each look

    def watch(self, seconds: float, samples: int) -> None:
        """Take this many samples, spread over `seconds`."""
        self._look_at_nccl()
        seen, silent = self._session.stacks(
            [*self._alive, *self._helpers, *self._children.values()],
            threads="all",
            samples=samples,
            interval=seconds / max(1, samples - 1),
            engine="py-spy" if self._outside else "agent",
        )
        for sampled in seen:
            self._keep(sampled)
        for silence in silent:
            self._why[silence.rank.process] = silence.reason
        self._traces_now = self._traces()
        self._after = self._vitals()
        self._look_at_nccl()
        self._look_at_variables()
        self.waits.look_at_tasks()
        self.waits.look_at_served_threads()
        self.waits.look_at_starved_ends()
        self._ray.look(self._alive)
        for node, told in self._session.gpus().items():
            if not isinstance(told, RankdbgError):
                self._gpus[node] = told.gpus

    @property
    def watched(self) -> float:
        """Seconds from the first look at counters to the last one."""
        pairs = [
            (self._before[key].at, last.at)
            for key, last in self._after.items()
            if key in self._before
        ]
        return max((last - first for first, last in pairs), default=0.0)

    def _look_at_nccl(self) -> None:
        """Only if no recorder shows more. Any one node answers for the whole job."""
        if any(each.trace.operations for each in self._traces_now.values()):
            return
        by_host: dict[str, list[Rank]] = {}
        for rank in self._alive:
            by_host.setdefault(rank.host, []).append(rank)
        for ranks in list(by_host.values())[:MOST_ASKED]:
            for answer in self._session.nccl_states(ranks):
                if isinstance(answer, Answer) and answer.value.communicators:
                    self._nccl.append(answer.value.communicators)
                    return

    def _keep(self, sampled: Sampled) -> None:
        key = sampled.rank.process
        if sampled.source == "agent":
            self._mute.pop(key, None)
        self._samples[key] = (*self._samples.get(key, ()), *sampled.samples)
        self._why[key] = sampled.why
        self._gil[key] = sampled.gil

    def look_natively(self, ranks: Sequence[Rank]) -> None:
        with self._not_counted(ranks):
            seen, _ = self._session.stacks(ranks, threads="main", samples=1, engine="native")
        for sampled in seen:
            if sampled.source in ("pystack", "gdb") and sampled.samples:
                self._native[sampled.rank.process] = sampled.samples[-1]

    @contextmanager
    def _not_counted(self, ranks: Sequence[Rank]) -> Iterator[None]:
        """A look that makes processes do something: to be stopped ends a wait, and an agent reads
        files of source. That is not their progress."""
        before = self._vitals_of(ranks)
        yield
        for process, after in self._vitals_of(ranks).items():
            if process in before and process in self._before:
                first = self._before[process]
                self._before[process] = readings.without_ours(first, before[process], after)

    def follow_variables(self, ranks: Sequence[Rank]) -> None:
        """Compare the variables of these ranks from now on: what polls gives no other sign of
        having left a wait and entered the next."""
        self._variables.update({rank.process: [] for rank in ranks})
        self._look_at_variables()

    def _can_be_asked(self, ranks: Sequence[Rank]) -> list[Rank]:
        """Without those whose agents do not answer; from outside all can be looked at."""
        return [rank for rank in ranks if self._outside or rank.process not in self._mute]

    def _look_at_variables(self) -> None:
        looked_at = [*self._alive, *self._helpers, *self._children.values()]
        followed = self._can_be_asked([r for r in looked_at if r.process in self._variables])
        if not followed:
            return
        engine = "py-spy" if self._outside else "agent"
        seen, _ = self._session.stacks(followed, threads="main", with_locals=True, engine=engine)
        for sampled in seen:
            process = sampled.rank.process
            # The agent and py-spy write the same value in different ways.
            if self._variables_from.setdefault(process, sampled.source) == sampled.source:
                self._variables[process].append(readings.variables(sampled))

    @property
    def has_compared_variables(self) -> bool:
        return all(len(looks) != 1 for looks in self._variables.values())

    def look_at_kernels(self, rank: Rank, seconds: float, samples: int) -> None:
        """The kernels on its GPUs, and which of them have ended `seconds` later. This stops the rank
        for some moments and takes seconds itself."""
        first = self._running_kernels(rank)
        if not first:
            return
        self.watch(seconds, samples)
        later: list[Sequence[RunningKernel]] = []
        for _ in range(FURTHER_LOOKS_AT_KERNELS):
            look = self._running_kernels(rank)
            later += [look] if look is not None else []
            self._kernels[rank.process] = readings.kernels(first, later)
            if all(kernel.ended for kernel in self._kernels[rank.process]):
                break

    def _running_kernels(self, rank: Rank) -> Sequence[RunningKernel] | None:
        with self._not_counted([rank]):
            seen, _ = self._session.stacks([rank], threads="all", samples=1, engine="cuda")
        return next((sampled.kernels for sampled in seen if sampled.source == "cuda-gdb"), None)

    def look_at_masters(self, ranks: Sequence[Rank]) -> None:
        """The address of each rank's store: rank 0 listens there, the others connect."""
        engine = "py-spy" if self._outside else "agent"
        seen, _ = self._session.stacks(ranks, threads="main", with_locals=True, engine=engine)
        for sampled in seen:
            self._masters[sampled.rank.process] = readings.master(sampled)

    def look_at_groups(self, ranks: Sequence[Rank]) -> None:
        """Whether the collectives that these are in are of a group that the program names."""
        seen, _ = self._session.stacks(ranks, threads="main", with_locals=True, engine="py-spy")
        for sampled in seen:
            self._names_group[sampled.rank.process] = readings.names_group(sampled)

    def add_children(self, ranks: Sequence[Rank]) -> None:
        """Look at what runs below these too, from now on."""
        for rank in ranks:
            for child in self._after[rank.process].workers:
                process = child_process(child, rank)
                if child.start and process.state != "zombie":
                    self._children[process.process] = process
        self._parents |= {rank.process for rank in ranks}

    def look_at_threads(self, ranks: Sequence[Rank]) -> None:
        """Which of their threads owe what these wait for, and what those wait for: by agents, and
        of mutexes by the kernel."""
        in_futex = [rank for rank in ranks if self._after[rank.process].call == "futex"]
        # One that holds the GIL does not let its agent answer.
        known = self._can_be_asked([rank for rank in ranks if not self._gil.get(rank.process)])
        answer = [rank for rank in known if rank.agent and not self._outside]
        with self._not_counted(known):
            self.waits.read_threads(
                answer, in_futex, [rank for rank in known if rank not in answer]
            )

    def find_helpers(self, places: Sequence[ProcessPlace]) -> list[Rank]:
        """The processes at these places, whatever they are."""
        known = {place_of(rank) for rank in self._helpers}
        wanted = {*places} - known
        if not wanted:
            return []
        processes = self._session.roster(where=False).processes
        return [rank for rank in processes if place_of(rank) in wanted]

    def add_helpers(self, ranks: Sequence[Rank]) -> None:
        """Look at these too, from now on."""
        self._helpers += ranks
        vitals = self._vitals_of(ranks)
        self._before.update(vitals)
        self._after.update(vitals)

    @property
    def has_gpus(self) -> bool:
        return any(self._gpus.values())

    def evidence(self) -> Evidence:
        traces = self._first_traces, self._traces_now
        counted_on, entered = readings.counted_on(*traces), readings.entered_more(*traces)
        stepped = self._stepped()
        unseen = self._session.silent_nodes
        gone = [r for r in self._alive if r.process not in self._after and r.host not in unseen]
        seen = [
            self._seen(
                rank, _Advance(*(rank.process in those for those in (counted_on, entered, stepped)))
            )
            for rank in self._alive
            if rank.process in self._after
        ]
        recorded = [*self._traces_now.values()]
        if len(self._nccl) > 1:
            recorded = traces_of(self._nccl[-2], self._nccl[-1], self._all_ranks) or recorded
        return Evidence(
            seen,
            judge_worlds(recorded) if any(each.trace.operations for each in recorded) else (),
            tuple(self._session.silent_nodes),
            [*self._gone, *gone],
            [rank for rank in self._others if rank.kind == "rank"],
            self._ray.evidence(),
            [self._seen(rank) for rank in self._helpers if rank.process in self._after],
            self.waits.owners,
            self.waits.unanswered,
        )

    def _seen(self, rank: Rank, advance: _Advance | None = None) -> Seen:
        """The same value as in the last evidence if nothing new is known: it keeps what it has found
        out about itself, and few ranks are looked at again."""
        seen = self._newly_seen(rank, advance or _Advance())
        if self._last_seen.get(rank.process) != seen:
            self._last_seen[rank.process] = seen
        return self._last_seen[rank.process]

    def _newly_seen(self, rank: Rank, advance: _Advance) -> Seen:
        return Seen(
            rank,
            samples=self._samples.get(rank.process, ()),
            before=self._before.get(rank.process, self._after[rank.process]),
            after=self._after[rank.process],
            native=self._native.get(rank.process, ()),
            gil=self._gil.get(rank.process, ""),
            silence=self._why.get(rank.process, ""),
            **advance._asdict(),
            tasks_moved=rank.process in self.waits.tasks_moved,
            served_threads=tuple(self.waits.served.get(rank.process, ())),
            variables_changed=readings.differ(self._variables.get(rank.process, ())),
            only_counts=readings.only_counts(self._variables.get(rank.process, ())),
            gpus=self._gpu_signs(rank),
            command_prefix=self._session.command_prefix(rank.host),
            kernels=self._kernels.get(rank.process, ()),
            master=self._masters.get(rank.process, ""),
            names_group=self._names_group.get(rank.process),
            children=self._seen_below(rank) if rank.process in self._parents else (),
            all_ranks=self._all_ranks,
        )

    def _seen_below(self, rank: Rank, parent: int = 0) -> list[Seen]:
        """The processes that are children of a rank, or of one of its children, each with its own."""
        after = self._after[rank.process]
        before = {child.pid: child for child in self._before.get(rank.process, after).children}
        found = after.below(parent) if parent else after.awaited
        return [self._seen_child(child, before.get(child.pid, child), rank) for child in found]

    def _seen_child(self, child: Child, before: Child, rank: Rank) -> Seen:
        process = child_process(child, rank)
        return Seen(
            process,
            samples=self._samples.get(process.process, ()),
            before=before if before.start == child.start else child,
            after=child,
            gil=self._gil.get(process.process, ""),
            variables_changed=readings.differ(self._variables.get(process.process, ())),
            only_counts=readings.only_counts(self._variables.get(process.process, ())),
            command_prefix=self._session.command_prefix(rank.host),
            children=self._seen_below(rank, child.pid),
        )

    def _gpu_signs(self, rank: Rank) -> list[gpu_signs.GpuSign]:
        used = gpu_signs.used_by(rank.pid, self._gpus.get(rank.host, ()))
        return [sign for gpu in used for sign in gpu_signs.signs(gpu)]

    def _vitals(self) -> dict[ProcessKey, Vitals]:
        return self._vitals_of([*self._alive, *self._helpers])

    def _vitals_of(self, ranks: Sequence[Rank]) -> dict[ProcessKey, Vitals]:
        return {
            answer.rank.process: answer.value
            for answer in self._session.vitals(ranks)
            if isinstance(answer, Answer)
        }

    def _stepped(self) -> set[ProcessKey]:
        """Ranks that have reported another step than when the roster was made."""
        reporting = [rank for rank in self._alive if rank.step is not None]
        if not reporting or self._outside:
            return set()
        roster = self._session.roster(where=False, job=reporting[0].job)
        return {
            rank.process
            for rank in roster.processes
            if rank.step is not None and self._steps.get(rank.process, rank.step) != rank.step
        }

    def _traces(self) -> dict[ProcessKey, RecordedCollectives]:
        """Of ranks with an agent; dead ranks have no recorder."""
        if self._outside or not any(rank.agent for rank in self._alive):
            return {}
        gone = [Silence(rank, "it has ended") for rank in self._gone]
        # All ranks are queried, whichever are examined: waiting ranks tell about the others.
        all_ranks = [*self._alive, *(rank for rank in self._others if rank.kind == "rank")]
        asked = self._can_be_asked(all_ranks)
        mute = [Silence(r, self._mute[r.process]) for r in all_ranks if r.process in self._mute]
        answers = self._session.collectives(asked) if asked else []
        self._mute |= {
            answer.rank.process: answer.reason for answer in answers if isinstance(answer, Silence)
        }
        return {each.rank.process: each for each in recorded_by([*answers, *mute, *gone])}
