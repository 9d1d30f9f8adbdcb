"""Who holds a job up: which looks are taken at its ranks, and the verdict as a value."""
