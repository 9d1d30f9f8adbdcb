"""A job on two hosts, reached with ssh: real sshds, each in a PID namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, rankdbg
from rankdbg.clusters import Options
from rankdbg.clusters.transport import sending
from rankdbg.investigations.logs.log_sources import job_logs
from rankdbg.node.logs.log_scan import LARGE
from rankdbg.session import Session
from rankdbg.types import Answer, Silence
from rankdbg.verdicts.rules.log_rules import load_rules
from ssh_hosts import Hosts
from waiting import ANSWER_SECONDS, PATIENCE, wait_for

BEHAVE = PROGRAMS / "behave.py"
pack = sending._packed
BEHAVIOURS = ("waits", "waits", "waits_elsewhere", "waits")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with Hosts(tmp_path_factory.mktemp("hosts"), "host-1", "host-2") as hosts:
        for rank in range(4):
            name = hosts.names[rank // 2]
            hosts.start_rank(name, "two-hosts", rank, 4, BEHAVE, *BEHAVIOURS)
        yield hosts


def cli(hosts: Hosts, verb: str, *words: object, target: str = "", **settings: Any) -> Any:
    environment = {**hosts.environment(), "RANKDBG_TARGET": target or hosts.target}
    return rankdbg(verb, *words, env=environment, **settings)


def answer(hosts: Hosts, verb: str, *words: object, target: str = "", **settings: Any) -> Any:
    result = cli(hosts, verb, "--json", *words, target=target, **settings)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def all_there(hosts: Hosts) -> Hosts:
    def arrived() -> bool:
        result = cli(hosts, "ps", "--json")
        ranks = json.loads(result.stdout)["ranks"] if result.returncode == 0 else []
        functions = [rank["where"]["function"] if rank["where"] else "" for rank in ranks]
        return sorted(functions) == sorted(BEHAVIOURS)

    wait_for(arrived)
    return hosts


def test_one_roster(all_there: Hosts) -> None:
    """The ranks of both hosts are one job, each with its host."""
    found = answer(all_there, "ps")
    assert [job["job"] for job in found["jobs"]] == ["two-hosts"]
    places = {rank["rank"]: rank["host"] for rank in found["ranks"]}
    assert places == {0: "host-1", 1: "host-1", 2: "host-2", 3: "host-2"}


def test_one_tree_and_one_odd_one_out(all_there: Hosts) -> None:
    """Equal stacks of both hosts are one group."""
    groups = answer(all_there, "stacks")["groups"]
    assert [group["ranks"] for group in groups] == ["2", "0-1,3"]
    assert "odd one out" in cli(all_there, "stacks").stdout


def test_an_agent_asks_both_hosts(all_there: Hosts) -> None:
    """Over MCP: one answer of both; a host that cannot be reached is part of an answer."""
    mcp_client = pytest.importorskip("mcp_client")

    async def ask(agent: Any) -> None:
        jobs = await agent.ask("list_jobs")
        assert [job["job"] for job in jobs.document["jobs"]] == ["two-hosts"]
        stacks = await agent.ask("stacks")
        assert [group["ranks"] for group in stacks.document["groups"]] == ["2", "0-1,3"]
        less = await agent.ask("list_jobs", target="ssh:host-1,host-3")
        assert "host-3" in less.document["no_response_nodes"] and "node host-3" in less.text
        assert [rank["rank"] for rank in less.document["ranks"]] == [0, 1]
        elsewhere = await agent.ask("why", target="local")
        assert elsewhere.is_error and "alone" in elsewhere.text

    targets = ("-t", all_there.target, "-t", "ssh:host-1,host-3")
    mcp_client.run(ask, all_there.environment(), *targets)


@pytest.mark.parametrize("python", [None, sys.executable])
def test_rankdbg_is_sent_where_it_is_not_installed(all_there: Hosts, python: str | None) -> None:
    """Values come back from a Python with rankdbg and from one without; afterwards nothing of
    it is left in the host's temporary space."""
    without = Path(sys.base_prefix) / "bin" / "python3"
    words = ("--python", python or without)
    groups = answer(all_there, "ask", "all", "rank", *words)["groups"]
    assert sorted(group["ranks"] for group in groups) == ["0", "1", "2", "3"]
    for name in all_there.names:
        wait_for(lambda name=name: not all_there.processes(name, "rankdbg.node"))
        assert list(all_there.temporary(name).iterdir()) == []


@pytest.fixture
def bare_python() -> Path:
    """One without rankdbg and py-spy."""
    without = Path(sys.base_prefix) / "bin" / "python3"
    if (without.parent / "py-spy").exists() or shutil.which("py-spy", path="/usr/bin:/bin"):
        pytest.skip("this machine's own Python has py-spy")
    return without


