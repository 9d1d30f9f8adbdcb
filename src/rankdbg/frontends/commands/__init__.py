"""The commands of the shell and of the debug console of an editor."""
