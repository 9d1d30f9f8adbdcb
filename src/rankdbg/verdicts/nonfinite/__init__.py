"""Values that are not finite: which tensors have some in which ranks, and the first one."""
