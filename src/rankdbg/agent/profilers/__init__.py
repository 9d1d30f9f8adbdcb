"""Profiles of this rank from inside: torch, memory, CUDA, nsys."""
