"""Every verb with every kind of bad input: a sentence, never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from jobs import PROGRAMS
from rankdbg.frontends.cli import VERBS
from waiting import TEST_SECONDS

# These start or serve something until they are ended, whatever they are given.
ENDLESS = {"demo", "dap", "forward", "mcp", "shell", "web"}


TRIED = [verb for verb in VERBS if verb not in ENDLESS]


@pytest.fixture(scope="module", params=["some", pytest.param("many", marks=pytest.mark.extra)])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What went wrong with each verb. (RANKDBG_TEST_INPUTS=all: all values with all
    options.)"""
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    scratch = tmp_path_factory.mktemp("inputs")
    environment = {
        **os.environ,
        **{"RANKDBG_DIR": str(scratch / "agents"), "HOME": str(scratch)},
        "RANKDBG_TEST_INPUTS": os.environ.get("RANKDBG_TEST_INPUTS", request.param),
    }
    # Without these, the modes of files count for root too.
    words = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] * (not os.geteuid())
    words += [sys.executable, str(PROGRAMS / "every_input.py"), str(scratch), *TRIED]
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.timeout(2 * TEST_SECONDS)
@pytest.mark.parametrize("verb", TRIED)
def test_bad_input(verb: str, results: Any) -> None:
    """Options and words that are empty, endless, no number, no UTF-8, control characters, binary
    files, directories, devices, links to themselves, what may not be read."""
    assert results[verb]["wrong"] == []
    assert results[verb]["calls"] or verb == "ray-fix"
