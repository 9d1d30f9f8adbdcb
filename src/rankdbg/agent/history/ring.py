"""The file of this process, and how an event gets into it.

An event costs about a microsecond: texts and places are looked up in a dictionary, and one C call
writes the record into the memory map. There is no lock: threads of the program may write at the
same time, each into the slot that one C call has given it, and so may a signal's handler.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from binascii import crc32

from rankdbg import wire
from rankdbg.agent import active, card, messages, native
from rankdbg.process import history_layout as layout
from rankdbg.process import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    # Its number; of a call, a checksum of what must be the same in all ranks; one of all of it.
    Text = tuple[int, int, int]
    Value = tuple[int, int]  # its kind, and its bytes as a whole number

_pack_event = layout.EVENT.pack_into
_pack_counter = layout.COUNTER.pack_into
_EVENT_BYTES = layout.EVENT.size
_CALLS = frozenset(layout.CALLS)
_now = time.time_ns
NO_TEXT = 0, 0, 0
NO_VALUE = layout.NO_VALUE, 0
_MASK = (1 << 32) - 1
# Of the card: what names the rank when it is gone.
_LABELS = ("job", "rank", "world", "role", "coordinates")
# Of processes that did not end well: how many files, and for how long.
MOST_KEPT, KEPT_SECONDS = 256, 7 * 24 * 3600
# The step that ends here is not known yet: events before the first one.
_BEFORE_THE_FIRST = -1


class Ring:
    """The open file. `note` is what events go through."""

    def __init__(self, path: str, size: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            # Not sparse: a write to a full disk would kill the program with SIGBUS.
            os.posix_fallocate(descriptor, 0, size)
            self._map = native.map_file(descriptor, size)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(descriptor)
        self.path = path
        self._pid = os.getpid()
        texts, digests, events = layout.parts(size)
        self._texts_at, self._texts_end = texts, digests
        self._digests_at, self._digests = digests, (events - digests) // layout.DIGEST.size
        self._events_at, self._events = events, (size - events) // layout.EVENT.size
        self._next = itertools.count().__next__
        self._count = self._digest_count = self._texts_used = 0
        self.known: dict[Any, Text] = {}
        self._values: dict[str, int] = {}
        self._text_count = 0
        self._step, self._calls, self._hash, self._step_begin = _BEFORE_THE_FIRST, 0, 0, 0
        header = layout.new_header(size)
        self._map[: len(header)] = header

    def identify(self, identity: bytes) -> None:
        """Whose history it is, as JSON: the file is read when the process is gone."""
        room = layout.HEADER_BYTES - layout.IDENTITY_AT
        if len(identity) < room:
            self._map[layout.IDENTITY_AT : layout.HEADER_BYTES] = identity.ljust(room, b"\0")

    # --- texts ----------------------------------------------------------------------

    def text(self, key: Any, text: str, same: str = "") -> Text:
        """A text that `key` stands for, written now. `same`: of a call to other ranks, what is the
        same in all that take part."""
        found = self._add(text, self._texts_end), _checksum(same), _checksum(text)
        if found[0]:  # what finds no room is not remembered either
            self.known[key] = found
        return found

    def value_text(self, text: str) -> int:
        """The number of a value's text. Values may take half of the room: there are many."""
        number = self._values.get(text)
        if number is None:
            number = self._add(text, (self._texts_at + self._texts_end) // 2)
            if number:
                self._values[text] = number
        return number

    def _add(self, text: str, end: int) -> int:
        """Its number; 0 when there is no more room."""
        raw = text.encode("utf-8", "replace")[: layout.LONGEST_TEXT]
        at = self._texts_at + self._texts_used
        if at + layout.TEXT_LENGTH.size + len(raw) > end:
            return 0
        layout.TEXT_LENGTH.pack_into(self._map, at, len(raw))
        at += layout.TEXT_LENGTH.size
        self._map[at : at + len(raw)] = raw
        self._texts_used += layout.TEXT_LENGTH.size + len(raw)
        _pack_counter(self._map, layout.TEXTS_USED, self._texts_used)
        self._text_count += 1
        return self._text_count

    # --- events ---------------------------------------------------------------------

    def note(self, kind: int, text: Text, number: int = 0, value: Value = NO_VALUE) -> None:
        index = self._next()
        slot = self._events_at + index % self._events * _EVENT_BYTES
        self._count = index + 1
        _pack_event(self._map, slot, _now(), kind, value[0], text[0], number, value[1], index + 1)
        self._hash = hash((self._hash, kind, text[2]))
        if kind in _CALLS:
            self._calls = hash((self._calls, kind, text[1]))

    def step(self, step: int, kind: int = layout.STEP) -> None:
        """The end of what belongs to the last step, and the start of this one."""
        slot = self._digests_at + self._digest_count % self._digests * layout.DIGEST.size
        events = self._count - self._step_begin
        hashes = self._calls & _MASK, self._hash & _MASK
        layout.DIGEST.pack_into(self._map, slot, self._step, *hashes, events, self._step_begin)
        self._digest_count += 1
        _pack_counter(self._map, layout.DIGESTS_COUNT, self._digest_count)
        self._step, self._calls, self._hash, self._step_begin = step, 0, 0, self._count
        self.note(kind, NO_TEXT, step)

    def remove(self) -> None:
        if os.getpid() == self._pid:
            try:
                os.unlink(self.path)
            except OSError:
                pass


def _checksum(text: str) -> int:
    return crc32(text.encode("utf-8", "replace"))


_ring: Ring | None = None
_given_up = False


def get() -> Ring | None:
    """The ring of this process, made now if there is none; None if it is switched off, or cannot be
    made."""
    if _ring is None and not _given_up:
        _make()
    return _ring


def _make() -> None:
    global _ring, _given_up
    size = size_wanted(os.environ.get("RANKDBG_HISTORY", ""))
    try:
        if size:
            _ring = Ring(_new_path(), size)
            _ring.identify(_identity())
    except Exception as error:  # a full disk, a directory that is gone: the program goes first
        messages.write(f"no history in process {os.getpid()}: {error}")
    _given_up = _ring is None


def _new_path() -> str:
    directory = rendezvous.directory()
    rendezvous.prepare(directory)
    folder = os.path.join(directory, layout.FOLDER)
    os.makedirs(folder, 0o700, exist_ok=True)
    _remove_old(folder)
    return os.path.join(folder, f"{os.getpid()}-{rendezvous.start_time()}.history")


def _remove_old(folder: str) -> None:
    """Those of processes that were killed stay: the newest, for a week."""
    found = []
    for entry in os.scandir(folder):
        try:
            found.append((entry.stat(follow_symlinks=False).st_mtime, entry.path))
        except OSError:
            continue  # another process removes it
    found.sort(reverse=True)
    oldest = time.time() - KEPT_SECONDS
    for place, (changed, path) in enumerate(found):
        if (place >= MOST_KEPT or changed < oldest) and not _is_in_use(path):
            try:
                os.unlink(path)
            except OSError:
                pass


def _is_in_use(path: str) -> bool:
    """Whether its process lives: a rank that waits for a week has not written for a week."""
    pid = os.path.basename(path).partition("-")[0]
    return os.path.exists(f"/proc/{pid}")


def _identity() -> bytes:
    me = card.make()
    kept = {name: me[name] for name in ("pid", "start", "host")}
    labels = {name: me["labels"][name] for name in _LABELS if name in me["labels"]}
    return wire.encode({**kept, "labels": labels}).rstrip()


def card_changed() -> None:
    """The program knows its rank by now, or another one."""
    if _ring is not None:
        _ring.identify(_identity())


def at_exit() -> None:
    """What a program that has ended well did is of no interest. An uncaught exception has left its
    trace in sys by now."""
    if _ring is not None and not (hasattr(sys, "last_value") or hasattr(sys, "last_exc")):
        _ring.remove()


def size_wanted(text: str) -> int:
    """0: none. What cannot be read is the default."""
    units = {"K": 10, "M": 20}
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in units else (text, "")
    if not number.isascii() or not number.isdigit():
        return layout.SIZE
    size = int(number) << units.get(unit, 0)
    if size <= 1:
        return layout.SIZE * size
    return min(max(size, layout.LEAST), layout.LARGEST)


def user_frame(frame: FrameType | None) -> tuple[CodeType | None, int]:
    """The code and the line of the user's own function that called, from this frame outwards."""
    while frame is not None:
        code = frame.f_code
        known = _codes.get(id(code))  # to hash the code itself would take microseconds
        if known is None:
            from rankdbg.process.user_code import is_user_code

            known = _codes[id(code)] = code, is_user_code(code.co_filename)
        if known[1]:
            return code, frame.f_lineno or 0
        frame = frame.f_back
    return None, 0


def place_text(code: CodeType | None, line: int) -> str:
    return f"{code.co_filename}:{line} {code.co_name}" if code is not None else ""


# id -> the code, which is kept so that no other gets its id, and whether it is the user's
_codes: dict[int, tuple[CodeType, bool]] = {}


def _after_fork() -> None:
    """The child has a history of its own; the parent's file stays as it is."""
    global _ring, _given_up
    _ring, _given_up = None, False


active.after_fork.append(_after_fork)
active.at_exit.append(at_exit)
active.card_readers.append(card_changed)
