"""A rank whose names, values and messages command the terminal: no verb lets them through."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job, command, rankdbg
from waiting import PATIENCE

SGR = re.compile("\x1b\\[[0-9;]*m")
# The verbs' words, and what each of them shows of what is hostile.
VERBS = {
    "ps": "train.py",
    "ps --all": "\\x1b]52",
    "stacks --threads all --locals": "value = <\\x1b]52",
    "ask all value": "<\\x1b]52",
    "ask all value.wrong": "ValueError: \\x1b]52",
    "list": "\\x1b]52",
    "why": "\\x1b]52",
    "cast 1 p value": "<\\x1b]52",
    "cast 1 where": "\\x1b]52",
    "break train.py:3": "train.py:3",
    "pause 1": "stopped",
    "logs": "\\x9b31m",
    "logs --diff": "kind",
    "doctor": "The job failed",
    "doctor --full": "\\x1b]52",
    "phases": "phase",
    "collectives": "torch.distributed",
    "select all": "0-1",
    "check": "py-spy",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    scratch = tmp_path_factory.mktemp("hostile")
    job = Job(f"hostile-{os.urandom(3).hex()}", scratch)
    words = (PROGRAMS / "launch.py", 2, PROGRAMS / "hostile.py", scratch / "log")
    try:
        job.start(sys.executable, *words, options=("--mesh", "dp=2"))
        wanted = [(0, "running"), (1, "stopped")]
        job.wait_for(
            lambda ranks: (
                sorted((r.number, r.state) for r in ranks) == wanted
                and all(r.where and r.where.file.endswith("train.py") for r in ranks)
            )
        )
        yield job
    finally:
        job.end()


def unsafe(text: str) -> set[str]:
    """Control and format characters. Its own joiners, hostile.py has none."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {c for c in text if unicodedata.category(c) in kinds} - {"\n", "\t"}


@pytest.mark.parametrize("words", VERBS)
def test_a_verb_in_a_pipe(hostile: Job, words: str) -> None:
    """Neither stdout nor stderr has a control character, and what is hostile can be read."""
    verb, *rest = words.split(" ")
    if verb == "cast":
        rest = [rest[0], " ".join(rest[1:])]
    result = hostile.cli(verb, *rest)
    assert (unsafe(result.stdout), unsafe(result.stderr)) == (set(), set())
    assert VERBS[words] in result.stdout + result.stderr
    assert "internal error in rankdbg" not in result.stderr


def conversation(words: list[str], typed: list[tuple[str, str]], **environment: str) -> str:
    """What is written to a terminal of 100 columns, while each line is typed when the text before
    it has come."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    process = subprocess.Popen(
        command(*words),
        stdin=other,
        stdout=other,
        stderr=other,
        env={**os.environ, "TERM": "xterm", **environment},
        start_new_session=True,
    )
    os.close(other)
    data, seen, deadline = b"", 0, time.monotonic() + PATIENCE
    try:
        while time.monotonic() < deadline:
            if typed and typed[0][0].encode() in data[seen:]:
                seen = len(data)
                os.write(main, typed.pop(0)[1].encode() + b"\r")
            if select.select([main], [], [], 0.1)[0]:
                part = os.read(main, 65536)
                if b"\x1b[6n" in part:  # where is the cursor?
                    os.write(main, b"\x1b[1;1R")
                data += part
    except OSError:  # all who had the terminal open have ended
        pass
    finally:
        os.close(main)
        process.kill()
        process.wait()
    assert not typed, data
    return data.decode()


@pytest.mark.parametrize(
    "words", ["ps --all", "stacks", "ask all value", "why", "logs", "doctor --full"]
)
def test_a_verb_in_a_terminal(hostile: Job, words: str) -> None:
    """It has rankdbg's colours, and no other code."""
    place = {"RANKDBG_DIR": str(hostile.directory)}
    shown = conversation([*words.split(" "), "--job", hostile.name], [], **place)
    shown = re.sub("\r(\x1b\\[K|[^\r\n]*\x1b\\[K)", "", shown)  # a line of progress
    assert SGR.search(shown)
    assert unsafe(SGR.sub("", shown).replace("\r\n", "\n")) == set()
    assert "31m\\x85" in shown or "\\x1b]52" in shown


def test_the_shell_in_a_terminal(hostile: Job) -> None:
    """Nor do they come through pdb's output, a stop's header, or the prompt's own screen."""
    typed = [
        ("rankdbg>", "ask all value"),
        ("ZXZpbA", "cast 1 p value"),
        ("end>", "attach 1"),
        ("(rank 1)", "p value"),
        ("end>", "detach"),
        ("rankdbg>", "quit"),
    ]
    place = {"RANKDBG_DIR": str(hostile.directory)}
    shown = conversation(["shell", "--job", hostile.name], typed, **place)
    assert "<\\x1b]52;c;ZXZpbA==\\x07\\x1b[2J" in shown
    codes = set(re.findall("\x1b(\\[[0-9;?]*[A-Za-z]|.)", shown))
    assert not {code for code in codes if code[0] in "]P^_X\\"}  # clipboard, links, titles
    assert "[2J" not in codes
    assert not set(shown) & {
        *"\u202e\u2066\u2069\u200e\u061c\u2028\u200b\x9b\x85\x07\x7f\U000e0041"
    }


@pytest.mark.extra
def test_files_to_read_later(hostile: Job, tmp_path: Path) -> None:
    """A snapshot's reports, what doctor keeps, and the page of a profile."""
    assert hostile.cli("save", tmp_path / "kept").returncode == 0
    target = f"snapshot:{tmp_path / 'kept'}"
    for words in (["stacks", "--locals"], ["ps", "--all"], ["why"], ["list"]):
        result = rankdbg(*words, "-t", target)
        assert result.returncode == 0, result.stderr
        assert unsafe(result.stdout + result.stderr) == set()
    hostile.cli("doctor", "--save", tmp_path / "report")
    for name in ("report.txt", "evidence.txt"):
        kept = (tmp_path / "report" / name).read_text()
        assert "\\x1b]52" in kept and unsafe(kept) == set()
    result = hostile.cli("profile", "0", "--seconds", "1", "--output", tmp_path / "profile")
    assert unsafe(result.stdout + result.stderr) == set()
    page = (tmp_path / "profile" / "flame.html").read_text()
    assert "\\x1b]52" in page and unsafe(page) == set()


def test_json_has_the_characters_themselves(hostile: Job) -> None:
    """A program gets what the rank said; on its way it is ASCII."""
    result = hostile.cli("ask", "all", "value", "--json")
    assert result.stdout.isascii() and unsafe(result.stdout) == set()
    text = json.loads(result.stdout)["groups"][0]["value"]
    assert text.startswith("<\x1b]52;c;ZXZpbA==\x07") and "\u202e" in text


def test_ordinary_text_is_shown_as_it_is(job: Job) -> None:
    """Letters of other languages, emoji, tabs and lines: in values, outputs and errors."""
    job.start_ranks("waits")
    job.wait_at("waits")
    texts = ("naïve 損失 الخسارة ההפסד", "👩\u200d💻 می\u200cخواهم ❤\ufe0f", "a\tb")
    for text in texts:
        code = f"type('V', (), {{'__repr__': lambda self: {text!r}}})()"
        assert job.cli("ask", "0", code).stdout == f"0  {text}\n"
