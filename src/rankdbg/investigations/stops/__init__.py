"""Stops and breakpoints of many ranks: what is set, who is stopped where, and what commands bring back."""
