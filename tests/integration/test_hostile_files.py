"""Files made to fill the memory, to hang or to break whoever reads them: a sentence each; and
large, odd and piped files that are as they should be."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import pickle
import shlex
import struct
import sys
from pathlib import Path

import pytest

from confining import MEMORY, confined, piped, said
from tiers import chiefly

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
BACKTRACKS = "(a+)+$"
SPLIT_IN_VAIN = "a" * 60 + "!"
OURS = f"{shlex.quote(sys.executable)} -m rankdbg"


def line(seconds: int, text: str) -> str:
    return f"2026-03-01 10:00:{seconds:02} {text}\n"


# --- dumps of the flight recorder ---------------------------------------------------------


def _doubled(levels: int) -> bytes:
    made = b"K\x01"
    for _ in range(levels):
        made += b"2\x86"  # DUP, TUPLE2
    return made


def colliding(count: int) -> bytes:
    """A pickle of a dict whose keys all have one hash: each is compared with all before it."""
    modulus = 2**61 - 1
    keys = b"".join(
        b"\x8a\x10" + (number * modulus).to_bytes(16, "little") + b"N" for number in range(count)
    )
    return b"\x80\x02}(" + keys + b"u."


ENTRY = {"profiling_name": "nccl:all_reduce", "collective_seq_id": 1, "process_group": ["0", "d"]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\x02K\x01r\xff\xff\xff\x0f.", "too much for its size"),  # LONG_BINPUT
        (b"\x80\x02K\x01p268435455\n.", "too much for its size"),  # PUT
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.", "too much for its size"),  # BINBYTES8
        (b"\x80\x05\x96" + struct.pack("<Q", 2**33) + b"x.", "too much for its size"),  # BYTEARRAY8
        (b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"x.", "damaged"),  # BINUNICODE8
        (b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x.", "damaged"),  # LONG4
        (b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"K\x01.", "damaged"),  # FRAME
        (b"\x80\x02" + b"]" * 1_000_000 + b"a" * 999_999 + b".", "no dump"),
        (b"\x80\x02cos\nsystem\n(S'true'\ntR.", "would load os.system"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "would load os.system"),
        (b"\x80\x02\x82\x01.", "damaged"),  # EXT1
        (b"\x80\x02Pelsewhere\n.", "references to external objects"),  # PERSID
        (b"\x80\x02K\x01Q.", "references to external objects"),  # BINPERSID
        (colliding(200_000), "within"),  # to its deadline
        (b"[" * 200_000, "damaged"),
        (b'{"entries": [' + b"9" * 100_000 + b"]}", "damaged"),
    ],
    ids=lambda value: value[:12].hex() if isinstance(value, bytes) else None,
)
def test_a_dump_that_attacks_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    """With its reason, in little memory and in time, and the good one beside it is shown."""
    good = {"entries": [ENTRY], "pg_config": {"0": {"ranks": "[0, 1]", "desc": "d"}}}
    (tmp_path / "dump_0").write_bytes(pickle.dumps(good))
    (tmp_path / "dump_1").write_bytes(content)
    limit = (
        "rankdbg.investigations.dumps.recorder_dumps:LEAST_SECONDS=2" if reason == "within" else ""
    )
    result = confined("collectives", "--dumps", tmp_path, "--json", limit=limit)
    found = json.loads(result.stdout)
    ((file, why),) = [entry.values() for entry in found["skipped"]]
    assert (file, reason in why) == (str(tmp_path / "dump_1"), True), why


def test_a_dump_of_doubled_lists_is_not_written_out(tmp_path: Path) -> None:
    """A name that is a list of lists, 2^200 of them, is no name."""
    entry = b"}(U\x0eprofiling_name" + _doubled(200) + b"U\x11collective_seq_idK\x01u"
    (tmp_path / "dump_0").write_bytes(b"\x80\x02}U\x07entries](" + entry + b"es.")
    result = confined("collectives", "--dumps", tmp_path, "--json")
    assert result.returncode == 0, result.stderr
    assert [group["group"] for group in json.loads(result.stdout)["groups"]] == [""]


@pytest.mark.extra
def test_a_large_dump_is_read(tmp_path: Path) -> None:
    """20,000 operations with their stacks."""
    frames = [{"name": f"f{n}", "filename": "/a/train.py", "line": n} for n in range(20)]
    entries = [
        {**ENTRY, "collective_seq_id": n, "record_id": n, "state": "completed", "frames": frames}
        for n in range(20_000)
    ]
    config = {"0": {"ranks": "[0]", "desc": "d"}}
    (tmp_path / "dump_0.json").write_text(json.dumps({"entries": entries, "pg_config": config}))
    assert (tmp_path / "dump_0.json").stat().st_size > 20_000_000
    result = confined("collectives", "--dumps", tmp_path, memory=3 << 30)
    assert result.stdout.startswith("No rank waits"), result.stderr


# --- logs ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_no_file_is_no_log(tmp_path: Path) -> None:
    """A pipe without a writer and /dev/zero in a directory are left out, also by a node; named
    alone, a device is refused."""
    (tmp_path / "a.log").write_text(line(1, OOM))
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "zero.log").symlink_to("/dev/zero")
    for words in ([tmp_path], ["-t", "local", tmp_path]):
        assert "cuda_oom" in confined("doctor", *words).stdout
        assert OOM in confined("logs", *words).stdout
    for verb in ("doctor", "logs"):
        for words in ([], ["-t", "local"]):
            result = confined(verb, *words, tmp_path / "zero.log")
            # A node that is asked has more to tell than its logs.
            status = 2 if verb == "logs" or not words else result.returncode
            assert "a device, not a regular file" in said(result, status)


@pytest.mark.extra
def test_pipes_that_the_user_names(tmp_path: Path) -> None:
    """`<(…)`, /dev/stdin and a named pipe are read to their end, compressed or not."""
    (tmp_path / "a.log").write_text(line(1, OOM) + line(2, "step 7"))
    os.mkfifo(tmp_path / "pipe")
    for command in (
        f"{OURS} VERB <(cat a.log)",
        f"{OURS} VERB <(gzip -c a.log)",
        f"cat a.log | {OURS} VERB /dev/stdin",
        f"cat a.log > pipe & {OURS} VERB pipe",
    ):
        found = piped(command.replace("VERB", "doctor"), tmp_path)
        assert "cuda_oom" in found.stdout, (command, found.stderr)
        found = piped(command.replace("VERB", "logs --grep 'step \\d'"), tmp_path)
        assert "step 7" in found.stdout, (command, found.stderr)


def test_holes_are_not_read(tmp_path: Path) -> None:
    """A log of 8 TB, of which two lines were written, is read at once; what stands behind a hole
    has its place."""
    log = tmp_path / "train.log"
    with log.open("wb") as file:
        file.write(line(1, "begin").encode())
        file.seek(2**42)
        file.write(line(2, OOM).encode())
        file.truncate(2**43)
    found = json.loads(confined("doctor", "--json", log).stdout)
    assert [failure["mode"] for failure in found["failures"]] == ["cuda_oom"]
    lines = json.loads(confined("logs", "--json", log).stdout)["lines"]
    assert [each["text"] for each in lines] == ["begin", OOM]


@pytest.mark.parametrize("packed", chiefly([True], [False, True]))
def test_a_line_without_an_end(tmp_path: Path, packed: bool) -> None:
    """It is cut, which is said in its place, and the lines around it are shown."""
    log = tmp_path / "train.log"
    content = line(1, "begin") + line(2, "x" * (200 << 20)) + line(3, "end")
    log.write_bytes(gzip.compress(content.encode(), 1) if packed else content.encode())
    lines = json.loads(confined("logs", "--json", log).stdout)["lines"]
    begin, long, end = [each["text"] for each in lines]
    assert (begin, end) == ("begin", "end")
    assert long.startswith("xxx")
    assert long.endswith("(cut after 4000 characters)")
    assert "none that a rule knows" in confined("doctor", log).stdout


@pytest.mark.extra
@pytest.mark.slow
def test_a_log_that_unpacks_without_end(tmp_path: Path) -> None:
    """4 kB of bzip2 that are 5 GB: read in part, which is said with what to do."""
    log = tmp_path / "train.log"
    log.write_bytes(bz2.compress(line(1, OOM).encode()) + bz2.compress(bytes(50 << 20)) * 100)
    assert log.stat().st_size < 10_000
    result = confined("doctor", log)
    assert "cuda_oom" in result.stdout
    assert "unpacks to more than 256 MiB, too much for a log of its size" in result.stderr
    assert "unpacks to more than" in said(confined("logs", log))


def test_a_large_log_that_is_one(tmp_path: Path) -> None:
    """60 MB of ordinary lines, plain and compressed, in little memory."""
    log = tmp_path / "train.log"
    with log.open("w") as file:
        for _ in range(12):
            file.write("".join(line(1, f"step {n} loss 0.1") for n in range(1200)) * 100)
        file.write(line(59, OOM))
    assert log.stat().st_size > 50_000_000
    (tmp_path / "packed.gz").write_bytes(gzip.compress(log.read_bytes(), 1))
    for path in (log, tmp_path / "packed.gz"):
        result = confined("doctor", path)
        assert ("cuda_oom" in result.stdout, result.stderr) == (True, "")


@pytest.mark.extra
@pytest.mark.slow
def test_too_many_files(tmp_path: Path) -> None:
    """The first 10,000 are read, and it is said that there are more and how to narrow."""
    for number in range(10_100):
        (tmp_path / f"{number:06}.log").write_text(line(1, f"hello {number}"))
    for words in ([], ["-t", "local"]):
        result = confined("logs", *words, tmp_path, "--tail", 1, "--timeout", 60)
        assert "hello 9999" in result.stdout
        assert "more than 10000 log files" in result.stderr
        assert "name a directory further down" in result.stderr
    result = confined("doctor", tmp_path)
    assert result.stdout.startswith("read      10000 files")


RECORDS = [
    '{"time": Infinity, "message": "said"}',
    '{"time": 1e999, "message": "said"}',
    '{"ts": %s, "message": "said"}' % ("9" * 400),
    '{"rank": %s, "message": "said"}' % ("9" * 3000),
    '{"value": %s, "log_type_name": "said"}' % ("9" * 400),
    '{"message": "said", "deep": %s}' % ("[" * 1500 + "]" * 1500),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record[:24])
def test_records_made_to_break_their_readers(tmp_path: Path, record: str) -> None:
    """A number that no clock shows, or a record that is too deep, is a line like others."""
    (tmp_path / "a.log").write_text(f"{record}\n")
    result = confined("logs", tmp_path / "a.log")
    assert result.returncode == 0, result.stderr
    assert "said" in result.stdout


def test_runs_of_one_character(tmp_path: Path) -> None:
    """A progress bar, or a number of 200,000 digits, is looked at once and not from each of its
    characters: --diff ends."""
    digits = "1" * 200_000
    bars = f"  {'-' * 3990}\n" * 100
    for rank in range(2):
        text = line(1, f"hello {rank}") + bars + f"{digits}\r{digits}\rend\n"
        (tmp_path / f"rank_{rank}.log").write_text(text)
    assert confined("logs", tmp_path, "--diff").returncode == 0


# --- users' expressions -------------------------------------------------------------------


@pytest.fixture
def backtracking(tmp_path: Path) -> Path:
    """A log with a line on which the expression never ends, and a failure behind it."""
    (tmp_path / "a.log").write_text(line(1, SPLIT_IN_VAIN) + line(2, OOM))
    rule = 'mode = "vain"\ncause = "c"\nfix = "f"\nmatch = [["aaaa", "(a+)+$"]]'
    (tmp_path / "mine.toml").write_text(f"[[failure]]\n{rule}\n")
    return tmp_path


@pytest.mark.parametrize("target", chiefly([("-t", "local")], [(), ("-t", "local")]))
def test_a_grep_that_backtracks(backtracking: Path, target: tuple[str, ...]) -> None:
    """It is named, here and on a node, with what to change; one that does not is as quick as ever."""
    words = ["logs", *target, backtracking / "a.log"]
    error = said(confined(*words, "--grep", BACKTRACKS))
    assert "--grep: the regular expression '(a+)+$' takes too long" in error
    assert "nested repeats" in error
    assert "OutOfMemory" in confined(*words, "--grep", "a+b|Out").stdout


@pytest.mark.parametrize("target", chiefly([("-t", "local")], [(), ("-t", "local")]))
def test_a_rule_that_backtracks(backtracking: Path, target: tuple[str, ...]) -> None:
    """It is left out and named; all other rules are tried."""
    words = [*target, backtracking / "a.log", "--rules", backtracking / "mine.toml"]
    result = confined("doctor", *words)
    assert "cuda_oom" in result.stdout
    assert "rule was left out: vain" in said(result)


@pytest.mark.extra
@pytest.mark.parametrize("more", ["unless = ['(a+)+$']", "rank = '(?P<ranks>(a+)+)$'"])
def test_other_expressions_of_a_rule_that_backtrack(backtracking: Path, more: str) -> None:
    """`unless`, which is tried on lines, and `rank`, on what was found."""
    rule = '[[failure]]\nmode = "vain"\ncause = "c"\nfix = "f"\nmatch = ["aaaa"]\n'
    (backtracking / "mine.toml").write_text(rule + more)
    words = [backtracking / "a.log", "--rules", backtracking / "mine.toml"]
    assert "vain" in said(confined("doctor", *words))


@pytest.mark.extra
@pytest.mark.parametrize("words", [["phases", "a.log", "--rules"], ["rules", "check"]])
def test_a_phase_that_backtracks(backtracking: Path, words: list[str]) -> None:
    """It is named by its framework and its own name."""
    phase = '[[phase]]\nstack = "s"\nphase = "p"\nmatch = [["aaaa", "(a+)+$"]]\n'
    (backtracking / "mine.toml").write_text(phase)
    more = ["a.log"] if words[0] == "rules" else []
    result = confined(*words, "mine.toml", *more, cwd=backtracking)
    assert "rule was left out: s: p" in said(result)


@pytest.mark.parametrize(
    "expression", ["a{99999999999}", "(" * 3000 + ")" * 3000, "(?P<a>x)(?P<a>y)"]
)
def test_what_is_no_expression(tmp_path: Path, expression: str) -> None:
    """Said with its reason, in --grep and in a rule."""
    (tmp_path / "a.log").write_text(line(1, OOM))
    error = said(confined("logs", tmp_path / "a.log", "--grep", expression))
    assert "invalid regular expression" in error
    rule = f"mode = 'm'\ncause = 'c'\nfix = 'f'\nmatch = [['aaaa', '{expression}']]"
    (tmp_path / "mine.toml").write_text(f"[[failure]]\n{rule}\n")
    error = said(confined("doctor", tmp_path / "a.log", "--rules", tmp_path / "mine.toml"))
    assert "[[failure]] m" in error
    assert "invalid regular expression" in error


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000,
        "x = " + "9" * 5000,
        "[[failure]]\nmode='m'\ncause='c'\nfix='f'\nmatch=['abc']\nunless=[1]",
        "[[failure]]\nmode='m'\ncause='c'\nfix='f'\nmatch=['abc']\nafter=99999999999999999999",
        "[[failure]]\nmode='m'\ncause='c'\nfix='f'\nmatch=['abc']\nlinks=[[]]",
    ],
    ids=lambda text: text[-20:],
)
def test_rule_files_that_attack(tmp_path: Path, text: str) -> None:
    """Deep or endless TOML, and values of no use: a sentence with the file's name."""
    (tmp_path / "a.log").write_text(line(1, OOM))
    (tmp_path / "mine.toml").write_text(text)
    error = said(confined("doctor", tmp_path / "a.log", "--rules", tmp_path / "mine.toml"))
    assert "mine.toml" in error


