"""One debugger for every rank of a distributed Python job.

In a job's own code:

    import rankdbg
    rankdbg.init(mesh={"pp": 2, "dp": 2, "tp": 2})   # start the agent, name the ranks
    rankdbg.set_mesh({"dp": 4, "tp": 2})             # the mesh was reshaped
    rankdbg.progress(step)                           # how far it has come
    rankdbg.mark("accepted", 17)                     # what it has decided

Everything else happens from outside, with the command `rankdbg`, or from Python:

    with rankdbg.connect() as job:
        print(job.why())
"""

from __future__ import annotations

from rankdbg._version import __version__

TYPE_CHECKING = False  # typing's own costs an import in every rank
if TYPE_CHECKING:
    from rankdbg.agent import breakpoint, init, listen, mark, post_mortem, progress, scope, set_mesh  # noqa: A004
    from rankdbg.investigations.connection import connect

__all__ = [
    "__version__",
    "breakpoint",
    "connect",
    "init",
    "listen",
    "mark",
    "post_mortem",
    "progress",
    "scope",
    "set_mesh",
]


def __getattr__(name: str) -> object:
    if name == "connect":  # not in a rank: it loads what a user's machine has
        from rankdbg.investigations.connection import connect

        return connect
    if name in __all__:
        from rankdbg import agent

        # Next time it is found at once: progress() and mark() are called in every step.
        found = globals()[name] = getattr(agent, name)
        return found
    raise AttributeError(f"module 'rankdbg' has no attribute {name!r}")
