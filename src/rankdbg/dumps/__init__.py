"""What py-spy, pystack, gdb, cuda-gdb and faulthandler print -> threads with their frames.

Nodes read the output of the tools that they run with these parsers, and investigations the text
that other tools have written. Standard library only: nodes import this.
"""
