"""Profiles of running ranks: recorded, collected, compared, and written as files."""
