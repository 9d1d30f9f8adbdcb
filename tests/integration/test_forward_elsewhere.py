"""`rankdbg forward` to other machines: through ssh, srun and kubectl, many ports, and channels
that break and come back."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from backwards import serve_backwards
from kubernetes_cluster import Kubernetes
from slurm_cluster import SlurmCluster, running_cluster
from ssh_hosts import Hosts
from waiting import wait_for


class Forward:
    """`rankdbg forward`, as a user starts it, and the ports here that it says."""

    def __init__(self, environment: Mapping[str, str], target: str, *words: object) -> None:
        command = [sys.executable, "-m", "rankdbg", "forward", "-t", target, *map(str, words)]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.ports: dict[tuple[str, int], int] = {}

    def read(self, count: int) -> dict[tuple[str, int], int]:
        """Node and port there -> port here."""
        assert self.process.stdout is not None and self.process.stderr is not None
        for _ in range(count):
            found = re.match(r"127\.0\.0\.1:(\d+) -> (.+):(\d+)\n", self.process.stdout.readline())
            assert found, self.process.stderr.read()
            self.ports[found[2], int(found[3])] = int(found[1])
        return self.ports

    def __enter__(self) -> Forward:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def named() -> Iterator[tuple[int, int]]:
    """Two servers, which say who they are and then what they heard, backwards; their ports."""
    servers = [serve_backwards(name) for name in (b"first ", b"second ")]
    first, second = (server.getsockname()[1] for server in servers)
    yield first, second
    for server in servers:
        server.close()


def said_back(port: int, data: bytes) -> bytes:
    """Nothing if the connection does not come through."""
    heard = bytearray()
    try:
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while portion := connection.recv(1 << 16):
                heard += portion
    except TimeoutError:
        raise
    except OSError:  # refused, reset; or reset before its end could be said
        pass
    return bytes(heard)


def comes_through(port: int) -> bool:
    return said_back(port, b"abc") == b"first cba"


# --- ssh ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with Hosts(tmp_path_factory.mktemp("hosts"), "host-1", "host-2") as hosts:
        yield hosts


def test_ports_of_two_hosts(hosts: Hosts, named: tuple[int, int]) -> None:
    """Each host's ports have ports of their own here, and bytes come as they are. A host that
    goes down takes its own with it, and has them again when it is up."""
    first, second = named
    with Forward(hosts.environment(), hosts.target, f"{first}:0", f"{second}:0") as forward:
        ports = forward.read(4)
        assert set(ports) == {(name, port) for name in hosts.names for port in named}
        for (_, there), here in ports.items():
            wanted = b"first ba" if there == first else b"second ba"
            wait_for(lambda here=here, wanted=wanted: said_back(here, b"ab") == wanted, wanted)
        data = os.urandom(2 << 20)
        assert said_back(ports["host-2", first], data) == b"first " + data[::-1]
        hosts.stop("host-1")
        wait_for(lambda: not comes_through(ports["host-1", first]), "host-1 is gone")
        wait_for(lambda: comes_through(ports["host-2", first]), "host-2 is as it was", 5)
        hosts.start("host-1")
        wait_for(lambda: comes_through(ports["host-1", first]), "host-1 is back")


def test_one_host_of_two(hosts: Hosts, named: tuple[int, int]) -> None:
    """--node: the other is not spoken of."""
    with Forward(hosts.environment(), hosts.target, f"{named[0]}:0", "--node", "host-2") as forward:
        ((node, there), here) = next(iter(forward.read(1).items()))
        assert (node, there) == ("host-2", named[0])
        wait_for(lambda: comes_through(here), "a connection through host-2")


# --- Slurm ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.mark.extra
def test_ports_of_the_nodes_of_a_slurm_job(slurm: SlurmCluster, named: tuple[int, int]) -> None:
    """Through srun; when its processes on the nodes are killed, through new ones."""
    job = slurm.submit("sleep", 1000, options=("-N2", "--ntasks-per-node=1"))
    wait_for(lambda: slurm.state(job) == "RUNNING", "the job runs")
    words = (f"{named[0]}:0", f"{named[1]}:0")
    with Forward(slurm.environment, f"slurm:{job}", *words) as forward:
        ports = forward.read(4)
        assert {node for node, _ in ports} == {"node-0", "node-1"}
        for node in ("node-0", "node-1"):
            wait_for(lambda node=node: comes_through(ports[node, named[0]]), node)
        other = ports["node-1", named[1]]
        wait_for(lambda: said_back(other, b"ab") == b"second ba", "the other port")
        data = os.urandom(1 << 20)
        assert said_back(other, data) == b"second " + data[::-1]
        for process in slurm.node_processes():
            os.kill(process, signal.SIGKILL)
        for node in ("node-0", "node-1"):
            wait_for(lambda node=node: comes_through(ports[node, named[0]]), f"{node} is back")
    slurm.cancel(job)


# --- Kubernetes -----------------------------------------------------------------------------------


def test_ports_of_pods(tmp_path: Path, named: tuple[int, int]) -> None:
    """Through kubectl exec; a container that is restarted has its ports again."""
    pods = Kubernetes(tmp_path / "kubernetes")
    try:
        for number in range(2):
            container = {"command": ["sleep", "1000"], "environment": {}}
            pods.start(f"worker-{number}", {"main": container}, {"app": "llama"})
        with Forward(pods.environment(), "k8s:train/app=llama", f"{named[0]}:0") as forward:
            ports = forward.read(2)
            assert {node for node, _ in ports} == {"worker-0", "worker-1"}
            for port in ports.values():
                wait_for(lambda port=port: comes_through(port), ports)
            pods.restart("worker-0", "main")
            wait_for(lambda: comes_through(ports["worker-0", named[0]]), "worker-0 is back")
            assert comes_through(ports["worker-1", named[0]])
    finally:
        pods.end()
