"""Which ranks have a session in the editor, and which of them move together.

parent      what the editor's one attach talks to
children    a session a rank, opened by the editor because the parent asks it to
"""

from __future__ import annotations

import hmac
import io
import secrets
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

from rankdbg import selection
from rankdbg.errors import BadInput, NoJob, RankdbgError
from rankdbg.frontends.dap.announcing import Announcer
from rankdbg.frontends.dap.arming import Arming
from rankdbg.frontends.dap.child import OURS, ChildSession
from rankdbg.frontends.dap.mappings import Mappings
from rankdbg.frontends.dap.protocol import Connection, Message
from rankdbg.frontends.dap.settings import AttachSettings
from rankdbg.frontends.reports.stops import print_limits
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.rank_labels import named
from rankdbg.investigations.stops.rank_debuggers import open_debugger
from rankdbg.investigations.stops.stopped_ranks import OperationLimits
from rankdbg.selection import format_ranks
from rankdbg.session import Session
from rankdbg.types import ProcessKey, Rank
from rankdbg.wire.questions import LoadEditor
from rankdbg.wire.streams import Stream

# How often it is looked for ranks that have come, or gone.
LOOK_SECONDS = 2.0
# How long they wait for what must be known before a rank may stop: timeouts held, files found.
PREPARING_SECONDS = 10.0


class Editor(Protocol):
    """The parent, as far as the hub needs it."""

    def offer(self, child: ChildSession) -> None:
        """Have the editor open a session for a rank."""

    def print(self, text: str) -> None: ...

    def execute(self, client: Connection, request: Message, line: str) -> None:
        """Execute a line of the parent console, and respond to its client."""


