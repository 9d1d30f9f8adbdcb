"""Which ranks must have equal tensors, and which of them have not."""
