"""Asks the target, in threads of its own: looks, what takes longer, and the reports that a key
opens. A target that gives no answer delays none of the others, and no key."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rankdbg.errors import NoJob, RankdbgError
from rankdbg.frontends.top.keys import PageRequest
from rankdbg.frontends.top.views import Picture
from rankdbg.investigations.logs.logged_steps import LoggedSteps
from rankdbg.investigations.watch.live_jobs import GpuUse, JobsLook, LiveJob, LiveJobs, read_gpu_use
from rankdbg.investigations.watch.live_verdicts import JobJudging, LiveVerdict, judge_job
from rankdbg.investigations.watch.reconnecting import Reaching
from rankdbg.session import Session
from rankdbg.verdicts.hangs.hang_rules import HangRule

# A look costs at most this share of the time.
BUSIEST_SHARE = 0.2
# Between two attempts to reach the target.
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 15.0
# Logs are read for steps, and GPUs for their use, at most this often.
STEPS_SECONDS, GPU_SECONDS, NO_GPU_SECONDS = 4.0, 4.0, 60.0


class LiveReading:
    """`changed`: called from any thread when the picture or a page is another one."""

    def __init__(
        self,
        reaching: Reaching,
        rules: list[HangRule],
        job: str | None,
        every: float,
        changed: Callable[[], None],
    ) -> None:
        self.picture = Picture(begun=time.monotonic())
        self.every = every
        self._reaching = reaching
        self._rules = rules
        self._job = job
        self._changed = changed
        self._lock = threading.Lock()  # for changes of the picture
        self._look_now = threading.Event()
        self._looked = threading.Event()
        self._over = threading.Event()
        self._paused = False
        self._requests: queue.SimpleQueue[PageRequest] = queue.SimpleQueue()

    def start(self) -> None:
        for work in (self._look_on, self._judge_on, self._read_pages):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        """Threads that wait for an answer end with the process."""
        self._over.set()
        self._look_now.set()
        self._looked.set()
        self._reaching.close()

    def set_paused(self, paused: bool) -> None:
        if self._paused and not paused:
            self._look_now.set()
        self._paused = paused

    def request(self, request: PageRequest) -> None:
        self._requests.put(request)

    def _show(self, **changes: Any) -> None:
        with self._lock:
            self.picture = replace(self.picture, **changes)
        self._changed()

    # --- looks ------------------------------------------------------------------------------

    def _look_on(self) -> None:
        jobs, pause = LiveJobs(self._job), SHORTEST_PAUSE
        while not self._over.is_set():
            begun = time.monotonic()
            if self._paused:
                wait = LONGEST_PAUSE
            elif self._look(jobs, begun):
                pause = SHORTEST_PAUSE
                took = time.monotonic() - begun
                wait = max(self.every - took, took / BUSIEST_SHARE - took)
            else:
                wait, pause = pause, min(2 * pause, LONGEST_PAUSE)
            self._look_now.wait(max(0.0, wait))
            self._look_now.clear()

    def _look(self, jobs: LiveJobs, now: float) -> bool:
        self._show(asked=now)
        try:
            found = jobs.look(self._reaching.session(), now)
        except Exception as error:
            self._show(asked=None, failure=in_words(error), ended=self._why_ended())
            self._reaching.close()
            return False
        self._show(look=found, asked=None, answered=time.monotonic(), failure="", ended="")
        self._looked.set()
        return True

    def _why_ended(self) -> str:
        """A job of a scheduler, if it says so."""
        cluster = self._reaching.cluster
        try:
            return (cluster.why_ended() or "") if cluster is not None else ""
        except RankdbgError:
            return ""

    # --- what takes longer ------------------------------------------------------------------

    def _judge_on(self) -> None:
        judging: dict[str, JobJudging] = {}
        steps: dict[str, LoggedSteps] = {}
        due = {self._read_gpus: 0.0, self._read_steps: 0.0}
        while True:
            self._looked.wait()
            if self._over.is_set():
                return
            self._looked.clear()
            look = self.picture.look
            assert look is not None
            trouble = ""
            try:
                for read, moment in due.items():
                    if time.monotonic() >= moment:
                        due[read] = time.monotonic() + read(look, steps)
                self._judge(look, judging)
            except Exception as error:  # the next look may do better
                trouble = "" if isinstance(error, RankdbgError) else in_words(error)
            if trouble != self.picture.trouble:
                self._show(trouble=trouble)

    def _session(self) -> Session | None:
        """The one that looks, with questions of its own; None while there is none."""
        session = self._reaching.opened
        return session.apart(session.timeout) if session is not None else None

    def _read_gpus(self, look: JobsLook, _: object) -> float:
        """Returns the seconds until the next time."""
        session = self._session()
        ranks = [rank for job in look.jobs.values() for rank in job.alive]
        if session is None or not ranks:
            return GPU_SECONDS
        try:
            use = read_gpu_use(session, ranks)
        except RankdbgError:
            use = GpuUse()
        self._show(gpus=use)
        return GPU_SECONDS if use.found else NO_GPU_SECONDS

    def _read_steps(self, look: JobsLook, known: dict[str, LoggedSteps]) -> float:
        """Of jobs that report none themselves. Returns the seconds until the next time."""
        wanted = [job for job in look.jobs.values() if job.ended is None and job.steps is None]
        for name in known.keys() - {job.name for job in wanted}:
            del known[name]
        found = {}
        for job in wanted:
            session = self._session()
            if session is None:
                break
            steps = known.setdefault(job.name, LoggedSteps(job.name)).look(session)
            if steps is not None:
                found[job.name] = steps
        ended = {name for name, job in look.jobs.items() if job.ended is not None}
        kept = {name: steps for name, steps in self.picture.steps.items() if name in ended}
        if {**kept, **found} != self.picture.steps:
            self._show(steps={**kept, **found})
        return STEPS_SECONDS

    def _judge(self, look: JobsLook, judging: dict[str, JobJudging]) -> None:
        for name in judging.keys() - look.jobs.keys():
            del judging[name]
        jobs = [self.picture.still_of(job) for job in look.jobs.values()]
        for job in jobs:
            judging.setdefault(job.name, JobJudging(look.at)).note_look(job, look.at)
        self._show_verdicts(judging)
        due = [job for job in jobs if judging[job.name].is_due(job, look.at)]
        for job in due:
            session = self._session()
            if session is None or self._over.is_set():
                return
            self._show(judging=frozenset({job.name}))
            verdict = self._judged(session, job)
            if verdict is not None:
                judging[job.name].note_verdict(verdict)
            self._show_verdicts(judging)

    def _judged(self, session: Session, job: LiveJob) -> LiveVerdict | None:
        try:
            return judge_job(session, job, self._rules)
        except RankdbgError:
            return None  # the look shows why

    def _show_verdicts(self, judging: dict[str, JobJudging]) -> None:
        found = {name: state.verdict for name, state in judging.items() if state.verdict}
        if found != self.picture.verdicts or self.picture.judging:
            self._show(verdicts=found, judging=frozenset())

    # --- reports ----------------------------------------------------------------------------

    def _read_pages(self) -> None:
        while not self._over.is_set():
            request = self._requests.get()
            try:
                request.page.show = self._page(request)
            except Exception as error:
                request.page.failure = in_words(error)
            self._changed()

    def _page(self, request: PageRequest) -> Callable[..., None]:
        from rankdbg.frontends.top.pages import read_page  # not before the first screen

        job, session = self.picture.job(request.job), self._session()
        if job is None:
            raise NoJob(f"job {request.job} is no longer running")
        if session is None:
            raise NoJob("no response from the target")
        return read_page(session, request, job, self._rules)


def in_words(error: Exception) -> str:
    if isinstance(error, RankdbgError):
        return error.in_one_line()
    return f"{type(error).__name__}: {error}"


def job_names(look: JobsLook | None) -> Sequence[str]:
    return [*look.jobs] if look is not None else ()
