"""nan_cuda.py: what armed hooks find on a GPU, at once and after the pass; prints it as JSON."""

import json
import sys

import torch
from torch import nn

from rankdbg.agent.nonfinite.armed_hooks import NanWatch


class Divides(nn.Module):
    def forward(self, x):
        return x / x


class Root(nn.Module):
    def forward(self, x):
        return (x - x).sqrt()


def look(make, exact):
    """What is found in one step, and how often the GPU was waited for before."""
    found = []
    watch = NanWatch(torch, exact, lambda each, frame: found.append(each))
    model = nn.Sequential(nn.Linear(64, 64), make(), nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    watch.install(torch.nn.modules.module)
    watch.install_optimizer(sys.modules["torch.optim.optimizer"])
    with torch.autocast("cuda", torch.bfloat16):
        x = torch.zeros(16, 64, device="cuda")
        if make is Divides:
            with torch.no_grad():
                model[0].bias.zero_()
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    watch.remove()
    names = ("phase", "module", "type", "origin", "exact")
    return [{name: each[name] for name in names} for each in found], watch.failures


told = {
    f"{make.__name__} {'exact' if exact else 'later'}": look(make, exact)
    for make in (nn.ReLU, Divides, Root)
    for exact in (False, True)
}
print(json.dumps(told))
