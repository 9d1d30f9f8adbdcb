"""Everything that is printed goes through one place, which spells out text of others."""

from __future__ import annotations

import ast
import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import rankdbg
from rankdbg.frontends.terminal import Terminal, cut, cut_path
from rankdbg.profiles import flame, tree
from rankdbg.profiles.documents import Profile, Weighted
from rankdbg.types import Frame, ProcessKey, Rank
from waiting import PATIENCE

SOURCE = Path(rankdbg.__file__).parent
PLACES = {"frontends/terminal.py", "frontends/standard_streams.py"}
# Beside a command nothing may wait for a stderr that is full or not read: it is written to without
# Python's streams, line by line through the same function.
BESIDE_A_COMMAND = {"frontends/watch/supervisor.py", "frontends/watch/beside.py"}
# The screens of the shell's prompt and of top are prompt_toolkit's.
MAY_DRAW = {
    *PLACES,
    "frontends/shell/typing.py",
    "frontends/shell/line_editor.py",
    "frontends/top/screen.py",
}
# These do not run where the user sits: their stdout and stderr are a protocol, or a rank's own.
ELSEWHERE = (
    "agent/",
    "node/",
    "demo/",
    "clusters/transport/landing.py",
    "clusters/ray/ray_driver.py",
)


def of_the_command(words: str) -> list[tuple[str, ast.Module]]:
    """The modules that print to the user's terminal and have one of these words, by their path."""
    texts = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    return [
        (name, ast.parse(text))
        for name, text in sorted(texts.items())
        if not name.startswith(ELSEWHERE) and re.search(words, text)
    ]


def test_nobody_goes_round_the_guarded_streams() -> None:
    """Not by the stream below, by the descriptor, or by Terminal's own entrance."""
    below = {"__stdout__", "__stderr__", "write_shown"}
    wrong = []
    words = "__stdout__|__stderr__|write_shown|buffer|unguarded|write|open|FileIO"
    for name, module in of_the_command(words):
        for node in ast.walk(module):
            if isinstance(node, ast.Attribute) and node.attr in below and name not in PLACES:
                wrong.append(f"{name}:{node.lineno}: {node.attr}")
            of_bytes = isinstance(node, ast.Attribute) and node.attr == "buffer"
            if of_bytes and ast.unparse(node) in ("sys.stdout.buffer", "sys.stderr.buffer"):
                wrong.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
            if isinstance(node, ast.Name) and node.id == "unguarded" and name not in MAY_DRAW:
                wrong.append(f"{name}:{node.lineno}: unguarded")
            by_descriptor = isinstance(node, ast.Call) and _opens_a_standard_descriptor(node)
            if by_descriptor and name not in BESIDE_A_COMMAND:
                wrong.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []


def _opens_a_standard_descriptor(call: ast.Call) -> bool:
    first = call.args[0] if call.args else None
    standard = isinstance(first, ast.Constant) and first.value in (1, 2, "/dev/tty")
    names = ("os.write", "os.fdopen", "open", "io.open", "io.FileIO")
    return standard and ast.unparse(call.func) in names


def test_only_the_terminal_has_codes_of_terminals() -> None:
    """No other module makes them: it would make them for a stream that spells them out."""
    wrong = [
        f"{name}:{node.lineno}"
        for name, module in of_the_command(r"\x1b|\r|\\x1b|\\r|\\033|\\N|\\u")
        for node in ast.walk(module)
        if isinstance(node, ast.Constant)
        if isinstance(node.value, str) and ("\x1b[" in node.value or "\r" in node.value)
        if name not in PLACES
        and not name.startswith(("logs/", "dumps/"))  # these read what programs wrote
    ]
    assert wrong == []


def guarded(code: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys\nfrom rankdbg.frontends.standard_streams import guarded\n{code}"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_a_forgotten_print_is_safe() -> None:
    """Also what writes to sys.stdout or sys.stderr without Terminal, whoever wrote it."""
    result = guarded(
        "import threading, warnings\n"
        "def fail(): raise ValueError('\\x1b[2J')\n"
        "with guarded():\n"
        "    print('a\\x1b]52;c;eA==\\x07b')\n"
        "    sys.stderr.write('\\u202e\\n')\n"
        "    warnings.warn('\\x9b2J')\n"
        "    thread = threading.Thread(target=fail)\n"
        "    thread.start(), thread.join()\n"
    )
    assert result.stdout == "a\\x1b]52;c;eA==\\x07b\n"
    assert "\\u202e\n" in result.stderr and "\\x9b2J" in result.stderr
    assert "ValueError: \\x1b[2J" in result.stderr


def shown_in_terminal(code: str) -> str:
    main, other = pty.openpty()
    code = f"from rankdbg.frontends.terminal import Terminal; t = Terminal(); {code}"
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    subprocess.run([sys.executable, "-c", code], stdout=other, check=True, env=environment)
    os.close(other)
    data = os.read(main, 65536).decode()
    os.close(main)
    return data


def test_styles_are_the_terminals_own() -> None:
    """Bold is a code of the terminal; the same code in a value is text."""
    shown = shown_in_terminal("t.print(t.bold('0-1') + '  \\x1b[1mfalse\\x1b[0m')")
    assert shown == "\x1b[1m0-1\x1b[0m  \\x1b[1mfalse\\x1b[0m\r\n"


def test_lines_are_cut_as_they_are_shown() -> None:
    """A character that is spelled out takes as many columns as it is spelled with."""
    assert cut("\x1b" * 10, 9) == "\\x1b\\x1b…"
    assert cut("a\nb", 10) == "a\\nb"
    assert cut_path("/a/\u202e/train.py", 12) == "…2e/train.py"
    assert cut("損失" * 3, 6) == "損失" * 3


def test_a_report_in_a_file_is_safe_as_well() -> None:
    """What is kept is read in a terminal later."""
    kept = io.StringIO()
    Terminal(kept).print("a\x1b[2J\u202e損失")
    assert kept.getvalue() == "a\\x1b[2J\\u202e損失\n"


def test_names_in_the_flame_graph() -> None:
    """They are text to the browser: no element begins or ends in one, and none is turned around."""
    rank = Rank(ProcessKey("node", 1, 1.0), "job", 0)
    frame = Frame("</script><script>alert(1)</script>\u202e損失", "/a/\u2066b.py", 3)
    stack = Weighted("MainThread", True, (frame,), 1.0)
    profile = Profile(rank, "samples", 1.0, (stack,), 100.0)
    page = flame.page(tree.grow([profile]), ["0\u202e"], "<b>__DATA__\u202e", "time")
    template = (SOURCE / "profiles/flame.html").read_text()
    assert page.count("<") == template.count("<")
    assert not set(page) & {"\u202e", "\u2066"}
    assert "&lt;b&gt;__DATA__\\u202e" in page
    assert "\\\\u202e\\u640d\\u5931" in page  # spelled out, and as it was
