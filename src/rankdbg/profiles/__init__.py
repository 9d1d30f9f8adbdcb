"""Profiles of many ranks -> one picture: a tree, a table, files for viewers.

A profile is stacks with weights: samples of py-spy, bytes of memory, microseconds of a trace.
"""
