"""The timeouts of torch's process groups: raised, and restored.

These timeouts end a job while one of its ranks is stopped at a breakpoint (measured with
torch 2.13 and gloo):

    a collective                  takes the group's timeout when it starts
    recv, send                    take the timeout with which the group was made
    monitored_barrier             rank 0 takes its argument, the others act as in recv
    init_process_group, new_group take their argument, for the store and to connect
    store.get, store.wait         take the store's timeout, also inside of NCCL

So groups are created with the long timeout where that is possible, and their own is remembered.
Nothing here takes a lock for which the program's threads could wait: the function that raises a
timeout checks afterwards whether it is still wanted.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Key = tuple[str, str]  # of a limit: the group's name, and a device or `store`

MODULE = "torch.distributed.distributed_c10d"
# In milliseconds, it still fits into the 32 bits of poll()'s timeout.
LONG_DAYS = 20

own: dict[Key, Any] = {}  # the program's own timeouts
_replaced: list[tuple[Any, str, Any, Any]] = []  # owner, name, the original, ours


def held() -> bool:
    """Whether timeouts are held now. timeouts.py replaces this function."""
    return False


def module() -> Any:
    """torch's module, once the program has imported all of it."""
    c10d = sys.modules.get(MODULE)
    spec = getattr(c10d, "__spec__", None)
    ready = c10d is not None and not getattr(spec, "_initializing", False)
    return c10d if ready and hasattr(c10d, "_new_process_group_helper") else None


def long(c10d: Any) -> Any:
    return c10d.timedelta(days=LONG_DAYS)


def raise_all(c10d: Any) -> list[str]:
    """Raise all timeouts. Returns the names of groups whose timeout cannot be set."""
    refused = []
    for key, limit in list(_limits(c10d)):
        if limit is None:
            refused.append(key[0])
        elif (now := limit.read()) != long(c10d):
            own[key] = now
            limit.write(long(c10d))
    if not held():  # released meanwhile
        restore_all(c10d)
    return refused


def restore_all(c10d: Any) -> None:
    # A group that was split off has a copy of the store, with the timeout that it had then.
    of_stores = next((timeout for (_, what), timeout in own.items() if what == "store"), None)
    for key, limit in list(_limits(c10d)):
        before = own.get(key, of_stores if key[1] == "store" else None)
        if limit is not None and before is not None and limit.read() == long(c10d):
            limit.write(before)


class _GroupLimit:
    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def read(self) -> Any:
        return self._backend.options._timeout

    def write(self, timeout: Any) -> None:
        self._backend._set_default_timeout(timeout)


class _StoreLimit:
    def __init__(self, store: Any) -> None:
        self._store = store

    def read(self) -> Any:
        return self._store.timeout

    def write(self, timeout: Any) -> None:
        self._store.set_timeout(timeout)


def _limits(c10d: Any) -> Iterator[tuple[Key, _GroupLimit | _StoreLimit | None]]:
    """Of all groups and stores. No reference to a group is kept: it would keep the group alive
    after the program has destroyed it."""
    for group, (_, store) in list(c10d._world.pg_map.items()):
        name = str(c10d._world.pg_names.get(group, ""))
        yield from _limits_of_group(name, group)
        if hasattr(store, "timeout"):
            yield (name, "store"), _StoreLimit(store)


def _limits_of_group(name: str, group: Any) -> Iterator[tuple[Key, _GroupLimit | None]]:
    for device in getattr(group, "_device_types", ()):
        try:
            backend = group._get_backend(device)
        except RuntimeError:  # none for this device
            continue
        while hasattr(backend, "wrapped_pg"):  # with TORCH_DISTRIBUTED_DEBUG=DETAIL
            backend = backend.wrapped_pg
        known = hasattr(backend, "_set_default_timeout") and hasattr(
            getattr(backend, "options", None), "_timeout"
        )
        yield (name, str(device)), _GroupLimit(backend) if known else None


# --- groups that are created while timeouts are held ------------------------------------


def watch(c10d: Any) -> bool:
    """Create groups with the long timeout from now on. False if that is already so."""
    if _replaced:
        return False
    for name, replacement in (
        ("_new_process_group_helper", _making_long),
        ("rendezvous", _waiting_long),
        ("_store_based_barrier", _waiting_long),
        ("_set_pg_timeout", _raising_after),
    ):
        _replace(c10d, name, replacement, c10d)
    _replace(c10d.ProcessGroup, "split_group", _making_long, c10d)
    _replace(c10d.ProcessGroup, "monitored_barrier", _waiting_long, c10d)
    return True


def unwatch() -> None:
    while _replaced:
        owner, name, original, ours = _replaced.pop()
        if vars(owner).get(name) is ours:  # else the program has wrapped it
            setattr(owner, name, original)


def _replace(owner: Any, name: str, replacement: Any, c10d: Any) -> None:
    original = vars(owner).get(name)
    if original is not None:
        ours = replacement(original, c10d)
        ours.__name__ = name
        ours.__wrapped__ = original
        _replaced.append((owner, name, original, ours))
        setattr(owner, name, ours)


def _waiting_long(original: Any, c10d: Any) -> Any:
    """For functions whose only duration is their timeout."""

    def lengthened(value: Any) -> Any:
        return long(c10d) if isinstance(value, c10d.timedelta) and held() else value

    def call(*arguments: Any, **named: Any) -> Any:
        named = {name: lengthened(value) for name, value in named.items()}
        return original(*map(lengthened, arguments), **named)

    return call


def _raising_after(original: Any, c10d: Any) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        if held():
            raise_all(c10d)
        return result

    return call


def _making_long(original: Any, c10d: Any) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        wanted = named.get("timeout")
        if wanted is None or not held():
            return original(*arguments, **named)
        store = arguments[4] if len(arguments) > 4 else None
        name = str(named.get("group_name") or (arguments[5] if len(arguments) > 5 else ""))
        if store is not None and hasattr(store, "timeout") and store.timeout != long(c10d):
            own[name, "store"] = store.timeout
            store.set_timeout(long(c10d))
        options: Any = named.get("backend_options")
        if getattr(options, "_timeout", None) == wanted:  # torch warns where they differ
            options._timeout = long(c10d)
        result = original(*arguments, **{**named, "timeout": long(c10d)})
        group = result[0] if isinstance(result, tuple) else result
        for key, limit in _limits_of_group(name, group):
            own[key] = wanted
            if limit is not None and not held():  # released meanwhile
                limit.write(wanted)
                restore_all(c10d)
        return result

    return call
