"""The fix of Ray's nsight plugin, on the plugin of the Ray that is here."""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from rankdbg.agent.nsys import ray_nsight

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")


@pytest.fixture
def plugins() -> Any:
    """A module of its own, so that nothing of this process is changed."""
    importlib.import_module(ray_nsight.MODULE)
    before = sys.modules.pop(ray_nsight.MODULE)
    module = importlib.import_module(ray_nsight.MODULE)
    sys.modules[ray_nsight.MODULE] = before
    return module


def command(plugins: Any, folder: Path, options: Any, python: str) -> str:
    """What Ray would have a shell execute."""
    from ray._private.runtime_env.context import RuntimeEnvContext
    from ray.runtime_env import RuntimeEnv

    plugin = plugins.NsightPlugin(str(folder / "session" / "resources"))
    context = RuntimeEnvContext(py_executable=python)
    plugin.modify_context([], RuntimeEnv(nsight=options), context, plugins.default_logger)
    return str(context.py_executable)


def test_interpreter_is_kept(plugins: Any, tmp_path: Path) -> None:
    """Whatever it is; without the fix it is `python`."""
    assert command(plugins, tmp_path, "default", "uv run --locked python").endswith(" python")
    assert "uv" not in command(plugins, tmp_path, "default", "uv run --locked python")
    ray_nsight.fix(plugins)
    made = command(plugins, tmp_path, "default", "uv run --locked python")
    folder = tmp_path / "session" / "logs" / "nsight"
    assert made == (
        f"{shutil.which('setsid')} --wait nsys profile -t cuda,cudnn,cublas,nvtx -o {folder}/worker_process_%p "
        "--stop-on-exit=true uv run --locked python"
    )


def test_options_are_quoted(plugins: Any, tmp_path: Path) -> None:
    """For the shell, once: quotes that the user has written are not doubled."""
    ray_nsight.fix(plugins)
    options = {"o": "'a b_%p'", "env-var": "A=$HOME; rm x", "t": "cuda"}
    words = shlex.split(command(plugins, tmp_path, options, "python3"))
    folder = tmp_path / "session" / "logs" / "nsight"
    assert {f"{folder}/a b_%p", "--env-var=A=$HOME; rm x", "cuda", "python3"} <= set(words)


def test_fixed_once(plugins: Any) -> None:
    """Again is the same; and a version that keeps the interpreter is left alone."""
    ray_nsight.fix(plugins)
    fixed = plugins.NsightPlugin.modify_context
    ray_nsight.fix(plugins)
    assert plugins.NsightPlugin.modify_context is fixed


@pytest.mark.parametrize("text", ["", "a", "'a b'", '"', "a 'b", "$(rm x)", "a\nb", "\\", "''"])
def test_quoted_is_one_word(text: str) -> None:
    """Whatever it is."""
    assert len(shlex.split(ray_nsight.quoted(text))) == 1
