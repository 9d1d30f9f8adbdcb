"""What users read about ranks: each report prints itself, and gives itself as JSON.

The command line and the shell show the same reports.
"""
