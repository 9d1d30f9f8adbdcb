"""whole_files.py: a reader finds the old file or the new one, and nothing is left beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankdbg.files.whole_files import check_directory, open_whole
from strangers import STRANGER, as_stranger, needs_root, public_place


def test_the_new_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    """Until then the old one; and the new one is for its owner alone."""
    place = tmp_path / "report"
    place.write_text("old")
    with open_whole(place) as file:
        file.write("new")
        file.flush()
        assert place.read_text() == "old"
    assert place.read_text() == "new"
    assert place.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_the_mode_that_is_asked_for(tmp_path: Path) -> None:
    """Whatever the umask is."""
    with open_whole(tmp_path / "report", 0o664) as file:
        file.write("new")
    assert (tmp_path / "report").stat().st_mode & 0o777 == 0o664


def test_the_old_file_stays_if_writing_fails(tmp_path: Path) -> None:
    """Also at Ctrl-C."""
    place = tmp_path / "report"
    place.write_text("old")
    with pytest.raises(KeyboardInterrupt), open_whole(place) as file:
        file.write("half of it")
        raise KeyboardInterrupt
    assert place.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_text_that_cannot_be_encoded_is_an_error(tmp_path: Path) -> None:
    """The old file stays, unless the caller says that such characters may be replaced."""
    place = tmp_path / "report"
    place.write_text("old")
    with pytest.raises(UnicodeError), open_whole(place) as file:
        file.write("/opt/\udcff/python")
    assert place.read_text() == "old"
    with open_whole(place, errors="replace") as file:
        file.write("/opt/\udcff/python")
    assert place.read_text() == "/opt/?/python"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_mode_that_cannot_be_set_leaves_nothing(tmp_path: Path) -> None:
    """Neither the draft nor its descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OverflowError), open_whole(tmp_path / "report", 1 << 70):
            pass
    assert not [*tmp_path.iterdir()]
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_directory_is_tried(tmp_path: Path) -> None:
    """Root may write in /proc by its permissions, and cannot. Nothing is left where it can."""
    check_directory(tmp_path / "report")
    assert not [*tmp_path.iterdir()]
    with pytest.raises(OSError):
        check_directory(Path("/proc/report"))


@needs_root
def test_what_another_user_has_laid_there_is_not_written_to() -> None:
    """In a directory that all may write to: no name of ours can be known before it is there. The
    stranger lays a link for each name that they have seen, and for what will come with our pid."""
    with public_place() as place:
        place.chmod(0o777)
        precious = place / "precious"
        precious.write_text("precious")
        names = [_draft_seen(place) for _ in range(3)]
        assert len({*names}) == 3
        laid = as_stranger(
            "import os, sys; [os.symlink(sys.argv[1], each) for each in sys.argv[2:]]",
            precious,
            *(place / name for name in names),
        )
        laid.communicate()
        assert laid.returncode == 0
        assert (place / names[0]).lstat().st_uid == STRANGER
        with open_whole(place / "report") as file:
            file.write("new")
        assert precious.read_text() == "precious"
        assert (place / "report").read_text() == "new"
        assert (place / "report").lstat().st_uid == 0


def _draft_seen(place: Path) -> str:
    with open_whole(place / "report") as file:
        file.write("old")
        (name,) = {path.name for path in place.iterdir()} - {"report", "precious"}
    return name
