"""Where the ranks' files are here, by their content."""

from __future__ import annotations

from pathlib import Path

from rankdbg.frontends.dap.mappings import match
from rankdbg.investigations import local_files


def written(folder: Path, **texts: str) -> dict[str, str]:
    """Files (a_b is a/b.py) and their digests, as a rank gives them."""
    digests = {}
    for name, text in texts.items():
        path = folder / f"{name.replace('_', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digests[str(path)] = local_files.digest(path)
    return digests


def test_folder_elsewhere_is_mapped(tmp_path: Path) -> None:
    """One pair of folders for all files below them."""
    texts = {"train": "x = 1", "model_layers": "y = 2"}
    there, here = tmp_path / "job", tmp_path / "here"
    digests = written(there, **texts)
    written(here, **texts)
    roots, differing = match(digests, workspace=str(here))
    assert roots == [{"localRoot": str(here), "remoteRoot": str(there)}]
    assert differing == []


def test_files_of_the_workspace_need_no_mapping(tmp_path: Path) -> None:
    """They are called the same."""
    assert match(written(tmp_path, train="x = 1"), workspace=str(tmp_path)) == ([], [])


def test_other_version_is_told(tmp_path: Path) -> None:
    """The file here that the rank's differs from."""
    digests = written(tmp_path / "job", pkg_train="x = 1")
    written(tmp_path / "here", pkg_train="x = 2")
    roots, differing = match(digests, workspace=str(tmp_path / "here"))
    assert roots == []
    assert [Path(name).name for name in differing] == ["train.py"]


def test_what_the_user_has_named_is_left_alone(tmp_path: Path) -> None:
    """--map counts, whatever the content."""
    digests = written(tmp_path / "job", pkg_train="x = 1")
    written(tmp_path / "here", pkg_train="x = 2")
    named = [(str(tmp_path / "here"), str(tmp_path / "job"))]
    assert match(digests, named, str(tmp_path / "here")) == ([], [])
