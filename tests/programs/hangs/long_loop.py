"""Rank 2 simulates for minutes, in the lines of one function, while the others wait for it."""

import math

import training


def simulate(steps):
    angle, speed = 1.0, 0.0
    for _ in range(steps):
        speed -= math.sin(angle) * 0.01
        angle += speed * 0.01
        speed *= 0.9999
    return angle


training.begin()
if training.RANK == 2:
    simulate(10**10)
training.step()
