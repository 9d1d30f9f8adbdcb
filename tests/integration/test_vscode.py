"""`rankdbg vscode`: what editors need, written or printed."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from editor import Editor
from jobs import PROGRAMS, Job, free_port, rankdbg
from rankdbg.frontends.json_comments import _plain, parse
from waiting import PATIENCE, wait_for


def test_files_are_written_and_kept(tmp_path: Path) -> None:
    """One configuration and one task; what stood there stays, comments too."""
    settings = tmp_path / ".vscode"
    settings.mkdir()
    (settings / "launch.json").write_text('{\n  // mine\n  "configurations": [{"name": "x"}]\n}\n')
    words = ("vscode", "tp=0", "--port", 6000, "--lockstep", "-t", "ssh:gpu-1", "--map", ".=/job")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    for _ in range(2):
        result = rankdbg(*words, cwd=tmp_path, env=environment)
        assert result.returncode == 0, result.stderr
        assert "F5" in result.stdout
    text = (settings / "launch.json").read_text()
    mine, ours = _plain(parse(text))["configurations"]
    assert "// mine" in text and mine == {"name": "x"}
    assert ours["connect"] == {"host": "127.0.0.1", "port": 6000}
    assert ours["pathMappings"] == [{"localRoot": "${workspaceFolder}", "remoteRoot": "/job"}]
    token = (tmp_path / "state/rankdbg/dap-token").read_text().strip()
    assert ours["rankdbg"] == {"token": token}
    assert token not in (settings / "tasks.json").read_text()
    (task,) = json.loads((settings / "tasks.json").read_text())["tasks"]
    assert ours["preLaunchTask"] == task["label"]
    assert task["args"][:5] == ["-m", "rankdbg", "dap", "tp=0", "--port"]
    assert "--lockstep" in task["args"] and "ssh:gpu-1" in task["args"]
    (pattern,) = task["problemMatcher"][0]["pattern"]
    # Without these VS Code takes the task for one without a matcher, and never attaches.
    assert {"regexp", "file", "line", "message"} <= pattern.keys()


def test_what_the_shell_knows_is_carried_into_the_task(tmp_path: Path) -> None:
    """An editor that was not started from this shell finds the same cluster; and justMyCode."""
    known = {"KUBECONFIG": "mine.conf", "RANKDBG_TARGET": "k8s:train/app=x"}
    words = ("vscode", "--all-code", "--context", "dev", "--map", ".=/job")
    result = rankdbg(*words, cwd=tmp_path, env={**os.environ, **known})
    assert result.returncode == 0, result.stderr
    (task,) = json.loads((tmp_path / ".vscode/tasks.json").read_text())["tasks"]
    carried = {**known, "KUBECONFIG": str(tmp_path / "mine.conf")}
    assert task["options"] == {"env": carried}
    assert " ".join(task["args"]).endswith("--context dev --map .=/job")
    (ours,) = json.loads((tmp_path / ".vscode/launch.json").read_text())["configurations"]
    assert ours["justMyCode"] is False


def test_task_starts_a_server_that_the_configuration_reaches(job: Job, tmp_path: Path) -> None:
    """The line for which VS Code waits comes, and the attach finds the ranks."""
    launcher = PROGRAMS / "launch.py"
    job.start(sys.executable, launcher, 2, PROGRAMS / "dap_loop.py", "loops")
    job.wait_for(lambda ranks: [rank.agent for rank in ranks] == [True, True])
    job.cli("vscode", "--port", free_port(), cwd=tmp_path)
    (task,) = json.loads((tmp_path / ".vscode/tasks.json").read_text())["tasks"]
    launch = json.loads((tmp_path / ".vscode/launch.json").read_text())
    (configuration,) = launch["configurations"]
    server = subprocess.Popen(
        [task["command"], *task["args"]], env=job.environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        ends = task["problemMatcher"][0]["background"]["endsPattern"]
        assert re.match(ends, server.stdout.readline())
        editor = Editor(configuration["connect"]["port"], **configuration)
        assert list(editor.attach_all(2)) == [0, 1]
        editor.leave()
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE)


def test_new_files_are_for_this_user_alone(tmp_path: Path) -> None:
    """They hold the token; of one that others could read before, it is said."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    launch = tmp_path / ".vscode/launch.json"
    assert "chmod" not in rankdbg("vscode", cwd=tmp_path, env=environment, umask=0o022).stdout
    assert stat.S_IMODE(launch.stat().st_mode) == 0o600
    launch.chmod(0o644)
    said = rankdbg("vscode", "--port", 6002, cwd=tmp_path, env=environment).stdout
    assert "other users can read it: chmod 600 .vscode/launch.json" in said
    assert stat.S_IMODE(launch.stat().st_mode) == 0o644


