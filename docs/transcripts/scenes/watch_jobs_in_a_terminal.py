"""The demo's job, on a full screen."""

from __future__ import annotations

from transcripts.scenario import NotRun

SCENARIO = [NotRun("a screen, which keys change", ("rankdbg top",))]
