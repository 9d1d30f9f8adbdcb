"""k8s:…: which pods are meant."""

from __future__ import annotations

from typing import Any

import pytest

from rankdbg.clusters.kubernetes.pod_choices import PodChoice, parse
from rankdbg.clusters.kubernetes.pods import read_pods
from rankdbg.errors import BadInput


@pytest.mark.parametrize(
    ("rest", "choice"),
    [
        ("train/a", PodChoice("train", names=("a",))),
        ("train/a,b,a", PodChoice("train", names=("a", "b"))),
        ("train/app=x,tier!=y", PodChoice("train", selector="app=x,tier!=y")),
        ("train/app in (x, y)", PodChoice("train", selector="app in (x, y)")),
        ("train/ray.io/cluster=c", PodChoice("train", selector="ray.io/cluster=c")),
        ("app=x", PodChoice("", selector="app=x")),
        ("ray.io/cluster=c", PodChoice("", selector="ray.io/cluster=c")),
        ("train/job/a", PodChoice("train", kind="Job", owner="a")),
        ("job/a", PodChoice("", kind="Job", owner="a")),
        ("sts/a", PodChoice("", kind="StatefulSet", owner="a")),
        ("job/pod/a", PodChoice("job", names=("a",))),
        ("pod/a", PodChoice("", names=("a",))),
    ],
)
def test_targets(rest: str, choice: PodChoice) -> None:
    """Names, labels and owners, with and without a namespace."""
    assert parse(rest) == choice


@pytest.mark.parametrize("rest", ["", "train", "train/", "/a", "T/a", "train/-l", "a/b/c", "job/"])
def test_targets_that_mean_nothing(rest: str) -> None:
    """One sentence, and how it is written."""
    with pytest.raises(BadInput) as refused:
        parse(rest)
    assert refused.value.hint


def pods(**owners: tuple[str, str, dict[str, str]]) -> dict[str, Any]:
    items = [
        {
            "metadata": {
                "name": name,
                "labels": labels,
                "ownerReferences": [{"kind": kind, "name": owner, "controller": True}],
            },
            "spec": {"containers": [{"name": "main"}]},
        }
        for name, (kind, owner, labels) in owners.items()
    ]
    return dict(read_pods({"kind": "PodList", "items": items}))


def test_owners() -> None:
    """Of pods by a Job, a JobSet's Job, a Deployment's ReplicaSet and a PyTorchJob."""
    there = pods(
        a=("Job", "one", {}),
        b=("Job", "one-workers-0", {"jobset.sigs.k8s.io/jobset-name": "one"}),
        c=("ReplicaSet", "one-7d9f", {"pod-template-hash": "7d9f"}),
        d=("ReplicaSet", "one-more-7d9f", {"pod-template-hash": "7d9f"}),
        e=("PyTorchJob", "one", {}),
    )
    chosen = {
        kind: "".join(parse(f"train/{kind}/one").among(there))
        for kind in ("job", "jobset", "deployment", "pytorchjob", "raycluster")
    }
    assert chosen == {
        "job": "a",
        "jobset": "b",
        "deployment": "c",
        "pytorchjob": "e",
        "raycluster": "",
    }
