"""What carries a conversation with a node: channels, the thread that serves them, and getting rankdbg there."""