# --- job files ----------------------------------------------------------------------------


def laughing(merge: bool) -> str:
    """Aliases of aliases, nine at a time: 9^11 when they are written out."""
    item = "{k0: x}" if merge else "[x]"
    lines = [f"a0: &a0 {item}"]
    for level in range(1, 12):
        aliases = ",".join([f"*a{level - 1}"] * 9)
        lines.append(
            f"a{level}: &a{level} " + (f"{{<<: [{aliases}]}}" if merge else f"[{aliases}]")
        )
    return "\n".join([*lines, "debug: *a11"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 5000, "nested too deeply"),
        (laughing(merge=False), "`debug` must be a section"),
        (laughing(merge=True), "within"),  # to its deadline
        ("debug: {hang_after: " + "9" * 5000 + "}", ""),
        ("debug: {rules: 2026-99-99}", ""),
        ("debug: {abort: !!python/object/apply:os.system [true]}", "not YAML"),
        ("debug: {? [a, b] : c}", "not YAML"),
    ],
    ids=["deep", "aliases", "merges", "number", "date", "object", "key"],
)
def test_job_files_that_attack(tmp_path: Path, text: str, reason: str) -> None:
    """One sentence with the file's name, before the command is started."""
    (tmp_path / "job.yaml").write_text(text)
    command = ["--", "touch", tmp_path / "started"]
    words = ("watch", "--config", tmp_path / "job.yaml", *command)
    parse = "rankdbg.investigations.watch.watch_settings:PARSE_SECONDS=2"
    limit = parse if reason == "within" else ""
    error = said(confined(*words, memory=2 << 30, limit=limit))
    assert "job.yaml" in error
    assert reason in error
    assert not (tmp_path / "started").exists()


