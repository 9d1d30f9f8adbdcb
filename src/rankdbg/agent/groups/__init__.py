"""torch's process groups in this rank: what their flight recorders hold, and how long they wait."""
