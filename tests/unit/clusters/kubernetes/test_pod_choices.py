"""k8s:…: which pods are meant."""

from __future__ import annotations

from typing import Any

import pytest

from rankdbg.clusters.kubernetes.pod_choices import Choice, parse
from rankdbg.clusters.kubernetes.pods import read_pods
from rankdbg.errors import BadInput


@pytest.mark.parametrize(
    ("rest", "choice"),
    [
        ("train/a", Choice("train", names=("a",))),
        ("train/a,b,a", Choice("train", names=("a", "b"))),
        ("train/app=x,tier!=y", Choice("train", selector="app=x,tier!=y")),
        ("train/app in (x, y)", Choice("train", selector="app in (x, y)")),
        ("train/ray.io/cluster=c", Choice("train", selector="ray.io/cluster=c")),
        ("app=x", Choice("", selector="app=x")),
        ("ray.io/cluster=c", Choice("", selector="ray.io/cluster=c")),
        ("train/job/a", Choice("train", kind="Job", owner="a")),
        ("job/a", Choice("", kind="Job", owner="a")),
        ("sts/a", Choice("", kind="StatefulSet", owner="a")),
        ("job/pod/a", Choice("job", names=("a",))),
        ("pod/a", Choice("", names=("a",))),
    ],
)
def test_targets(rest: str, choice: Choice) -> None:
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
