"""Threads of this rank that are stopped: breakpoints, breaks, pauses, uncaught exceptions, and pdb in them."""
