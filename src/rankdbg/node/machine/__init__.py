"""Data of this machine: /proc, system calls, GPUs, the kernel log, disks and memory."""