class Hub:
    def __init__(self, session: Session, settings: AttachSettings) -> None:
        self.session = session
        self.settings = settings
        self.lockstep = settings.lockstep
        self.all_ranks: list[Rank] = []
        self.mappings = Mappings(session)
        self._editor: Editor | None = None
        self._children: dict[ProcessKey, ChildSession] = {}
        self._by_key: dict[str, ChildSession] = {}
        self._wanted = selection.parse(settings.ranks)
        self._added: set[ProcessKey] = set()
        self._known: set[ProcessKey] = set()  # seen at the last poll
        self._left: set[ProcessKey] = set()  # their session has ended and is not opened again
        self._lock = threading.RLock()
        self._asking = threading.RLock()  # one question to the job at a time
        self._leaving = threading.Event()
        self._announcer = Announcer(self)
        self._limit_reported = False
        self._end_reported = False
        self._arming = Arming(self)
        self._focus: ChildSession | None = None  # the rank that the user looks at
        self._prepared = threading.Event()

    # --- attaching and detaching ---------------------------------------------------------------

    def load_ahead(self) -> None:
        """Load the debugger into the ranks that will have sessions, before an editor attaches."""
        with suppress(RankdbgError), self._asking:
            chosen = [rank for rank in self._chosen() if rank.agent]
            self.session.ask(LoadEditor(), chosen[: self.settings.most])

    def begin(self, editor: Editor) -> None:
        """An editor has attached. Raises RankdbgError if there is no job, or an editor already."""
        with self._lock:
            if self._editor is not None:
                raise RankdbgError("another editor is attached: disconnect it first")
            self._editor = editor
            self._leaving = threading.Event()
            self._prepared = threading.Event()
            # Selections of the last editor do not apply to the next one.
            self._wanted, self._added = selection.parse(self.settings.ranks), set()
            self._left.clear()
            self._arming.begin()
            self._by_key = {child.key: child for child in self._children.values()}
            self._focus = None
        try:
            self.look()
        except RankdbgError:
            self._editor = None
            raise

    def open_all(self) -> None:
        """Open sessions for the selected ranks, now and as ranks join. They load their debuggers
        while the rest is prepared."""
        self._offer_missing()
        self.prepare()
        watch = threading.Thread(target=self._watch, args=(self._leaving,), daemon=True)
        watch.start()

    def prepare(self) -> None:
        """Everything that must be done before a rank may stop."""
        try:
            self._hold_timeouts()
            with self._asking:
                for warning in self.mappings.find(self._chosen()):
                    self.print(warning)
        finally:
            self._prepared.set()

    def only_child(self) -> ChildSession:
        """A session for the one selected rank."""
        ranks = selection.pick(self._wanted, self.all_ranks)
        if len(ranks) != 1:
            which = format_ranks(ranks, self.all_ranks)
            raise BadInput(f"--single takes one rank, not {len(ranks)} ({which})")
        with self._lock:
            if not self._lacks_session(ranks[0]):
                raise BadInput(f"{self.name(ranks[0])} already has a session")
            return self._add_child(self._new_child(ranks[0]))

    def close(self) -> None:
        """End the session, and release what it held."""
        self.end(self._editor)
        self.release()

    def end(self, editor: Editor | None) -> None:
        """The editor disconnects: every rank continues, unless it is to stay stopped."""
        with self._lock:
            if self._editor is not editor:
                return
            self._leaving.set()
            self._editor = None
            children = self.children()
            for child in children:
                child.let_go = True
        for child in children:
            if not child.dismiss() and not (child.is_stopped and self.may_stay()):
                child.leave()

    def release(self) -> None:
        """Release held timeouts, unless the next editor is already attached."""
        try:
            if self._editor is None and self.all_ranks and not self.may_stay():
                self.session.release_timeouts(self.all_ranks)
        except RankdbgError:
            pass  # the hold expires by itself

    def print(self, text: str) -> None:
        editor = self._editor
        if editor is not None:
            editor.print(text)

    def _hold_timeouts(self) -> None:
        """Ranks that wait for a stopped rank must not time out."""
        if not self.all_ranks:
            return
        try:
            with self._asking:
                held = self.session.hold_timeouts(self.all_ranks, self.all_ranks[0].job)
        except RankdbgError as error:
            self.print(f"timeouts are not suspended: {error.in_one_line()}")
            return
        warnings = io.StringIO()
        print_limits(Terminal(warnings), OperationLimits(held, self.all_ranks))
        if warnings.getvalue():
            self.print(warnings.getvalue())

    # --- which ranks --------------------------------------------------------------------------

    def look(self) -> list[Rank]:
        """All ranks of the job, as they are now."""
        with self._asking:
            self.all_ranks = self.session.job(self.settings.job)
            self.session.forget()
        return self.all_ranks

    @property
    def is_leaving(self) -> bool:
        return self._leaving.is_set()

    def asking(self) -> threading.RLock:
        return self._asking

    def _chosen(self) -> list[Rank]:
        """In order of rank number: if there are too many, the first get sessions."""
        chosen = [
            rank
            for rank in self.all_ranks
            if selection.matches(self._wanted, rank) or rank.process in self._added
        ]
        return sorted(chosen, key=lambda rank: (rank.number is None, rank.number or 0))

    def _offer_missing(self) -> None:
        missing = [
            rank
            for rank in self._chosen()
            if self._lacks_session(rank)
            and rank.process not in self._left
            and rank.state not in ("gone", "zombie")
            and not self._is_just_starting(rank)
        ]
        room = max(0, self.settings.most - len([c for c in self.children() if not c.parked]))
        for rank in missing[:room]:
            self.open(rank)
        if missing[room:] and not self._limit_reported:
            self._limit_reported = True
            self.print(
                f"{room} of {len(self._chosen())} ranks have sessions (--max-sessions "
                f"{self.settings.most}); to choose others: ranks(tp=0), add 7, drop 3, only stopped"
            )

    def _is_just_starting(self, rank: Rank) -> bool:
        """Whether a rank is new since the last poll and its agent has not started."""
        known, self._known = rank.process in self._known, self._known | {rank.process}
        return not (rank.agent or known)

    def _lacks_session(self, rank: Rank) -> bool:
        child = self._children.get(rank.process)
        return child is None or child.parked

    def open(self, rank: Rank) -> None:
        with self._lock:
            editor = self._editor
            if editor is None or not self._lacks_session(rank):
                return
            parked = self._children.get(rank.process)
            child = parked or self._new_child(rank)
            child.parked = child.let_go = False
            self._add_child(child)
        editor.offer(child)

    def _new_child(self, rank: Rank) -> ChildSession:
        return ChildSession(rank, self.name(rank), secrets.token_hex(16), self)

    def _add_child(self, child: ChildSession) -> ChildSession:
        self._children[child.rank.process] = child
        self._by_key[child.key] = child
        self._left.discard(child.rank.process)
        return child

    def name(self, rank: Rank) -> str:
        where = " ".join(f"{dimension}={at}" for dimension, at in rank.coordinates.items())
        who = named([rank], self.all_ranks).replace("pid=", "pid ")
        return " · ".join(filter(None, (who, where, rank.host)))

    def choose(self, wanted: str) -> str:
        """Sessions for these ranks, and no others."""
        parsed = selection.parse(wanted)
        picked = selection.pick(parsed, self.look())
        self._wanted, self._added = parsed, set()
        self._left.clear()
        self._limit_reported = False
        keys = {rank.process for rank in picked}
        self.drop([child for child in self.children() if child.rank.process not in keys])
        self._offer_missing()
        return self.summary()

    def add(self, wanted: str) -> str:
        picked = selection.pick(selection.parse(wanted), self.look())
        for rank in picked:
            self._added.add(rank.process)
            self.open(rank)
        return self.summary()

    def drop(self, children: Iterable[ChildSession]) -> None:
        """Their sessions end; the ranks go on."""
        for child in children:
            self._left.add(child.rank.process)
            self._added.discard(child.rank.process)
            child.dismiss()
            child.leave()

    def of(self, wanted: str) -> list[ChildSession]:
        """The sessions of these ranks."""
        picked = {r.process for r in selection.pick(selection.parse(wanted), self.look())}
        return [child for child in self.children() if child.rank.process in picked]

    def children(self) -> list[ChildSession]:
        with self._lock:
            return list(self._children.values())

    def child(self, key: str) -> ChildSession | None:
        """The session with this key, which may have ended, but not its editor's. Who has the key
        may have the session: it is compared as a secret is."""
        with self._lock:
            here = self._editor is not None
            children = [child for child in self._by_key.values() if here or not child.ended]
        given = key.encode(errors="surrogatepass")
        return next((c for c in children if hmac.compare_digest(c.key.encode(), given)), None)

    def session_for(self, key: str) -> ChildSession | None:
        """The session that an editor opens with this key. A session that has ended is created
        again: this is how editors restart a session."""
        with self._lock:
            child = self.child(key)
            if child is None or not child.ended:
                return child
            if self._editor is None or not self._lacks_session(child.rank):
                return None
            return self._add_child(ChildSession(child.rank, child.name, child.key, self))

    def summary(self) -> str:
        children = self.children()
        ranks = [child.rank for child in children]
        if not ranks:
            return "no rank has a session"
        stopped = [child.rank for child in children if child.is_stopped]
        which = format_ranks(ranks, self.all_ranks)
        text = f"sessions: {which}"
        return f"{text}; stopped: {format_ranks(stopped, self.all_ranks)}" if stopped else text

    def _watch(self, leaving: threading.Event) -> None:
        while not leaving.wait(LOOK_SECONDS):
            try:
                self.look()
            except NoJob:
                self._report_end_of_job()
            except RankdbgError:
                continue  # a node does not respond; its sessions report that
            else:
                self._end_reported = False
                if not leaving.is_set():
                    self._offer_missing()
                    self._arming.release_those_without_session()

    def _report_end_of_job(self) -> None:
        """Once. Ranks that start later get sessions again."""
        if not self._end_reported and not self.children() and self.all_ranks:
            self._end_reported = True
            job = self.all_ranks[0].job
            self.print(
                f"job {job} has ended: no rank is left. To find out why: rankdbg doctor --job {job}"
            )

    # --- called by the sessions -----------------------------------------------------------------

    def enter(self, rank: Rank) -> Stream:
        return open_debugger(self.session, rank, self.settings.tensor_summary)

    def configured(self, child: ChildSession) -> None:
        self._arming.configured(child)

    def armed(self, child: ChildSession) -> None:
        self._arming.armed(child)

    def changed_breakpoints(self, child: ChildSession) -> None:
        self._arming.changed(child)

    def arguments(self, child: ChildSession, given: dict[str, Any]) -> dict[str, Any]:
        self._prepared.wait(PREPARING_SECONDS)
        kept = {name: item for name, item in given.items() if name != OURS}
        found = self.mappings.of(child.rank)
        kept["pathMappings"] = [*(kept.get("pathMappings") or []), *found]
        return kept

    def may_stay(self) -> bool:
        return self.settings.stay

    def execute(self, client: Connection, request: Message, line: str) -> None:
        editor = self._editor
        if editor is None:
            client.refuse(request, "the parent session has ended")
        else:
            editor.execute(client, request, line)

    def keeps_focus(self, child: ChildSession) -> bool:
        """Unless no other rank is stopped or about to be."""
        with self._lock:
            focus = self._focus
            if focus is None or focus.ended or not (focus.is_stopped or focus.is_stepping):
                self._focus = child
            return self._focus is not child

    def moves(self, child: ChildSession, command: str) -> None:
        self._focus = child
        others = [c for c in self.children() if c is not child and c.is_stopped]
        together = others if self.lockstep else []
        if command != "continue":  # first: a short step is over before the next line
            self._announcer.expect([child.rank, *(other.rank for other in together)])
        for other in together:
            other.move(command)

    def continue_all(self, children: Iterable[ChildSession]) -> list[Rank]:
        moved = [child for child in children if child.is_stopped]
        for child in moved:
            child.move("continue")
        return [child.rank for child in moved]

    def stopped(self, child: ChildSession, event: dict[str, Any]) -> None:
        self._announcer.stopped(child, event)

    def parked(self, child: ChildSession) -> None:
        """For the next editor, or for this one if it asks."""
        with self._lock:
            if not child.let_go:
                self._left.add(child.rank.process)

    def over(self, child: ChildSession, why: str, again: bool) -> None:
        with self._lock:
            if self._children.get(child.rank.process) is child:
                del self._children[child.rank.process]
            if not again and not child.let_go:
                self._left.add(child.rank.process)
        self._arming.over(child)
        if not self._leaving.is_set() and not child.let_go:
            self.print(f"{child.name}: session ended" + (f" ({why})" if why else ""))
