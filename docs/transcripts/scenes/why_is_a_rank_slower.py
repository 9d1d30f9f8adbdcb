"""The job of profile-running-ranks."""

from __future__ import annotations

from transcripts.scenario import Scene
from transcripts.scenes.profile_running_ranks import loads_slowly

SCENARIO = [
    Scene(
        loads_slowly,
        (
            "rankdbg run --job slow",
            "rankdbg profile --job slow -o",
            "rankdbg profile --job slow --diff",
        ),
    )
]
