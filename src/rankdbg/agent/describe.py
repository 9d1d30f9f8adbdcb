"""Short descriptions of values, which can be sent and compared.

{"kind": "number", "text": "2.5", "number": 2.5, "type": "float"}
{"kind": "array",  "text": "...", "shape": [2, 3], "dtype": "float32", "device": "cuda:0",
                   "min": 0.0, "mean": 0.5, "max": 1.0, "nan": 0, "type": "Tensor"}
                   a DTensor also has "local_shape": [1, 3], "placements": {"dp": "Shard(0)"},
                   and the figures are those of its local part
{"kind": "text",   "text": "'abc…", "length": 4711, "digest": "1a2b3c4d", "type": "str"}
{"kind": "error",  "text": "NameError: name 'x' is not defined"}
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LONGEST_TEXT = 2000
LONGEST_LOCAL = 120
MOST_ITEMS = 100
DEEPEST = 6
# In elements. Statistics of more would occupy a core for over a second.
LARGEST_ARRAY = 1 << 30


def describe(value: Any) -> dict[str, Any]:
    kind = type(value).__name__
    array = describe_array(value)
    if array is not None:
        return {**array, "type": kind}
    if isinstance(value, (int, float)):
        number = _as_float(value)
        if number is not None:
            return {"kind": "number", "text": text_of(value), "number": number, "type": kind}
    return {"kind": "text", **_cut(value), "type": kind}


def _as_float(value: Any) -> float | None:
    try:
        return float(value)
    except (OverflowError, ValueError):
        return None


def _cut(value: Any) -> dict[str, Any]:
    text = text_of(value)
    length = len(value) if isinstance(value, (str, bytes, bytearray)) else len(text)
    cut: dict[str, Any] = {"text": text[:LONGEST_TEXT], "length": length}
    if len(text) > LONGEST_TEXT or (isinstance(value, (str, bytes)) and length > LONGEST_TEXT):
        # Values that differ only after the cut must not be grouped as equal.
        cut["digest"] = f"{_digest(value if isinstance(value, (str, bytes)) else text):08x}"
        cut["cut"] = True
    return cut


def _digest(value: str | bytes) -> int:
    """FNV-1a over a sample of at most 64 Ki evenly spaced bytes; no module is needed for it."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)
    result = 0x811C9DC5 ^ len(data)
    for byte in data[:: max(1, len(data) >> 16)]:
        result = (result ^ byte) * 0x01000193 & 0xFFFFFFFF
    return result


def text_of(value: Any, longest: int = LONGEST_TEXT) -> str:
    """repr(), but limited for the built-in containers, whose repr() can have gigabytes.

    Addresses are left out, since they differ between processes.
    """
    first, *rest = _text(value, longest, DEEPEST).split(" at 0x")
    return first + "".join(f" at 0x…{part.lstrip('0123456789abcdef')}" for part in rest)


def short_text(value: Any) -> str:
    """For lists of local variables: never computes with an array, never raises."""
    array = _array_like(value)
    if array:
        shape, dtype, device = array
        part = _local_part(value)
        local = f", local {_shape_text(part['local_shape'])}" if part else ""
        return f"{type(value).__name__} {_shape_text(shape)} {dtype} {device}".rstrip() + local
    text = text_of(value, LONGEST_LOCAL)
    return text if len(text) <= LONGEST_LOCAL else text[: LONGEST_LOCAL - 1] + "…"


