"""What users read about ranks: results of investigations as text.

The command line and the shell show the same reports.
"""
