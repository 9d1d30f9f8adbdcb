"""The questions that a Python program can ask about ranks of a job."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rankdbg import selection
from rankdbg.errors import BadInput, NoJob, NoLogs, RankdbgError
from rankdbg.investigations.answers import Answers
from rankdbg.investigations.collectives.collective_waits import CollectiveWaits
from rankdbg.investigations.collectives.live_traces import read_collectives
from rankdbg.investigations.expressions import check_expression, parse_frame
from rankdbg.investigations.hangs.further_looks import LONGEST, SAMPLES, SECONDS, judge_ranks
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.hangs.verdicts_with_logs import find_hang, with_logs
from rankdbg.investigations.histories.rank_histories import JobHistory
from rankdbg.investigations.histories.rank_histories import compare as compare_histories
from rankdbg.investigations.histories.rank_histories import read_job as read_histories
from rankdbg.investigations.html import Table, TableRow, page
from rankdbg.investigations.job_lists import RANK_COLUMNS, rank_cells
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.logs.log_sources import job_logs, job_messages
from rankdbg.investigations.logs.merged_logs import MergedLogs, read_logs
from rankdbg.investigations.logs.moments import parse_moment
from rankdbg.investigations.nodes.node_health import read_health
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.investigations.nonfinite import NanArming, NanState
from rankdbg.investigations.nonfinite import arm as arm_nan
from rankdbg.investigations.nonfinite import read as read_nan
from rankdbg.investigations.profiles.job_profiles import JobProfile
from rankdbg.investigations.profiles.profile_settings import profile_settings
from rankdbg.investigations.profiles.recording_profiles import check_folder, record_profile
from rankdbg.investigations.reached_job import ReachedJob
from rankdbg.investigations.replicas import comparing
from rankdbg.investigations.replicas.results import ALL_KINDS, KINDS, Replicas
from rankdbg.investigations.saved_jobs import SavedJob, save_job
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.investigations.stacks.reading_stacks import read_stacks
from rankdbg.investigations.stops import stop_addresses
from rankdbg.investigations.stops.break_answers import BreakList, BreaksCleared, BreakSet
from rankdbg.investigations.stops.break_places import BreakRequest, parse
from rankdbg.investigations.stops.breaks import clear_breaks, set_break
from rankdbg.investigations.stops.casts import CastOutputs
from rankdbg.investigations.stops.debugger_commands import check_command
from rankdbg.investigations.stops.stop_addresses import StopAddress
from rankdbg.investigations.stops.stop_sources import Sources
from rankdbg.investigations.stops.stopped_ranks import PausedRanks, RankStops
from rankdbg.investigations.watch.stillness import Stillness
from rankdbg.logs.entries import TAIL, LogQuery, parse_grep
from rankdbg.selection import Selection
from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.rules.log_rules import load_rules
from rankdbg.verdicts.rules.profile_rules import Phases, load_profile_rules

DAY = 86_400.0


class JobView:
    """Ranks of a job: all, or those that were selected."""

    def __init__(self, reached: ReachedJob, chosen: Sequence[tuple[str, Selection]] = ()) -> None:
        self._reached = reached
        self._chosen = tuple(chosen)

    def __repr__(self) -> str:
        ranks = " of ".join([text for text, _ in reversed(self._chosen)]) or "all ranks"
        job = f", job {self._reached.job}" if self._reached.job else ""
        return f"<{type(self).__name__}: {ranks} at {self._reached.target}{job}>"

    def _repr_html_(self) -> str:
        rows = [TableRow(rank_cells(rank)) for rank in self.ranks]
        return page(repr(self), [Table(RANK_COLUMNS, rows)])

    def _look(self) -> tuple[Session, list[Rank], list[Rank]]:
        """A session, these ranks, and all ranks of the job."""
        session, all_ranks = self._reached.look()
        return session, self._picked(all_ranks), all_ranks

    def _picked(self, all_ranks: Sequence[Rank]) -> list[Rank]:
        ranks = list(all_ranks)
        for _, chosen in self._chosen:
            ranks = selection.pick(chosen, ranks)
        return ranks

    # --- who is there -----------------------------------------------------------------

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """These ranks as they are now."""
        return tuple(self._look()[1])

    def select(self, ranks: str) -> JobView:
        """Some of these ranks, as the command line names them: "3", "0-6,9", "tp=0". The same
        methods work on them."""
        return JobView(self._reached, (*self._chosen, (ranks, selection.parse(ranks))))

    # --- where they are ---------------------------------------------------------------

    def stacks(
        self,
        *,
        threads: str | None = None,
        samples: int | None = None,
        engine: str = "agent",
        with_locals: bool = False,
        children: bool = False,
        tasks: bool = False,
    ) -> MergedStacks:
        """The stacks of these ranks, merged. `threads`: "main" or "all"; `engine`: "agent",
        "py-spy" (from outside), "native" (frames of C too), "gdb" or "cuda"; `children`: also of
        the processes below them; `tasks`: those of asyncio too."""
        session, ranks, all_ranks = self._look()
        return read_stacks(
            session,
            ranks,
            all_ranks,
            engine=engine,
            threads=threads,
            samples=samples,
            with_locals=with_locals,
            children=children,
            tasks=tasks,
        )

    def ask(
        self, expression: str, *, frame: int | str | None = None, thread: str | None = None
    ) -> Answers:
        """Evaluate an expression in each rank, without stopping it: in the innermost frame of user
        code, or in `frame`: a number (0 is the innermost) or the name of a function."""
        check_expression(expression)
        frame = parse_frame(frame) if isinstance(frame, str) else frame
        session, ranks, all_ranks = self._look()
        return Answers(session.evaluate(ranks, expression, frame, thread), all_ranks, expression)

    def why(
        self,
        *,
        seconds: float = SECONDS,
        samples: int = SAMPLES,
        longest: float = LONGEST,
        outside: bool = False,
        rules: Sequence[str] = (),
    ) -> JobVerdict:
        """Who holds the others up, where, why, and what to do. Watches for `seconds`, and for up
        to `longest` where that settles it. `outside`: ask no agent; `rules`: files of your own."""
        loaded = load_hang_rules(rules)
        session, ranks, all_ranks = self._look()
        found = judge_ranks(
            session, ranks, all_ranks, loaded, seconds, samples, longest, True, outside
        )
        return with_logs(found, session, self._reached.job)

    def collectives(self) -> CollectiveWaits:
        """Who is missing from which collective, by PyTorch's flight recorder."""
        return read_collectives(*self._look())

    def history(self) -> JobHistory:
        """Where ranks parted: the last common event and the first difference. Always of the whole
        job."""
        session = self._reached.session()
        return compare_histories(session, read_histories(session, self._reached.job))

    def diverge(
        self,
        *,
        kinds: Sequence[str] = KINDS,
        equal_across: Sequence[str] = (),
        first: bool = False,
        every: int | None = None,
    ) -> Replicas:
        """Tensors that ranks should have alike and have not. `kinds`: of "parameter", "buffer",
        "gradient", "optimizer", "random"; `equal_across`: dimensions of the mesh; `first`: find the
        first difference and its cause; `every`: from now on keep the hashes of every N-th step, 0:
        no longer."""
        if unknown := {*kinds} - {*ALL_KINDS}:
            known = ", ".join(ALL_KINDS)
            raise BadInput(f"unknown kind of tensor {min(unknown)}", hint=f"there are: {known}")
        if every is not None and every < 0:
            raise BadInput(f"invalid number {every}: expected a whole number of steps, or 0")
        session, ranks, all_ranks = self._look()
        if every:
            comparing.check_steps(session, ranks, all_ranks)
        found = comparing.compare(session, ranks, all_ranks, kinds, equal_across, first=first)
        if every is None:
            return found
        return comparing.keep_every(session, found, every, kinds)

    def nan(self) -> NanState:
        """Tensors of these ranks that have nan or inf now, and the first one that an armed rank has
        found: its module, and what the inputs were."""
        return read_nan(*self._look())

    def arm_nan(self, *, on: bool = True, exact: bool = False) -> NanArming:
        """Stop each of these ranks where its first nan appears; `on` False: no more. `exact`: wait
        for the GPU at each module."""
        return arm_nan(*self._look(), on, exact)

    # --- what they write --------------------------------------------------------------

    def doctor(self, *, paths: Sequence[str] = (), rules: Sequence[str] = ()) -> LogDiagnosis:
        """What the job's logs say: what failed first, why, and what to do. Always of the whole
        job. `paths`: these files on its nodes instead; `rules`: files of your own."""
        loaded = load_rules(rules)
        session = self._reached.session()
        source = job_logs(session, loaded.patterns(), self._reached.job, paths, around=True)
        scans = source.scan()
        if all(scan.error and not scan.size for scan in scans):
            why = [f"{scan.path}: {scan.error}" for scan in scans[:5]]
            raise NoLogs(f"none of {len(scans)} log files could be read", *why)
        return LogDiagnosis.of(scans, loaded, source.state, find_hang(source))

    def logs(
        self,
        *,
        since: str = "",
        until: str = "",
        grep: str = "",
        tail: int = TAIL,
        paths: Sequence[str] = (),
    ) -> MergedLogs:
        """The logs of these ranks, merged by time. `since`, `until`: "10m" (ago), "10:41",
        "2026-11-15 10:41:07"; `grep`: a regular expression; `tail`: so many messages at most."""
        if grep:
            parse_grep(grep)
        source = job_messages(self._reached.session(), self._reached.job, paths)
        latest = source.latest()
        picked = self._picked(source.ranks) if self._chosen else None
        wanted = LogQuery(
            since=parse_moment("since", since, latest) if since else None,
            until=parse_moment("until", until, latest) if until else None,
            grep=grep,
            limit=tail,
            ranks=_numbers(picked) if picked is not None else None,
            pids=frozenset(rank.pid for rank in picked or ()),
        )
        return read_logs(source, wanted)

    def node_health(self) -> NodeStates:
        """Disks, memory, GPUs and processes of the job's nodes, and messages of their kernels."""
        session, ranks, _ = self._look()
        return NodeStates(*read_health(session, load_rules().patterns(), ranks))

    def save(self, directory: str | Path) -> SavedJob:
        """The whole job as a snapshot, in a new directory: connect(f"snapshot:{directory}")."""
        return save_job(self._reached.session(), self._reached.job, directory)

    def profile(
        self,
        seconds: float = 10.0,
        *,
        kind: str = "cpu",
        rate: int | None = None,
        native: bool = False,
        stack: bool = False,
        compare: tuple[str, str] | None = None,
        output: str | Path | None = None,
        rules: Sequence[str] = (),
        stop: threading.Event | None = None,
    ) -> JobProfile:
        """Where the time goes, or with `kind` "torch", "memory" or "nsys" what these record.
        `compare`: two selections, such as ("0", "7"). `output`: a new directory for its files.
        `stop`: ends it early once it is set."""
        settings = profile_settings(kind, seconds, rate, native, stack)
        phases = Phases(load_profile_rules(rules)) if kind == "cpu" else None
        folder = Path(output or f"rankdbg-profile-{time.strftime('%Y%m%d-%H%M%S')}")
        check_folder(folder)
        session, ranks, all_ranks = self._look()
        sides = [selection.pick(selection.parse(side), ranks) for side in compare or ()]
        if sides:
            compared = {rank.process for side in sides for rank in side}
            ranks = [rank for rank in ranks if rank.process in compared]
        wait = functools.partial(self._wait, stop=stop)
        return record_profile(session, ranks, all_ranks, settings, folder, wait, sides, phases)

    def _wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """False if it was interrupted or stopped, or the connection was closed."""
        try:
            return not (stop or self._reached.closed).wait(seconds)
        except KeyboardInterrupt:
            return False

    # --- stopping them ----------------------------------------------------------------

    def break_at(self, place: str, *, condition: str = "", log: str = "") -> BreakSet:
        """Stop these ranks at FILE:LINE of the running program, if `condition` is true there; or
        do not stop, and `log` a text such as "loss={loss}" (see breaks())."""
        words = [place, *(["if", condition] if condition else []), *(["log", log] if log else [])]
        parsed, chosen = parse(words)
        if parsed is None:
            raise BadInput("break_at needs a place", hint='break_at("train.py:88")')
        view = self.select(chosen) if chosen else self
        session, ranks, all_ranks = view._look()
        return BreakSet(set_break(session, ranks, *parsed), all_ranks, parsed)

    def breaks(self) -> BreakList:
        """The breaks that are set, with their hits and what they logged."""
        session, ranks, all_ranks = self._look()
        return BreakList(session.breaks(ranks), all_ranks)

    def clear_breaks(self, place: str = "") -> BreaksCleared:
        """Take away the break at FILE:LINE, or all of them."""
        parsed: BreakRequest | None = parse([place])[0] if place else None
        session, ranks, all_ranks = self._look()
        file, line = (parsed.file, parsed.line) if parsed else (None, None)
        return BreaksCleared(clear_breaks(session, ranks, file, line), all_ranks)

    def pause(self, *, cancel: bool = False) -> PausedRanks:
        """Stop these ranks where they are; `cancel`: those that have not stopped yet go on."""
        session, ranks, all_ranks = self._look()
        return PausedRanks(session.pause(ranks, cancel), all_ranks)

    def stops(self) -> RankStops:
        """Which of these ranks are stopped, where and why."""
        session, ranks, all_ranks = self._look()
        sources = Sources(session)
        answers = sources.stops(ranks)
        return RankStops(answers, all_ranks, sources.take_differences())

    def cast(
        self,
        command: str,
        *,
        wait: float | None = None,
        really_quit: bool = False,
        thread: str = "",
    ) -> CastOutputs:
        """One command of pdb to each rank that is stopped: "p loss", "n", "c". A rank that has not
        returned after `wait` seconds is in the result with where it is; the command "." shows what
        has arrived since. `really_quit`: let "q" end the ranks. `thread`: the name of the thread, or
        of one of several actors in a process, whose stop is meant."""
        line = check_command(command, really_quit)
        session, ranks, all_ranks = self._look()
        sources = Sources(session)
        address = StopAddress(selection.parse("all"), (thread,) if thread else (), ())
        answers = stop_addresses.command(sources, address, ranks, all_ranks, line, wait)
        return CastOutputs(answers, all_ranks, sources.take_differences())

    # --- waiting for a hang -----------------------------------------------------------

    def watch(
        self, *, hang_after: float = 180.0, poll_every: float = 10.0, timeout: float = DAY
    ) -> Iterator[JobVerdict]:
        """Yields the verdict each time that the job hangs: after `hang_after` seconds without
        progress. Ends with the job, when the connection is closed, or after `timeout` seconds."""
        for name, value in (("hang_after", hang_after), ("poll_every", poll_every)):
            if not 0 < value < float("inf"):
                raise BadInput(f"invalid {name} {value!r}: expected seconds above 0")
        hangs = self._hangs(hang_after, poll_every, time.monotonic() + timeout)
        return self._until_closed(hangs)

    def _until_closed(self, hangs: Iterator[JobVerdict]) -> Iterator[JobVerdict]:
        try:
            yield from hangs
        except RankdbgError:
            if not self._reached.closed.is_set():  # else a question was cut off
                raise

    def _hangs(self, hang_after: float, poll_every: float, deadline: float) -> Iterator[JobVerdict]:
        stillness = Stillness()
        hangs = False
        self._look()  # raises NoJob where there is none to watch
        with contextlib.suppress(NoJob):  # it has ended
            for look in itertools.count():
                now = time.monotonic()
                session, ranks, _ = self._look()
                if all(rank.state in ("gone", "zombie") for rank in ranks):
                    return
                stillness.look(session, ranks, now)
                still = stillness.still_for(now)
                hangs = hangs and still >= hang_after / 2
                if look == 0 or (still >= hang_after and not hangs):
                    verdict = self.why()
                    # A job that hung before we came is not seen to move and stop.
                    waited = max(still, verdict.verdict.waited or 0.0)
                    if verdict.stuck and look == 0:
                        stillness.assume_still(now, waited)
                    if verdict.stuck and waited >= hang_after:
                        hangs = True
                        yield verdict
                    elif look > 0:
                        stillness.forget(now)
                left = deadline - time.monotonic()
                if left <= 0 or self._reached.closed.wait(min(poll_every, left)):
                    return


def _numbers(ranks: Sequence[Rank]) -> frozenset[int]:
    return frozenset(rank.number for rank in ranks if rank.number is not None)