def exception_text(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = "<its message cannot be shown>"
    name = type(error).__name__
    if not message:
        return name
    text = f"{name}: {message}"
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


_BRACKETS: dict[type, Any] = {
    list: "[]",
    tuple: "()",
    set: "{}",
    frozenset: ("frozenset({", "})"),
    dict: "{}",
}


def _text(value: Any, longest: int, depth: int) -> str:
    kind = type(value)
    try:
        if kind in (str, bytes, bytearray):
            return repr(value[: longest + 1]) if len(value) > longest else repr(value)
        if kind is int and value.bit_length() > 10_000:
            return f"<int of {value.bit_length()} bits>"
        for base in _BRACKETS:
            if kind is base and value:
                return _container(value, base, longest, depth)
            # A small instance of a subclass (defaultdict, OrderedDict) is shown by its own repr().
            if issubclass(kind, base) and len(value) > MOST_ITEMS:
                return f"{kind.__name__}({_container(value, base, longest, depth)})"
        return repr(value)
    except Exception as error:
        return f"<{kind.__name__} whose repr raises {type(error).__name__}>"


def _container(value: Any, base: type, longest: int, depth: int) -> str:
    opening, closing = _BRACKETS[base]
    if depth == 0:
        return f"{opening}…{closing}"
    parts: list[str] = []
    size = 0
    for item in _first(value):
        if isinstance(value, dict):
            key, entry = item
            part = f"{_text(key, longest, depth - 1)}: {_text(entry, longest, depth - 1)}"
        else:
            part = _text(item, longest, depth - 1)
        parts.append(part)
        size += len(part)
        if size > longest:
            break
    if len(parts) < len(value):
        parts.append(f"… {len(value)} in all")
    elif type(value) is tuple and len(parts) == 1:
        return f"({parts[0]},)"
    return f"{opening}{', '.join(parts)}{closing}"


def _first(value: Any) -> list[Any]:
    """The first items; those of a set are sorted where possible, so that ranks agree."""
    if isinstance(value, (set, frozenset)) and len(value) <= MOST_ITEMS:
        try:
            return sorted(value)
        except TypeError:
            return list(value)
    if isinstance(value, (list, tuple)):
        return list(value[:MOST_ITEMS])
    for _ in range(10):
        try:  # without a copy of all items: there may be millions
            items = value.items() if isinstance(value, dict) else value
            return [item for item, _ in zip(items, range(MOST_ITEMS), strict=False)]
        except RuntimeError:  # the program has changed its size meanwhile
            pass
    return list(value.items() if isinstance(value, dict) else value)[:MOST_ITEMS]


# --- arrays ---------------------------------------------------------------------------


def _library(value: Any) -> str:
    """The library whose array this may be, by the classes from which it descends."""
    for base in type(value).__mro__:
        library = str(base.__module__).partition(".")[0]
        if library in ("torch", "numpy", "cupy"):
            return library
    return ""


def _array_like(value: Any) -> tuple[tuple[int, ...], str, str] | None:
    """(shape, dtype, device) of a torch, numpy or cupy array, without computing anything."""
    library = _library(value)
    if not library:
        return None
    try:
        shape = tuple(int(size) for size in value.shape)
        dtype = str(value.dtype).removeprefix("torch.")
        device = "" if library == "numpy" else str(getattr(value, "device", ""))
    except Exception:
        return None
    if library == "cupy":
        device = f"cuda:{device.strip('<>').split()[-1]}"
    return shape, dtype, device


def _shape_text(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) if shape else "scalar"


def describe_array(value: Any) -> dict[str, Any] | None:
    found = _array_like(value)
    if found is None:
        return None
    shape, dtype, device = found
    pending = _is_pending(getattr(value, "_local_tensor", value))
    part = _local_part(value)
    if shape == () and device != "meta" and not pending:
        scalar = _scalar(value, part)
        if scalar is not None:
            return {**scalar, "dtype": dtype, "device": device, **part}
    described: dict[str, Any] = {
        "kind": "array",
        "shape": list(shape),
        "dtype": dtype,
        "device": device,
        **part,
    }
    described.update({"pending": True} if pending else _statistics(value))
    described["text"] = _array_text(described)
    return described


def _scalar(value: Any, part: dict[str, Any]) -> dict[str, Any] | None:
    """A 0-dimensional array is a number: a loss, a learning rate."""
    try:
        local = _local(value)
        if getattr(local.dtype, "kind", "") in ("M", "m"):  # its item() has no unit
            return {"kind": "text", **_cut(str(local))}
        number = local.item()
    except Exception:
        return None
    if any(place.startswith("Partial") for place in part.get("placements", {}).values()):
        return {"kind": "text", "text": f"{text_of(number)} local ({_places_text(part)})"}
    if isinstance(number, (bool, int, float)):
        digits = _DIGITS.get(str(local.dtype).removeprefix("torch."))
        shown = float(f"{number:.{digits}g}") if digits else number
        return {"kind": "number", "text": text_of(shown), "number": _as_float(number)}
    return {"kind": "text", **_cut(number)}


# As many digits as the type has: the rest is noise of the conversion.
_DIGITS = {"float32": 7, "float16": 4, "bfloat16": 3}


def _local(value: Any) -> Any:
    """The local part of a DTensor. Arithmetic on the whole tensor would start a collective on this
    rank alone, and the job would hang."""
    local = getattr(value, "_local_tensor", value)
    return local.detach() if hasattr(local, "detach") else local


def _local_part(value: Any) -> dict[str, Any]:
    """Of a DTensor: the shape of its local part, and how each dimension of its mesh divides it."""
    local = getattr(value, "_local_tensor", None)
    if local is None or not hasattr(value, "placements"):
        return {}
    try:
        placements = [*map(_placement, value.placements)]
        names = value.device_mesh.mesh_dim_names or map(str, range(len(placements)))
        shape = [int(size) for size in local.shape]
        return {
            "local_shape": shape,
            "placements": dict(zip(map(str, names), placements, strict=False)),
        }
    except Exception:  # another version of torch
        return {}


def _placement(placement: Any) -> str:
    """Shard(0), Replicate, Partial(sum)"""
    detail = getattr(placement, "dim", None)
    detail = getattr(placement, "reduce_op", "") if detail is None else detail
    return f"{type(placement).__name__.strip('_')}({detail})".removesuffix("()")


def _places_text(part: dict[str, Any]) -> str:
    return " ".join(f"{name}:{place}" for name, place in part["placements"].items())


def _is_pending(local: Any) -> bool:
    """Whether a collective that has not returned makes this tensor: to read it is to wait."""
    return type(local).__name__ == "AsyncCollectiveTensor" and not getattr(local, "completed", True)


def _statistics(value: Any) -> dict[str, Any]:
    try:
        local = _local(value)
        library = _library(value)
        size = local.numel() if library == "torch" else local.size
        if str(getattr(local, "device", "")) == "meta" or not 0 < size <= LARGEST_ARRAY:
            return {}
        return _torch_statistics(local) if library == "torch" else _numpy_statistics(local, library)
    except Exception as error:  # objects, strings, sparse layouts, a device that failed
        return {"failed": exception_text(error)[:200]}


def _torch_statistics(tensor: Any) -> dict[str, Any]:
    torch = sys.modules["torch"]
    with torch.no_grad():
        if tensor.is_complex():
            tensor = tensor.abs()
        if not tensor.is_floating_point():
            mean = tensor.mean(dtype=torch.float64)
            return _figures(tensor.min().item(), mean.item(), tensor.max().item(), 0)
        if tensor.element_size() == 1:  # float8 has no arithmetic
            tensor = tensor.to(torch.float32)
        is_nan = torch.isnan(tensor)
        nan = int(is_nan.sum().item())
        if nan:
            tensor = tensor[~is_nan]
        if tensor.numel() == 0:
            return _figures(None, None, None, nan)
        mean = tensor.mean(dtype=torch.float32 if tensor.element_size() < 8 else None)
        return _figures(tensor.min().item(), mean.item(), tensor.max().item(), nan)


def _numpy_statistics(array: Any, library: str) -> dict[str, Any]:
    numpy = sys.modules[library]
    if array.dtype.kind not in "fiubc":
        return {}
    # inf - inf in a mean would print a warning on the program's stderr. (cupy uses this too.)
    with sys.modules["numpy"].errstate(all="ignore"):
        if array.dtype.kind == "c":
            array = abs(array)
        if array.dtype.kind != "f":
            return _figures(array.min().item(), float(array.mean()), array.max().item(), 0)
        is_nan = numpy.isnan(array)
        nan = int(is_nan.sum())
        if nan:
            array = array[~is_nan]
        if array.size == 0:
            return _figures(None, None, None, nan)
        mean = array.mean(dtype=numpy.float64 if array.itemsize > 2 else numpy.float32)
        return _figures(array.min().item(), float(mean), array.max().item(), nan)


def _figures(lowest: Any, mean: Any, highest: Any, nan: int) -> dict[str, Any]:
    return {"min": lowest, "mean": mean, "max": highest, "nan": nan}


def _array_text(array: dict[str, Any]) -> str:
    words = [_shape_text(array["shape"]), array["dtype"], array["device"]]
    if "local_shape" in array:
        words[-1] += f", local {_shape_text(array['local_shape'])}:"
    if array.get("pending"):
        words.append("(its collective has not returned)")
    if array.get("nan"):  # first, because a narrow screen cuts the end
        words.append(f"nan {array['nan']}")
    if array.get("min") is not None:
        words += [f"{name} {_figure(array[name])}" for name in ("min", "mean", "max")]
    if "placements" in array:
        words.append(f"({_places_text(array)})")
    return " ".join(word for word in words if word)


def _figure(number: Any) -> str:
    return f"{number:.4g}" if isinstance(number, float) else str(number)
