"""Rank 2 evaluates for minutes, batch by batch, while the others wait for it."""

import training


def load(batch):
    return [batch * number % 1009 for number in range(50_000)]


def forward(samples):
    return [sample * 0.5 + 1 for sample in samples]


def score(outputs):
    return sum(output > 100 for output in outputs) / len(outputs)


def evaluate():
    return max(score(forward(load(batch))) for batch in range(100_000))


training.begin()
if training.RANK == 2:
    evaluate()
training.step()
