"""Job files of `rankdbg watch --config`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from fuzzing import Target, documented, short_form
from mutations import HOSTILE, changed_document, mixed_lines
from rankdbg.errors import BadInput
from rankdbg.investigations.watch import watch_settings

FILE = """\
name: train
log_dir: /tmp/logs
debug:
  enabled: true
  hang_after: 180
  wait_seconds: [600, 1200]
  every: 0
  output_dir: "{log_dir}/backtraces"
  cuda: suspects
  notify: mail -s hang me@a.org
  webhook: https://example.org/hook
  abort: false
  exit_status: 86
  rules: [mine.toml]
  grace: 5.0
  before_end: 120
"""
WORDS = (
    *(
        "&a",
        "*a",
        "<<: *a",
        "!!python/object:os.system",
        "!!binary |",
        "? x",
        "- ",
        "{",
        "}",
        "[",
        "]",
    ),
    *(
        ": ",
        "#",
        "---",
        "...",
        "%YAML 1.1",
        "|",
        ">",
        "'",
        '"',
        "~",
        "null",
        "yes",
        "0x1f",
        "1_000",
    ),
    *(
        "2026-13-45",
        "2026-03-01T25:61:61",
        ".inf",
        ".nan",
        "1:99:99",
        "9" * 400,
        "=",
        "${HOME}",
        HOSTILE,
    ),
)
SECTION = {
    "debug": {
        **{
            "enabled": True,
            "hang_after": 180,
            "wait_seconds": [600],
            "cuda": "none",
            "rules": ["a"],
        },
        **{"exit_status": 86, "grace": 5.0, "output_dir": "x", "abort": False},
    },
    "log_dir": "/tmp",
}


def job_files(random: Random) -> bytes:
    if random.random() < 0.3:
        return repr(changed_document(random, [SECTION])).encode("utf-8", "surrogatepass")
    return mixed_lines(random, [FILE], WORDS)


def check(data: bytes) -> None:
    """What the confined child does, here: what it raises would be its end there, without a word."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "job.yaml")
        file.write_bytes(data)
        with documented(BadInput):
            made = watch_settings._plain(str(file), watch_settings._read(str(file)))
            if isinstance(made, dict):
                with documented(BadInput):
                    watch_settings.check(watch_settings.WatchSettings(**made))


def check_confined(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "job.yaml")
        file.write_bytes(data)
        try:
            watch_settings.read_file(str(file))
        except BadInput as error:
            assert "the process that read it has failed" not in str(error)


TARGETS = [
    Target("job-files", job_files, check, 150),
    Target("confined", job_files, check_confined, 10),
]
test_job_files, test_confined = map(short_form, TARGETS)
