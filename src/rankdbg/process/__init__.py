"""What a process says of itself: identity, where its socket lies, what is masked, whose code a frame is."""