def test_token_of_the_users_own_is_on_no_command_line(tmp_path: Path) -> None:
    """The task hands it on in the environment, which other users cannot read, until another
    configuration is written."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    rankdbg("vscode", "--token", "open sesame", cwd=tmp_path, env=environment)
    (task,) = json.loads((tmp_path / ".vscode/tasks.json").read_text())["tasks"]
    (launch,) = json.loads((tmp_path / ".vscode/launch.json").read_text())["configurations"]
    assert launch["rankdbg"] == {"token": "open sesame"}
    assert "open sesame" not in " ".join(task["args"])
    assert task["options"] == {"env": {"RANKDBG_DAP_TOKEN": "open sesame"}}
    rankdbg("vscode", cwd=tmp_path, env=environment)
    assert "open sesame" not in (tmp_path / ".vscode/tasks.json").read_text()
    assert "open sesame" not in (tmp_path / ".vscode/launch.json").read_text()


@pytest.mark.parametrize("editor", ["nvim", "emacs", "zed"])
def test_editors_that_start_an_adapter_can_use_a_socket(editor: str, tmp_path: Path) -> None:
    """The others are told which can."""
    result = rankdbg("vscode", "--editor", editor, "--socket", "/tmp/x/dap.sock", cwd=tmp_path)
    if editor == "zed":
        assert result.returncode == 2 and "nvim and emacs can" in result.stderr
        return
    assert "start:  rankdbg dap --socket /tmp/x/dap.sock\n" in result.stdout
    assert '"--connect"' in result.stdout and '"/tmp/x/dap.sock"' in result.stdout


@pytest.mark.parametrize("editor", ["nvim", "zed", "emacs", "pycharm"])
def test_other_editors_are_told(
    editor: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What to start and what to write, with the port and the token, or, for an editor that can,
    how to read it; no file is made."""
    home = tmp_path_factory.mktemp("home")
    environment = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": ""}
    words = ("vscode", "--editor", editor, "--port", 6001)
    result = rankdbg(*words, cwd=tmp_path, env=environment)
    token = (home / ".local/state/rankdbg/dap-token").read_text().strip()
    if editor == "nvim":
        assert token not in result.stdout
        assert '"~/.local/state/rankdbg/dap-token"' in result.stdout
    else:
        assert f'"{token}"' in result.stdout
    assert "start:  rankdbg dap --port 6001" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert result.stdout.count("6001") >= 2
    assert not list(tmp_path.iterdir())


def test_broken_file_is_left_alone(tmp_path: Path) -> None:
    """One sentence with the line, and status 2."""
    (tmp_path / ".vscode").mkdir()
    launch = tmp_path / ".vscode/launch.json"
    launch.write_text('{\n"configurations": [\n}')
    result = rankdbg("vscode", cwd=tmp_path)
    assert result.returncode == 2
    assert "launch.json is not JSON with comments: line 3" in result.stderr
    assert launch.read_text() == '{\n"configurations": [\n}'


def test_files_elsewhere_are_found_by_their_content(job: Job, tmp_path: Path) -> None:
    """A breakpoint in the editor's copy hits in ranks that run another; a file that differs is
    named."""
    there, here = tmp_path / "job/src", tmp_path / "workspace/src"
    for folder in (there, here):
        folder.mkdir(parents=True)
        (folder / "steps.py").write_text((PROGRAMS / "dap_loop.py").read_text())
        (folder / "other.py").write_text(f"name = {str(folder)!r}\n")
    program = there / "main.py"
    program.write_text("import other, steps\nsteps.loops()\n")
    job.start(sys.executable, PROGRAMS / "launch.py", 1, program)
    job.wait_for(lambda ranks: [r.where.function for r in ranks if r.where] == ["loops"])
    from editor import DapServer, frames

    with DapServer(job, cwd=here.parent) as server:
        editor = Editor(server)
        text = (here / "steps.py").read_text().splitlines()
        line = next(number for number, text in enumerate(text, 1) if "# in inner" in text)
        editor.break_at(here / "steps.py", line)
        session = editor.attach_all(1)[0]
        thread = session.event("stopped")["threadId"]
        assert frames(session, thread)[0] == ("inner", line)
        (frame, *_) = session.ask("stackTrace", threadId=thread)["stackFrames"]
        assert frame["source"]["path"] == str(here / "steps.py")
        words = "breakpoints in ./src/other.py may not hit: rank 0 runs a different version of it"
        wait_for(lambda: words in editor.parent.console(), editor.parent.console)
        editor.leave()
