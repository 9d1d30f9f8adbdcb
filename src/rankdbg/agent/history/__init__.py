"""What this rank did, in a file beside its socket: `rankdbg history` reads it from there, also when
the rank has been killed, or another thread holds the GIL.

    ring            the file, and how an event is written
    torch_calls     collectives, sends and receives that the program calls
    notes           what the program says itself: steps, marks; and the steps of optimizers
    module_calls    calls of torch's modules, down to a chosen depth
    branches        branches and loop turns of chosen functions

The file is made with the first event. RANKDBG_HISTORY=0 switches all of it off; a number of bytes
(256K, 4M) is its size.
"""
