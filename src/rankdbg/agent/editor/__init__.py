"""An editor in this rank: debugpy on the agent's own connection."""
