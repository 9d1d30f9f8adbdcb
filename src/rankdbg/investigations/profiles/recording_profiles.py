"""A profile from its beginning to the value that is shown: recorded, brought home, read."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from rankdbg.errors import BadInput
from rankdbg.investigations.profiles import profile_files, profiling
from rankdbg.investigations.profiles.job_profiles import JobProfile
from rankdbg.investigations.rank_labels import label
from rankdbg.profiles.documents import Profile
from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.verdicts.rules.profile_rules import Phases
from rankdbg.wire.node_questions import BeginProfile


def check_folder(folder: Path) -> None:
    """Raises BadInput unless a profile can be written there."""
    try:
        there = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise BadInput(f"cannot write {folder}: {error.strerror}") from None
    if there:
        raise BadInput(f"{folder} already exists", hint="use a new directory")


def record_profile(
    session: Session,
    ranks: Sequence[Rank],
    all_ranks: Sequence[Rank],
    settings: BeginProfile,
    folder: Path,
    wait: Callable[[float], bool],
    sides: Sequence[Sequence[Rank]] = (),
    phases: Phases | None = None,
) -> JobProfile:
    """`settings` and `wait`: as profiling.record() takes them; `sides`: two to be compared."""

    def named(some: Sequence[Rank]) -> str:
        return label(some, all_ranks)

    kind = settings.kind
    existed = folder.exists()
    try:
        inner = profile_files.make_folder(folder)
        recorded = profiling.record(session, ranks, settings, inner, wait)
        profiles = profile_files.read_all(recorded, folder, named)
        diff = _indices(sides, profiles) if sides else None
        files = profile_files.nsys_reports(recorded, folder)
        if profiles:
            title = f"{kind} of ranks {named([p.rank for p in profiles])}"
            title += f", {recorded.seconds:.1f} s"
            files += profile_files.write_pictures(folder, profiles, title, named, diff)
        if not recorded.files:
            _clear(folder, existed)
    except KeyboardInterrupt:  # before the recording began, or for the second time
        _clear(folder, existed)
        raise
    except OSError as error:
        _clear(folder, existed)  # half a picture would pass for a whole one
        raise BadInput(
            f"cannot write {folder}: {error.strerror or error}",
            hint="choose another directory: --output DIR",
        ) from None
    of = phases.of if phases else None
    rate = settings.rate
    return JobProfile(kind, rate, recorded, profiles, all_ranks, folder, files, diff, of)


def _clear(folder: Path, existed: bool) -> None:
    with contextlib.suppress(OSError):  # it could not even be made
        for path in list(folder.iterdir()) if existed else [folder]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _indices(
    sides: Sequence[Sequence[Rank]], profiles: Sequence[Profile]
) -> tuple[list[int], list[int]] | None:
    """None if one side has no profile: there is nothing to compare then."""
    places = {profile.rank.process: index for index, profile in enumerate(profiles)}
    first, second = ([places[r.process] for r in side if r.process in places] for side in sides)
    return (first, second) if first and second else None
