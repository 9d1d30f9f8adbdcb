"""Which ranks have a session in the editor, and which of them move together.

parent      what the editor's one attach talks to
children    a session a rank, opened by the editor because the parent asks it to
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterable
from typing import Any, Protocol

from rankdbg import selection
from rankdbg.errors import RankdbgError
from rankdbg.frontends.dap.announcing import Announcer
from rankdbg.frontends.dap.child import OURS, Child
from rankdbg.frontends.dap.entering import open_debugger
from rankdbg.frontends.dap.mappings import Mappings
from rankdbg.frontends.dap.protocol import Connection, Message
from rankdbg.frontends.dap.settings import Settings
from rankdbg.frontends.reports.limits import LimitReport
from rankdbg.frontends.terminal import Terminal
from rankdbg.selection import format_ranks
from rankdbg.session import Session
from rankdbg.streams import Stream
from rankdbg.types import ProcessKey, Rank

# How often it is looked for ranks that have come, or gone.
LOOK_SECONDS = 2.0
# So long a rank that is ready waits for those that were offered with it,
TOGETHER_SECONDS = 3.0
# and for what must be known before one may stop: timeouts held, files found.
PREPARING_SECONDS = 10.0


class Editor(Protocol):
    """The parent, as far as the hub needs it."""

    def offer(self, child: Child) -> None:
        """Have the editor open a session for a rank."""

    def print(self, text: str) -> None: ...

    def execute(self, client: Connection, request: Message, line: str) -> None:
        """A line of the parent's console, for whoever typed it."""


