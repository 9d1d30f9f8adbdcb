"""Reading log files, on any machine, for patterns that are part of the question."""