def test_py_spy_is_sent_too(all_there: Hosts, bare_python: Path) -> None:
    """Stacks from outside come from hosts whose Python has no py-spy."""
    found = answer(all_there, "stacks", "--outside", "--python", bare_python)
    assert set(found["sources"].values()) == {"py-spy"}
    assert [group["ranks"] for group in found["groups"]] == ["2", "0-1,3"]


AUTOMATON = "rankdbg-node-*/ahocorasick_rs/*.so"


def test_what_reads_logs_fast_is_sent_too(
    all_there: Hosts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """To a Python of the same version, for which it was compiled, once large logs are read."""
    monkeypatch.setenv("PATH", all_there.environment()["PATH"])
    without = Options(python=str(Path(sys.base_prefix) / "bin" / "python3"))
    for name in all_there.names:  # those of before take what was sent to them with them
        wait_for(lambda name=name: not all_there.processes(name, "rankdbg.node"))
    with Session(all_there.target, ANSWER_SECONDS, options=without) as session:
        session.roster()
        for name in all_there.names:
            assert not [*all_there.temporary(name).glob(AUTOMATON)]
        # Hosts here share files: one of them reads it.
        large = tmp_path / "train.log"
        large.write_text("step: 1 loss: 2.5\n" * (LARGE // 10))
        job_logs(session, load_rules().patterns(), paths=[str(large)]).scan()
        sent = [p for n in all_there.names for p in all_there.temporary(n).glob(AUTOMATON)]
        assert [path.name.startswith("ahocorasick_rs.cpython-3") for path in sent] == [True]


def test_what_was_sent_is_kept(
    all_there: Hosts, bare_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one wishes it: all is sent at once, the next client sends nothing, and again what has
    suffered since."""
    packed: list[str] = []
    monkeypatch.setattr(sending, "_packed", lambda kind: packed.append(kind) or pack(kind))
    monkeypatch.setenv("PATH", all_there.environment()["PATH"])
    without = Options(python=str(bare_python), patience=8.0)
    host = all_there.names[0]
    place = all_there.scratch / host / "agents/sent"

    def look() -> list[str]:
        packed.clear()
        with Session(f"ssh:{host}", ANSWER_SECONDS, options=without) as session:
            assert list(session.roster().jobs()) == ["two-hosts"]
        return packed

    modules = [sending.FIRST_COMPILED, sending.COMPILED]
    assert look() == modules[:1]
    assert not place.exists()
    monkeypatch.setenv("RANKDBG_KEEP", "1")
    assert look() == [*modules, "py-spy", "automaton"]
    assert look() == []
    (kept,) = place.glob("py-spy-*")
    kept.write_bytes(kept.read_bytes()[:100_000])
    (kept,) = place.glob("automaton-*")
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 255
    kept.write_bytes(content)
    for path in (*place.glob("rankdbg-*"), *place.glob("first-*")):
        os.utime(path, (1e9, 1e9))
    assert look() == [*modules, "py-spy", "automaton"]
    assert look() == []
    # A place where others can write is nothing to take programs from.
    place.chmod(0o777)
    assert look() == [*modules, "py-spy", "automaton"]
    shutil.rmtree(place)


def test_a_host_that_cannot_be_reached(all_there: Hosts) -> None:
    """The others answer; this one is silent, with what ssh said."""
    shown = ""

    def are_one_row() -> bool:
        """Not so while one of them is without a processor, and does not answer its node."""
        nonlocal shown
        result = cli(all_there, "ps", target=f"{all_there.target},nowhere.invalid")
        assert result.returncode == 0
        shown = result.stdout
        return "0-1,3" in shown

    wait_for(are_one_row, lambda: shown)
    assert "no response: node nowhere.invalid" in shown
    assert "Could not resolve hostname nowhere.invalid" in shown


def test_only_hosts_that_cannot_be_reached(hosts: Hosts) -> None:
    """One sentence, with what ssh said; exit status 2."""
    result = cli(hosts, "ps", target="ssh:nowhere.invalid")
    assert (result.returncode, result.stdout) == (2, "")
    assert "Could not resolve hostname" in result.stderr
    assert "Traceback" not in result.stderr


def test_one_machine_by_two_names(all_there: Hosts) -> None:
    """Each process is listed once."""
    port = all_there._ports["host-1"]
    ranks = answer(all_there, "ps", target=f"ssh:host-1,root@127.0.0.1:{port}")["ranks"]
    assert sorted(rank["rank"] for rank in ranks) == [0, 1]


def test_several_targets(all_there: Hosts) -> None:
    """-t twice is one roster of both."""
    environment = all_there.environment()
    words = ("-t", "ssh:host-1", "-t", "ssh:host-2", "--json")
    ranks = json.loads(rankdbg("ps", *words, env=environment).stdout)["ranks"]
    assert sorted(rank["rank"] for rank in ranks) == [0, 1, 2, 3]


def test_a_client_that_is_killed(all_there: Hosts) -> None:
    """kill -9 of the client: the node processes end, and take what was sent with them."""
    without = Path(sys.base_prefix) / "bin" / "python3"
    words = [sys.executable, "-m", "rankdbg", "ask", "all", "__import__('time').sleep(60)"]
    words += ["-t", all_there.target, "--timeout", "60", "--python", str(without)]
    client = subprocess.Popen(words, env=all_there.environment())
    for name in all_there.names:
        wait_for(lambda name=name: all_there.processes(name, "rankdbg.node"))
    os.kill(client.pid, signal.SIGKILL)
    assert client.wait() == -signal.SIGKILL  # and had not ended before
    for name in all_there.names:
        wait_for(lambda name=name: not all_there.processes(name, "rankdbg.node"))
        wait_for(lambda name=name: not list(all_there.temporary(name).iterdir()))


def test_what_a_login_script_says(all_there: Hosts, tmp_path: Path) -> None:
    """Words before the first message do no harm."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "Welcome to the cluster"\nexec {all_there.path}/ssh "$@"\n')
    ssh.chmod(0o755)
    environment = {**all_there.environment(), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    result = rankdbg("ps", "-t", all_there.target, env=environment)
    assert "4 ranks on 2 nodes" in result.stdout


def test_no_python(hosts: Hosts) -> None:
    """A Python that is not there is said so, with those that are."""
    result = cli(hosts, "ps", "--python", "/no/such/python", target="ssh:host-1")
    assert result.returncode == 2
    assert "/no/such/python" in result.stderr
    assert "python3" in result.stderr


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("ssh:", "ssh: names no hosts"),
        ("ssh:a,,b", "a host is missing between two commas"),
        ("ssh:-oProxyCommand=evil", "invalid ssh host '-oProxyCommand=evil'"),
        ("ssh:a b", "invalid ssh host 'a b'"),
        ("ssh:@/no/such/file", "cannot read the hosts in /no/such/file"),
    ],
)
def test_bad_targets(target: str, sentence: str) -> None:
    """One clear sentence and exit status 2."""
    result = rankdbg("ps", "-t", target)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_hosts_from_a_file(all_there: Hosts, tmp_path: Path) -> None:
    """A host a line; comments and what follows the name are left out."""
    listed = tmp_path / "hosts with a blank.txt"
    listed.write_text("# the trainers\nhost-1 slots=8\n\nhost-2   # the second\n")
    result = rankdbg("ps", "-t", f"ssh:@{listed}", "--json", env=all_there.environment())
    assert len(json.loads(result.stdout)["ranks"]) == 4


@pytest.mark.extra
@pytest.mark.slow
def test_a_shell_gets_its_host_back(tmp_path: Path) -> None:
    """While a shell is open a host goes down: the other still answers. When it is back, so
    is the shell's way to it."""
    with Hosts(tmp_path / "hosts", "one", "two") as hosts:
        for name in hosts.names:
            hosts.start_rank(name, "shelled", hosts.names.index(name), 2, BEHAVE, "waits", "waits")
        wait_for(lambda: len(answer(hosts, "ps")["ranks"]) == 2)
        words = [sys.executable, "-m", "rankdbg", "shell", "-t", hosts.target, "--timeout", "2"]
        shell = subprocess.Popen(
            words, env=hosts.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert shell.stdin and shell.stdout

        def ask(line: str) -> str:
            shell.stdin.write(f"{line}\nask all '-- ' + 'end'\n")
            shell.stdin.flush()
            seen = ""
            while "-- end" not in seen:
                read = shell.stdout.readline()
                assert read, seen
                seen += read
            return seen

        assert "0-1" in ask("ask all 1 + 1")
        hosts.stop("two")
        lost = ask("ask all 1 + 1")
        assert "0" in lost and "0-1  2" not in lost
        hosts.start("two")
        hosts.start_rank("two", "shelled", 1, 2, BEHAVE, "waits", "waits")
        wait_for(lambda: "0-1  2" in ask("ask all 1 + 1"), "both answer again")
        shell.communicate("quit\n", timeout=PATIENCE)


def test_a_host_that_is_slow_to_be_reached_again(
    all_there: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are not held up by it: they answer within the deadline, while it goes on being
    reached. What it could not be asked in time is never asked."""
    monkeypatch.setenv("PATH", all_there.environment()["PATH"])
    variables = "__import__('os').environ"
    with Session(all_there.target, timeout=3) as session:
        session.reopens = True
        ranks = sorted(session.job("two-hosts"), key=lambda rank: rank.number or 0)
        lost: Any = session._channels["host-2"]
        with all_there.frozen("host-2"):
            os.kill(lost._process.pid, signal.SIGKILL)
            assert silent(session.evaluate(ranks, "1")).keys() == {"host-2"}
            late = session.evaluate(ranks, f"{variables}.setdefault('LATE', 'yes')")
            assert silent(late) == {"host-2": "reconnecting to host-2"}
        asked: list[Answer | Silence] = []

        def all_answer() -> bool:
            asked[:] = session.evaluate(ranks, f"{variables}.get('LATE')")
            return not silent(asked)

        wait_for(all_answer, lambda: f"it is reached again; last: {asked}")
        texts = [each.value.text for each in asked if isinstance(each, Answer)]
        assert texts == ["'yes'", "'yes'", "None", "None"]


def silent(answers: list[Answer | Silence]) -> dict[str, str]:
    """Host -> why."""
    return {each.rank.host: each.reason for each in answers if isinstance(each, Silence)}


@pytest.mark.extra
def test_check(all_there: Hosts) -> None:
    """`check` tries every way on every node; equal findings are one line."""
    patient = ("check", "--timeout", 60)
    target = f"{all_there.target},nowhere.invalid"
    result = cli(all_there, *patient, target=target, timeout=PATIENCE)
    assert result.returncode == 1
    assert result.stdout.count("all ranks have one that responds   (on host-1, host-2)") == 1
    assert result.stdout.count("works (tried with a rank)") == 1
    assert "cannot be reached: nowhere.invalid" in result.stdout
    findings = answer(all_there, *patient, timeout=PATIENCE)["nodes"]["host-2"]["findings"]
    assert all(finding["works"] is not False for finding in findings.values()), findings


def test_every_verb_names_nodes_that_are_silent(all_there: Hosts) -> None:
    """The ranks of a node that cannot be reached are missing, and that is said."""
    target = f"{all_there.target},nowhere.invalid"
    for verb, *words in (("stacks",), ("ask", "all", "rank"), ("list",)):
        assert (
            "no response: node nowhere.invalid"
            in cli(all_there, verb, *words, target=target).stderr
        )


@pytest.mark.slow
@pytest.mark.extra
def test_a_break_by_the_path_that_a_file_has_here(all_there: Hosts) -> None:
    """The ranks have the file elsewhere: it is found by its content, or by --map, and the
    break is taken away by the path that it has here."""
    program = PROGRAMS / "dap_loop.py"
    elsewhere = all_there.scratch / "remote" / program.name
    here = all_there.scratch / "here" / program.name
    for copy in (elsewhere, here):
        copy.parent.mkdir()
        copy.write_bytes(program.read_bytes())
    assert all_there.run("host-1", f"mount -t tmpfs hidden {here.parent}").returncode == 0
    all_there.start_rank("host-1", "mapped", 0, 1, elsewhere, "loops")
    line = 1 + program.read_text().splitlines().index("        step += 1  # in loops")
    job = ("--job", "mapped")

    def is_running() -> bool:
        ranks = answer(all_there, "ps", *job, target="ssh:host-1")["ranks"]
        return [rank["where"]["file"] for rank in ranks if rank["where"]] == [str(elsewhere)]

    wait_for(lambda: cli(all_there, "ps", *job).returncode == 0 and is_running())
    by_map = ("--map", f"{here.parent}={elsewhere.parent}")
    for words in ((), by_map):
        place = f"{here}:{line}"
        set_there = answer(all_there, "break", place, *words, *job, target="ssh:host-1")
        assert set_there["groups"][0]["files"] == [str(elsewhere)]
        wait_for(lambda: answer(all_there, "list", *job, target="ssh:host-1")["stops"])
        cleared = answer(all_there, "break", "--clear", place, *job, target="ssh:host-1")
        assert cleared["groups"][0]["cleared"] == [[str(elsewhere), line]]
        assert cli(all_there, "continue", *job, target="ssh:host-1").returncode == 0
    for pid in all_there.processes("host-1", str(elsewhere)):
        os.kill(pid, signal.SIGKILL)  # it would take a processor until all tests have ended
