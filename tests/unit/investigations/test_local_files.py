"""Which file of this machine is a copy of one that a rank runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdbg.investigations import local_files


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a few files."""
    for name in ("train.py", "__init__.py", "pkg/__init__.py", "pkg/model.py", "a/x.py", "b/x.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {name}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("/cluster/job/train.py", "train.py"),
        ("/cluster/job/pkg/model.py", "pkg/model.py"),
        ("/cluster/model.py", None),
        ("/cluster/other/__init__.py", None),
        ("/cluster/pkg/__init__.py", "pkg/__init__.py"),
        ("../secret/train.py", "train.py"),
        ("/cluster/job/none.py", None),
    ],
)
def test_the_longest_end_of_the_path(project: Path, file: str, found: str | None) -> None:
    """In the current directory; a name that every package has is not enough."""
    assert local_files.find(file) == (Path(found) if found else None)


def test_the_same_path_comes_first(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file at the very path is meant, not one of that name here."""
    other = tmp_path_factory.mktemp("elsewhere") / "train.py"
    other.touch()
    assert local_files.find(str(other)) == other


def test_search(project: Path) -> None:
    """Below the current directory: by the longest shared end, and not at random."""
    assert local_files.search("/cluster/model.py") == Path("pkg/model.py")
    assert local_files.search("/cluster/b/x.py") == Path("b/x.py")
    assert local_files.search("/cluster/c/x.py") is None
    assert local_files.search("/cluster/none.py") is None


def test_what_is_not_sent(project: Path) -> None:
    """A file that is too large, is no text, or no Python: the name came from a rank."""
    (project / "key").write_text("secret\n")
    assert local_files.read(Path("key")) is None
    (project / "large.py").write_bytes(b"#" * (local_files.LARGEST + 1))
    (project / "binary.py").write_bytes(b"\xff\xfe\x00")
    assert local_files.read(Path("large.py")) is None
    assert local_files.read(Path("binary.py")) is None
    assert local_files.read(Path("train.py")) == "# train.py\n"


def test_names(project: Path) -> None:
    """As one who sits here would write them."""
    assert local_files.name(Path("pkg/model.py")) == "./pkg/model.py"
    assert local_files.name(project / "train.py") == "./train.py"
    assert local_files.name(Path("/elsewhere/train.py")) == "/elsewhere/train.py"
