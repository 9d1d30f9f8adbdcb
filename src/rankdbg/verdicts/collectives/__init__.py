"""Flight recorders of all ranks -> who waits for whom, and who is missing."""
