"""Who holds a job up: evidence and rules -> a verdict."""
