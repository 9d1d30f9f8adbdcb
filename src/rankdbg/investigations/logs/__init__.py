"""Logs of a job: in given paths or on its nodes; read once or as they grow."""
