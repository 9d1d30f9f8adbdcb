"""Rank 2 calls a C function that does not give the GIL back."""

import ctypes

import training


def decode_image():
    ctypes.PyDLL(None).sleep(3600)


training.begin()
if training.RANK == 2:
    decode_image()
training.step()