class Hub:
    def __init__(self, session: Session, settings: Settings) -> None:
        self.session = session
        self.settings = settings
        self.lockstep = settings.lockstep
        self.everybody: list[Rank] = []
        self.mappings = Mappings(session)
        self._editor: Editor | None = None
        self._children: dict[ProcessKey, Child] = {}
        self._by_key: dict[str, Child] = {}
        self._wanted = selection.parse(settings.ranks)
        self._added: set[ProcessKey] = set()
        self._left: set[ProcessKey] = set()  # whose session has ended, and is not wanted again
        self._lock = threading.RLock()
        self._asking = threading.RLock()  # one question to the job at a time
        self._leaving = threading.Event()
        self._announcer = Announcer(self)
        self._told_of_limit = False
        self._entering = threading.Condition()
        self._entered: set[ProcessKey] = set()
        self._prepared = threading.Event()

    # --- the editor comes and goes ------------------------------------------------------------

    def begin(self, editor: Editor) -> None:
        """An editor has attached. Raises RankdbgError if there is no job, or an editor already."""
        with self._lock:
            if self._editor is not None:
                raise RankdbgError("another editor is attached here: disconnect that one first")
            self._editor = editor
            self._leaving = threading.Event()
            self._prepared = threading.Event()
            self._left.clear()
            self._entered = {c.rank.process for c in self._children.values() if c.is_open}
        try:
            self.look()
        except RankdbgError:
            self._editor = None
            raise

    def open_all(self) -> None:
        """Sessions for the ranks that are wanted, now and as they come. They load their debuggers
        while the rest is made ready."""
        self._offer_missing()
        try:
            self._hold_timeouts()
            with self._asking:
                for warning in self.mappings.find(self._chosen()):
                    self.print(warning)
        finally:
            self._prepared.set()
        watch = threading.Thread(target=self._watch, args=(self._leaving,), daemon=True)
        watch.start()

    def close(self) -> None:
        """Nobody listens for editors any more."""
        self.end(self._editor)
        self.release()

    def end(self, editor: Editor | None) -> None:
        """It leaves: every rank goes on, unless it shall stay where it stands."""
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
        """What was held while an editor was here, unless the next one is here already."""
        try:
            if self._editor is None and self.everybody and not self.may_stay():
                self.session.release_timeouts(self.everybody)
        except RankdbgError:
            pass  # what was held runs out

    def print(self, text: str) -> None:
        editor = self._editor
        if editor is not None:
            editor.print(text)

    def _hold_timeouts(self) -> None:
        """Ranks that wait for one that is stopped shall not time out."""
        if not self.everybody:
            return
        try:
            with self._asking:
                held = self.session.hold_timeouts(self.everybody, self.everybody[0].job)
        except RankdbgError as error:
            self.print(f"timeouts are not held: {error.in_one_line()}")
            return
        warnings = io.StringIO()
        LimitReport(held, self.everybody).print(Terminal(warnings))
        if warnings.getvalue():
            self.print(warnings.getvalue())

    # --- which ranks --------------------------------------------------------------------------

    def look(self) -> list[Rank]:
        """All ranks of the job, as they are now."""
        with self._asking:
            self.everybody = self.session.job(self.settings.job)
            self.session.forget()
        return self.everybody

    def asking(self) -> threading.RLock:
        return self._asking

    def _chosen(self) -> list[Rank]:
        """In the order of their numbers: if there are too many, the first have sessions."""
        chosen = [
            rank
            for rank in self.everybody
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
        ]
        room = max(0, self.settings.most - len([c for c in self.children() if not c.parked]))
        for rank in missing[:room]:
            self.open(rank)
        if missing[room:] and not self._told_of_limit:
            self._told_of_limit = True
            self.print(
                f"{room} of {len(self._chosen())} ranks have sessions (--max-sessions "
                f"{self.settings.most}); choose others: ranks(tp=0), add 7, drop 3, only stopped"
            )

    def _lacks_session(self, rank: Rank) -> bool:
        child = self._children.get(rank.process)
        return child is None or child.parked

    def open(self, rank: Rank) -> None:
        with self._lock:
            editor = self._editor
            if editor is None or not self._lacks_session(rank):
                return
            parked = self._children.get(rank.process)
            child = parked or Child(rank, self.name(rank), os.urandom(16).hex(), self)
            child.parked = child.let_go = False
            self._children[rank.process] = child
            self._by_key[child.key] = child
            self._left.discard(rank.process)
        editor.offer(child)

    def name(self, rank: Rank) -> str:
        where = " ".join(f"{dimension}={at}" for dimension, at in rank.coordinates.items())
        who = f"rank {rank.number}" if rank.number is not None else f"pid {rank.pid}"
        return " · ".join(filter(None, (who, where, rank.host)))

    def choose(self, wanted: str) -> str:
        """Sessions for these ranks, and no others."""
        parsed = selection.parse(wanted)
        picked = selection.pick(parsed, self.look())
        self._wanted, self._added = parsed, set()
        self._left.clear()
        self._told_of_limit = False
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

    def drop(self, children: Iterable[Child]) -> None:
        """Their sessions end; the ranks go on."""
        for child in children:
            self._left.add(child.rank.process)
            self._added.discard(child.rank.process)
            child.dismiss()
            child.leave()

    def of(self, wanted: str) -> list[Child]:
        """The sessions of these ranks."""
        picked = {r.process for r in selection.pick(selection.parse(wanted), self.look())}
        return [child for child in self.children() if child.rank.process in picked]

    def children(self) -> list[Child]:
        with self._lock:
            return list(self._children.values())

    def child(self, key: str) -> Child | None:
        return self._by_key.get(key)

    def summary(self) -> str:
        children = self.children()
        ranks = [child.rank for child in children]
        if not ranks:
            return "no rank has a session"
        stopped = [child.rank for child in children if child.is_stopped]
        which = format_ranks(ranks, self.everybody)
        text = f"sessions: {which}"
        return f"{text}; stopped: {format_ranks(stopped, self.everybody)}" if stopped else text

    def _watch(self, leaving: threading.Event) -> None:
        while not leaving.wait(LOOK_SECONDS):
            try:
                self.look()
            except RankdbgError:
                continue  # no rank is there just now, or no node; sessions say so themselves
            if not leaving.is_set():
                self._offer_missing()

    # --- what children ask and tell -------------------------------------------------------------

    def enter(self, rank: Rank) -> Stream:
        """Its debugger; when those of the others that were offered with it are ready too. A
        rank that gets its breakpoints seconds before the others stops alone, and the others
        run past theirs into a collective in which they wait for it."""
        try:
            return open_debugger(self.session, rank, self.settings.tensor_summary)
        finally:
            with self._entering:
                self._entered.add(rank.process)
                self._entering.notify_all()
                self._entering.wait_for(self._all_entered, TOGETHER_SECONDS)

    def _all_entered(self) -> bool:
        offered = {child.rank.process for child in self.children()}
        return self._leaving.is_set() or offered <= self._entered

    def arguments(self, child: Child, given: dict[str, Any]) -> dict[str, Any]:
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
            client.refuse(request, "the session of all ranks is over")
        else:
            editor.execute(client, request, line)

    def moves(self, child: Child, command: str) -> None:
        moved = [child.rank]
        if self.lockstep:
            for other in self.children():
                if other is not child and other.is_stopped:
                    other.move(command)
                    moved.append(other.rank)
        if command != "continue":
            self._announcer.expect(moved)

    def continue_all(self, children: Iterable[Child]) -> list[Rank]:
        moved = [child for child in children if child.is_stopped]
        for child in moved:
            child.move("continue")
        return [child.rank for child in moved]

    def stopped(self, child: Child, event: dict[str, Any]) -> None:
        self._announcer.stopped(child, event)

    def over(self, child: Child, why: str, again: bool) -> None:
        with self._lock:
            if self._children.get(child.rank.process) is child:
                del self._children[child.rank.process]
            self._by_key.pop(child.key, None)
            if not again and not child.let_go:
                self._left.add(child.rank.process)
        if not self._leaving.is_set() and not child.let_go:
            self.print(f"{child.name} has left" + (f": {why}" if why else ""))
