"""What the agent hooks into at its start: breakpoints, stops, and imports of frameworks.

The one module that knows all folders of the agent. Each is loaded only when its event comes:
the first stop, the import of Ray.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import active, imports, messages
from rankdbg.agent.stops import entries, stopped_threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The module that the program imports -> the reader of the labels that it knows, in frameworks/.
_LABEL_READERS = {
    "torch.distributed.distributed_c10d": "torch_labels",
    "jax._src.distributed": "jax_labels",
    "mpi4py": "mpi_labels",  # a finder of its own brings mpi4py.MPI
    "megatron.core.parallel_state": "parallel_states",
    "deepspeed.utils.groups": "parallel_states",
    "vllm.distributed.parallel_state": "parallel_states",
    "sglang.srt.distributed.parallel_state": "parallel_states",
}


def install() -> None:
    """Called at the agent's start, and again in the child of a fork."""
    entries.install()
    stopped_threads.on_stop = _on_stop
    imports.when_imported("ray", _install_ray_hooks)
    imports.when_imported("ray._private.runtime_env.nsight", _fix_ray_nsight)
    imports.when_imported("monarch._src.actor.actor_mesh", _install_monarch_hooks)
    imports.when_imported("monarch._src.actor.debugger.breakpoint", _keep_breakpointhook)
    for module in _LABEL_READERS:
        imports.when_imported(module, _add_label_reader)
    if os.environ.get("RANKDBG_HISTORY") != "0":
        imports.when_imported("torch.distributed.distributed_c10d", _note_torch_calls)
        imports.when_imported("torch.optim.optimizer", _note_optimizer_steps)
    if os.environ.get("RANKDBG_BREAK") or os.environ.get("RANKDBG_SAVE_ON_ERROR"):
        from rankdbg.agent.stops import uncaught

        uncaught.install()
    if os.environ.get("RANKDBG_STOP_ON_NAN", "0") not in ("", "0"):
        imports.when_imported("torch.nn.modules.module", _stop_on_nan)
        imports.when_imported("torch.optim.optimizer", _stop_on_nan_gradients)
    if os.environ.get("RANKDBG_HOLD_TIMEOUTS", "0") not in ("", "0"):
        from rankdbg.agent.groups import timeouts

        timeouts.hold_for_good()


def _on_stop() -> None:
    """A thread of this process has stopped: hold the timeouts of process groups, and hold
    exceptions from now on. A rank that is being debugged is worth holding where it fails."""
    # RANKDBG_HOLD_TIMEOUTS=0 disables it, and 1 holds them from the start.
    loaded = "torch.distributed.distributed_c10d" in sys.modules
    if loaded and not os.environ.get("RANKDBG_HOLD_TIMEOUTS"):
        from rankdbg.agent.groups import stop_holding

        stop_holding.begin()
    from rankdbg.agent.stops import uncaught

    uncaught.hold_from_now_on()


def _add_label_reader(module: Any) -> None:
    """Loaded now, and not with the first question: the file system may hang by then."""
    name = f"rankdbg.agent.frameworks.{_LABEL_READERS[module.__name__]}"
    try:
        read = __import__(name, fromlist=["read"]).read
    except Exception as error:  # it must not break the program's import
        messages.write(f"no labels from {module.__name__}: {error!r}")
        return
    if read not in active.label_readers:
        active.label_readers.append(read)


def _note_torch_calls(c10d: Any) -> None:
    from rankdbg.agent.history import torch_calls

    try:
        torch_calls.install(c10d)
    except Exception as error:  # a version of torch that is otherwise
        messages.write(f"no history of collectives: {error!r}")


def _note_optimizer_steps(module: Any) -> None:
    from rankdbg.agent.history import notes

    notes.install_optimizer_hook(module)


def _stop_on_nan(module: Any) -> None:
    from rankdbg.agent.nonfinite import arming

    try:
        arming.arm(exact=os.environ.get("RANKDBG_STOP_ON_NAN") == "exact")
    except Exception as error:  # a version of torch that is otherwise
        messages.write(f"no stop on nan: {error!r}")


def _stop_on_nan_gradients(module: Any) -> None:
    from rankdbg.agent.nonfinite import arming

    arming.optimizers_imported(module)


def _install_ray_hooks(ray: Any) -> None:
    from rankdbg.agent.frameworks import ray_hooks

    ray_hooks.install(ray)


def _fix_ray_nsight(plugin: Any) -> None:
    from rankdbg.agent.nsys import ray_nsight

    ray_nsight.fix(plugin)


def _install_monarch_hooks(actor_mesh: Any) -> None:
    from rankdbg.agent.frameworks import monarch_hooks

    monarch_hooks.install(actor_mesh)


def _keep_breakpointhook(module: Any) -> None:
    from rankdbg.agent.frameworks import monarch_hooks

    monarch_hooks.keep_breakpointhook(module)
