"""One debugger for every rank of a distributed Python job.

In a job's own code:

    import rankdbg
    rankdbg.init(mesh={"pp": 2, "dp": 2, "tp": 2})   # start the agent, name the ranks
    rankdbg.set_mesh({"dp": 4, "tp": 2})             # the mesh was reshaped
    rankdbg.progress(step)                           # how far it has come

Everything else happens from outside, with the command `rankdbg`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own costs an import in every rank
if TYPE_CHECKING:
    from rankdbg.agent import breakpoint, init, listen, post_mortem, progress, scope, set_mesh  # noqa: A004

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "breakpoint",
    "init",
    "listen",
    "post_mortem",
    "progress",
    "scope",
    "set_mesh",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from rankdbg import agent

        return getattr(agent, name)
    raise AttributeError(f"module 'rankdbg' has no attribute {name!r}")
