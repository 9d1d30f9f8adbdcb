"""The processes of this machine: which are ranks of which job, and their agents' labels."""
