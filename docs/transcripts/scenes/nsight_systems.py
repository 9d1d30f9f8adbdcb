"""Nothing of this page can be run here."""

from __future__ import annotations

from transcripts.scenario import NotRun

SCENARIO = [
    NotRun(
        "needs nsys, and a GPU for what is of interest",
        (
            "rankdbg run --nsys train_0",
            "rankdbg run --nsys 'train_*'",
            "rankdbg profile 0 --kind nsys",
            "rankdbg run --nsys '*policy*",
            "rankdbg ray-fix --status",
            "rankdbg collect all results/",
        ),
    )
]
