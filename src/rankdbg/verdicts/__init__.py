"""Evidence -> findings: who holds the others up, and why. Functions from values to values."""
