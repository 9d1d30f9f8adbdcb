"""Ranks in containers on the same machine: in other PID and mount namespaces, with a /tmp of their
own. Their agents are found through their own roots."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, rankdbg
from rankdbg.node.roster import containers
from rankdbg.process import rendezvous
from rankdbg.types import Answer, Rank
from strangers import needs_root
from waiting import wait_for

BEHAVE = PROGRAMS / "behave.py"
OWN_PIDS = ("unshare", "--pid", "--mount", "--fork", "--kill-child")
# Of /tmp only this checkout stays, if it is there: its path is $0.
OWN_FILES = """
case $0 in /tmp/*) mount --bind "$0" /mnt || exit ;; esac
mount -t tmpfs tmpfs /tmp || exit
case $0 in /tmp/*) mkdir -p "$0" && mount --move /mnt "$0" || exit ;; esac
mount -t proc proc /proc && exec "$@"
"""
CHECKOUT = Path(__file__).parents[2]
CONTAINER = (*OWN_PIDS, "sh", "-c", OWN_FILES, str(CHECKOUT))

pytestmark = [
    needs_root,
    pytest.mark.skipif(
        bool(subprocess.run(["unshare", "--pid", "--mount", "--fork", "true"]).returncode),
        reason="needs unshare, and the right to use it",
    ),
]


def start_ranks(job: Job, *container: str, **settings: Any) -> list[Rank]:
    launch = (sys.executable, PROGRAMS / "launch.py", 2, BEHAVE, "waits", "waits")
    job.start(*container, *launch, **settings)

    def stand(ranks: list[Rank]) -> bool:
        seen = [(rank.agent, rank.where and rank.where.function) for rank in ranks]
        return seen == [(True, "waits")] * 2

    return sorted(job.wait_for(stand), key=lambda rank: rank.number or 0)


def answers(job: Job, ranks: list[Rank], expression: str) -> list[str]:
    with job.session() as session:
        session.roster()
        replies = session.evaluate(ranks, expression)
    return [r.value.text if isinstance(r, Answer) else f"silent: {r.reason}" for r in replies]


def test_ranks_in_a_container(job: Job) -> None:
    """They have their agents, and the pids that they have out here."""
    ranks = start_ranks(job, *CONTAINER)
    assert [rank.agent for rank in ranks] == [True, True], ranks
    inside = answers(job, ranks, "__import__('os').getpid()")
    assert all(int(pid) != rank.pid for pid, rank in zip(inside, ranks, strict=True))
    told = [Path(f"/proc/{rank.pid}/status").read_text() for rank in ranks]
    assert [text.split("NSpid:")[1].split("\n")[0].split()[-1] for text in told] == inside


def test_usual_directory_in_a_container(job: Job) -> None:
    """The agents' directory without RANKDBG_DIR is that of the container's /tmp."""
    ranks = start_ranks(job, *CONTAINER, "env", "-u", "RANKDBG_DIR")
    assert [rank.agent for rank in ranks] == [True, True]


def test_own_pids_and_the_same_files(job: Job) -> None:
    """The cards lie in our directory, with pids that mean other processes here."""
    ranks = start_ranks(job, *OWN_PIDS)
    assert [rank.agent for rank in ranks] == [True, True]


def test_two_containers_with_the_same_pids(job: Job) -> None:
    """Each rank answers for itself."""
    one = (sys.executable, BEHAVE, "waits", "waits")
    for number in range(2):
        words = ("env", f"RANK={number}", "WORLD_SIZE=2", *one)
        job.start(*CONTAINER, *words)
    ranks = job.wait_at("waits", "waits")
    assert answers(job, ranks, "__import__('os').environ['RANK']") == ["'0'", "'1'"]
    pids = answers(job, ranks, "__import__('os').getpid()")
    assert pids[0] == pids[1]


def test_forged_card_in_a_container(job: Job) -> None:
    """A listener that is another process than the card names is not asked."""
    job.start(
        *(*CONTAINER, "env", "RANK=0", "WORLD_SIZE=1", sys.executable, PROGRAMS / "impostor.py"),
        agent=False,
    )
    found = job.wait_for(lambda ranks: any("another process" in r.detail for r in ranks))
    assert [rank.agent for rank in found] == [False]
    (reply,) = answers(job, found, "'for our own ranks alone'")
    assert reply.startswith("silent: "), reply


def test_links_in_a_container_are_not_followed(tmp_path: Path) -> None:
    """They would lead to files of this machine."""
    (tmp_path / "agents").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "agents")
    root = rendezvous.root_of(os.getpid())
    assert containers.find_card(f"{root}{tmp_path}/agents") is None
    with pytest.raises(NotADirectoryError):
        containers.find_card(f"{root}{tmp_path}/link")


def test_directory_of_others_in_a_container(tmp_path: Path) -> None:
    """One that other users can write to is refused, as outside."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents").chmod(0o777)
    with pytest.raises(rendezvous.DirectoryRefused, match="other users can write"):
        containers.find_card(f"{rendezvous.root_of(os.getpid())}{tmp_path}/agents")


LOGGED = """
mkdir /tmp/logs /tmp/more
echo "said in a directory of logs" >/tmp/more/train.log
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 TORCHSPEC_LOG_DIR=/tmp/more "$@" >/tmp/logs/$rank.out 2>&1 &
done
wait
"""
SPEAKS = (
    "import os, threading; print('rank', os.environ['RANK'], 'speaks'); threading.Event().wait()"
)


def test_dead_rank_in_a_container(job: Job, tmp_path: Path) -> None:
    """Ranks in a container are profiled. One that dies is gone, with what it has written into a
    file of the container, and with the pid that a shell has seen."""
    job.start(*CONTAINER, "sh", "-c", LOGGED, "sh", sys.executable, "-u", "-c", SPEAKS)
    ranks = job.wait_for(lambda ranks: [rank.agent for rank in ranks] == [True, True])
    profile = rankdbg("profile", *of(job), "--seconds", "0.2", "--output", tmp_path / "profile")
    assert "ranks 0-1" in profile.stdout, profile
    with job.session() as session:
        session.roster()
        os.kill(ranks[1].pid, signal.SIGKILL)
        shell = wait_for(lambda: with_dead(session.roster().jobs()[job.name]))
        assert shell[1].process == ranks[1].process
    found = job.wait_for(lambda ranks: bool(with_dead(ranks)))
    assert [rank.number for rank in found] == [0, 1]
    assert "rank 1 speaks" in rankdbg("logs", "1", *of(job)).stdout
    assert "said in a directory of logs" in rankdbg("logs", *of(job)).stdout


def of(job: Job) -> tuple[str, ...]:
    return "-t", "local", "--job", job.name


def with_dead(ranks: list[Rank]) -> list[Rank]:
    """These, if the second is gone."""
    return ranks if [rank.state == "gone" for rank in ranks] == [False, True] else []


def test_dead_rank_of_another_job_in_a_container(job: Job, tmp_path: Path) -> None:
    """A card that names another job than the living process of that container is not believed."""
    agents = tmp_path / "agents"
    agents.mkdir(mode=0o700)
    about = {"ppid": 1, "command": [], "python": "", "start": 1}
    about["pid_namespace"] = rendezvous.pid_namespace()
    for pid, name in ((4_000_001, "this"), (4_000_002, "other")):
        card = {**about, "pid": pid, "labels": {"job": name}}
        (agents / f"{pid}.json").write_text(json.dumps(card) + "\n")
    found = containers.find_dead(f"{rendezvous.root_of(os.getpid())}{agents}", "this")
    assert [card["pid"] for card, _ in found] == [4_000_001]
