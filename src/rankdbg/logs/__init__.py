"""Reading log files: on whichever machine they lie, for patterns that come with the question."""
