"""The stacks of many ranks and of their children: how they are read, merged and grouped."""
