"""Files that crashes, flight recorders and other tools have left: read with care, and judged as if the job ran."""
