"""A job that was started a moment ago: its ranks load torch and come together."""

import training

training.begin()
while True:
    training.step()