def test_job_files_with_anchors_as_people_write_them(tmp_path: Path) -> None:
    """Aliases and a merge are read."""
    (tmp_path / "job.yaml").write_text(
        "usual: &usual {enabled: true, hang_after: 60}\nlog_dir: &logs logs\n"
        "debug:\n  <<: *usual\n  log_dir: *logs\n  abort: maybe\n"
    )
    error = said(confined("watch", "--config", tmp_path / "job.yaml", "--", "true"))
    assert "debug.abort must be true or false" in error


# --- what crashes leave -------------------------------------------------------------------


@pytest.mark.extra
@pytest.mark.slow
def test_texts_of_faulthandler_that_attack(tmp_path: Path) -> None:
    """Lines, threads and frames by the million, and a line without an end: those that
    faulthandler can have written are shown."""
    text = tmp_path / "fault.log"
    with text.open("w") as file:
        file.write("\n" * 100_000_000)
        file.write("x" * (100 << 20) + "\n")
        file.write("Fatal Python error: Segmentation fault\n\n")
        file.write("Current thread 0x1 (most recent call first):\n")
        file.write('  File "train.py", line 3 in step\n' * 500_000)
        file.write(f'  File "train.py", line {"9" * 5000} in step\n')
    result = confined("stacks", "--core", text)
    assert result.returncode == 0, result.stderr
    assert "step" in result.stdout


