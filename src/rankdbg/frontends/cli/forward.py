"""Forward local ports to the loopback interface of a node, through the job's launcher.

  rankdbg forward -t k8s:ns/pod 5678
  rankdbg forward -t ssh:gpu-1,gpu-2 5678-5685
  rankdbg forward -t slurm:4711 8265:18265

Only the node has to be reachable. If the connection to the node breaks, rankdbg reopens it
for the next client. With several nodes, each gets its own local ports.
"""

from __future__ import annotations

import argparse
import sys

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_target, add_timeout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ports",
        nargs="+",
        metavar="PORT",
        help="5678, 5678-5685, or REMOTE:LOCAL for another local port",
    )
    parser.add_argument("--node", help="which node, if the target has several")
    add_target(parser)
    add_timeout(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.forwarding import Forwarding
    from rankdbg.frontends.reaching import open_session

    ports = [pair for text in options.ports for pair in parse_ports(text)]
    with open_session(options) as session:
        session.reopens = True
        nodes = session.cluster.nodes()
        if options.node is not None and options.node not in nodes:
            raise BadInput(f"no node {options.node!r}", f"there are: {', '.join(nodes)}")
        chosen = [options.node] if options.node is not None else nodes
        forwardings = [
            Forwarding(session, node, there, here + index * _apart(ports) if here else 0)
            for index, node in enumerate(chosen)
            for there, here in ports
        ]
        for each in forwardings:
            sys.stdout.write(f"127.0.0.1:{each.port} -> {each.node}:{each.there}\n")
        sys.stdout.flush()
        Forwarding.serve(forwardings)
    return 0


def _apart(ports: list[tuple[int, int]]) -> int:
    """By how much the ports of the next node are higher."""
    here = [port for _, port in ports]
    return max(here) - min(here) + 1


def parse_ports(text: str) -> list[tuple[int, int]]:
    """5678, 5678-5685 or REMOTE:LOCAL -> pairs of a remote and a local port."""
    there, colon, here = text.partition(":")
    first, dash, last = there.partition("-")
    numbers = (first, last if dash else first, here if colon else first)
    if not all(part.isascii() and part.isdigit() and int(part) < 65536 for part in numbers):
        hint = "5678, 5678-5685 or 5678:15678"
        raise BadInput(f"invalid port {text!r}: expected a port or a range of ports", hint=hint)
    low, high, begin = map(int, numbers)
    if not 0 < low <= high:
        raise BadInput(f"empty port range {text!r}", hint="5678-5685, the lower port first")
    return [(port, begin + port - low if begin else 0) for port in range(low, high + 1)]