def test_a_core_file_that_is_a_bomb(tmp_path: Path) -> None:
    """It is not unpacked onto a disk."""
    core = tmp_path / "core.gz"
    core.write_bytes(gzip.compress(bytes(60 << 20)) * 5)
    assert "unpacks to more than" in said(confined("stacks", "--core", core))


def test_crash_files_that_are_none(tmp_path: Path) -> None:
    """A pipe, a device and a directory."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        assert "cannot read" in said(confined("stacks", "--core", path))


# --- editors ------------------------------------------------------------------------------


def test_settings_of_an_editor_that_attack(tmp_path: Path) -> None:
    """A launch.json of a repository that somebody has cloned: deep, endless, or no file."""
    (tmp_path / ".vscode").mkdir()
    launch = tmp_path / ".vscode" / "launch.json"
    for content in ("[" * 100_000, '{"a":' * 100_000, '{"n": ' + "9" * 100_000 + "}"):
        launch.write_text(content)
        assert "launch.json" in said(confined("vscode", "--folder", tmp_path))
        assert launch.read_text() == content
    launch.unlink()
    launch.symlink_to("/dev/zero")
    assert "launch.json" in said(confined("vscode", "--folder", tmp_path))


def test_the_limit_is_one() -> None:
    """The memory that these tests give is enough for rankdbg, and would not be for an attack."""
    assert confined("--version").returncode == 0
    assert MEMORY < 1 << 30
