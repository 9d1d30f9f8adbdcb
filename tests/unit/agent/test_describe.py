"""describe: any value becomes a short description that can be sent and compared."""

from __future__ import annotations

import collections
import dataclasses
import enum
import math
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from rankdbg import wire
from rankdbg.agent import describe
from rankdbg.agent.describe import LONGEST_LOCAL, LONGEST_TEXT, short_text, text_of


def described(value: Any) -> dict[str, Any]:
    """The description, as it arrives; whatever it is, it is small."""
    line = wire.encode(describe.describe(value))
    assert len(line) < 20_000
    return wire.decode(line)


class Raises:
    def __repr__(self) -> str:
        raise ValueError("no")


class Huge:
    def __repr__(self) -> str:
        return "h" * 1_000_000


Point = collections.namedtuple("Point", "x y")


class Colour(enum.IntEnum):
    RED = 1


@dataclasses.dataclass
class Settings:
    rate: float = 0.1


class Mapping(dict):
    pass


@pytest.mark.parametrize(
    ("value", "number"),
    [(2, 2.0), (2.5, 2.5), (True, 1.0), (math.inf, math.inf), (Colour.RED, 1.0), (-0.0, 0.0)],
)
def test_numbers(value: Any, number: float) -> None:
    """Numbers are sent as such, with their text."""
    seen = described(value)
    assert (seen["kind"], seen["number"], seen["text"]) == ("number", number, repr(value))
    assert seen["type"] == type(value).__name__


def test_integer_beyond_floats() -> None:
    """A whole number that no float can hold is text; one of a million bits only its size."""
    assert described(10**400)["kind"] == "text"
    assert described(1 << 1_000_000)["text"] == "<int of 1000001 bits>"


@pytest.mark.parametrize(
    "value",
    [
        *(None, object, "text", b"bytes", [1, "a"], (1,), {1: [2]}, Point(1, 2), Settings(), 2j),
        *(Mapping(a=1), range(3), ..., slice(1), [], (), {}, set(), frozenset(), bytearray(b"x")),
        *({3, 1, 2}, frozenset({1}), collections.OrderedDict(a=1), collections.Counter("aab")),
    ],
)
def test_small_values_are_their_repr(value: Any) -> None:
    """What is small is shown as Python shows it."""
    assert text_of(value) == repr(value)
    assert described(value)["kind"] == "text"


def test_plain_object() -> None:
    """An object of no class of its own is no exception; its address is left out."""
    assert described(object())["text"] == "<object object at 0x…>"


def test_addresses_are_left_out() -> None:
    """Two processes that hold the same have the same text."""
    texts = {
        text_of([Test(), {"f": Test().method}]) for Test in [type("Test", (), {"method": id})] * 2
    }
    assert len(texts) == 1
    assert text_of("at 0x12 words") == "'at 0x12 words'"


def test_long_text() -> None:
    """Long texts are cut, with their length and a digest of the whole."""
    seen, other = described("a" * 100_000), described("a" * 99_999 + "b")
    assert seen["length"] == 100_000
    assert len(seen["text"]) <= LONGEST_TEXT
    assert seen["cut"] is True
    assert seen["text"] == other["text"]
    assert seen["digest"] != other["digest"]


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, dict.fromkeys])
def test_large_containers(kind: Any) -> None:
    """Of a million items the first are shown, and how many there are."""
    text = text_of(kind(range(1_000_000)))
    assert len(text) < 3000
    assert "… 1000000 in all" in text


def test_large_container_of_another_kind() -> None:
    """Subclasses of the containers are bounded too, once they are large."""
    text = text_of(collections.defaultdict(int, dict.fromkeys(range(1_000_000), 0)))
    assert text.startswith("defaultdict({0: 0, 1: 0, ")
    assert text.endswith("… 1000000 in all})")


def test_container_of_large_things() -> None:
    """Large items in containers, however deep, stay within bounds."""
    value: Any = ["x" * 10**6] * 1000
    for _ in range(50):
        value = [value] * 10
    assert len(text_of(value)) < 10 * LONGEST_TEXT


def test_container_of_itself() -> None:
    """A list that contains itself ends."""
    value: list[Any] = [1]
    value.append(value)
    assert text_of(value).startswith("[1, [1, [")


def test_dictionary_that_changes() -> None:
    """A dictionary that another thread changes meanwhile is shown, not an exception."""

    class Key:
        def __repr__(self) -> str:
            changing[len(changing)] = 0
            return "key"

    changing: dict[Any, Any] = {Key(): 1, 2: 3}
    assert text_of(changing).startswith("{key: 1, 2: 3")


def test_repr_that_raises() -> None:
    """A repr() that raises is said to, and the values beside it are shown."""
    assert text_of([1, Raises()]) == "[1, <Raises whose repr raises ValueError>]"


def test_repr_that_is_huge() -> None:
    """A repr() of a million letters is cut."""
    assert described(Huge())["length"] == 1_000_000
    assert len(short_text(Huge())) == LONGEST_LOCAL
    assert len(short_text([Huge()] * 5)) == LONGEST_LOCAL


def test_error_whose_text_raises() -> None:
    """An exception whose message cannot be shown is still named."""
    error = type("Odd", (Exception,), {"__str__": lambda self: 1 / 0})()
    assert describe.exception_text(error) == "Odd: <its message cannot be shown>"


# --- arrays ---------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_warning() -> Iterator[None]:
    """A warning would appear on the program's stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def array(value: Any, *expected: Any) -> dict[str, Any]:
    """shape, dtype, min, mean, max, nan are as expected."""
    seen = described(value)
    names = ("shape", "dtype", "min", "mean", "max", "nan")
    assert seen["kind"] == "array"
    assert [seen.get(name) for name in names] == list(expected)
    assert seen["type"] == type(value).__name__
    return seen


def test_numpy_arrays() -> None:
    """Shape, dtype, min, mean, max and nan of every kind of number."""
    numpy = pytest.importorskip("numpy")
    two = [1.0, 3.0]
    for dtype in ("float64", "float32", "float16"):
        seen = array(numpy.array(two, dtype), [2], dtype, 1.0, 2.0, 3.0, 0)
        assert seen["text"] == f"2 {dtype} min 1 mean 2 max 3"
    for dtype in ("int8", "uint8", "int64", "uint64"):
        array(numpy.array(two, dtype), [2], dtype, 1, 2.0, 3, 0)
    array(numpy.array([True, False]), [2], "bool", False, 0.5, True, 0)
    array(numpy.array([3 + 4j]), [1], "complex128", 5.0, 5.0, 5.0, 0)
    array(numpy.full(3, 127, "int8"), [3], "int8", 127, 127.0, 127, 0)
    array(numpy.full(70_000, 2.0, "float16"), [70_000], "float16", 2.0, 2.0, 2.0, 0)
    array(numpy.arange(12.0).reshape(3, 4)[:, ::2].T, [2, 3], "float64", 0.0, 5.0, 10.0, 0)


def test_numpy_arrays_with_nan() -> None:
    """nan is counted and left out of the figures; infinities are in them."""
    numpy = pytest.importorskip("numpy")
    seen = array(numpy.array([1, math.nan, 3]), [3], "float64", 1.0, 2.0, 3.0, 1)
    assert " nan 1 " in seen["text"]
    array(numpy.array([math.nan]), [1], "float64", None, None, None, 1)
    seen = described(numpy.array([math.inf, -math.inf]))
    assert (seen["min"], seen["max"], math.isnan(seen["mean"])) == (-math.inf, math.inf, True)


def test_numpy_arrays_without_figures() -> None:
    """Empty arrays, objects, texts, structures and dates have shape and dtype."""
    numpy = pytest.importorskip("numpy")
    nothing = (None, None, None, None)
    array(numpy.empty((0, 3)), [0, 3], "float64", *nothing)
    array(numpy.array([None, "x"], object), [2], "object", *nothing)
    array(numpy.array(["ab"]), [1], "<U2", *nothing)
    array(numpy.zeros(2, [("a", "i4"), ("b", "f8")]), [2], "[('a', '<i4'), ('b', '<f8')]", *nothing)
    array(numpy.array(["2024-01-01"], "datetime64[D]"), [1], "datetime64[D]", *nothing)


def test_numpy_scalars() -> None:
    """numpy's scalars and arrays without a dimension are numbers or texts."""
    numpy = pytest.importorskip("numpy")
    for value in (numpy.float32(2.5), numpy.float64(2.5), numpy.float16(2.5), numpy.array(2.5)):
        seen = described(value)
        assert (seen["kind"], seen["text"], seen["number"]) == ("number", "2.5", 2.5)
        assert seen["dtype"] == str(value.dtype)
    assert described(numpy.int64(7))["text"] == "7"
    assert described(numpy.bool_(True))["text"] == "True"
    assert math.isnan(described(numpy.float32("nan"))["number"])
    assert described(numpy.str_("abc"))["text"] == "'abc'"
    assert described(numpy.datetime64("2024-01-01T00:00:00", "ns"))["text"].startswith(
        "'2024-01-01T"
    )
    assert described(numpy.complex64(1 + 2j))["text"] == "(1+2j)"


def test_numpy_things_that_are_no_arrays() -> None:
    """A dtype, a type and a generator are shown as they are."""
    numpy = pytest.importorskip("numpy")
    assert described(numpy.dtype("float32"))["text"] == "dtype('float32')"
    assert described(numpy.float32)["text"] == "<class 'numpy.float32'>"
    assert described(numpy.random.default_rng(0))["text"].startswith("Generator(PCG64)")


def test_subclass_of_array() -> None:
    """A user's own class of array is one, whatever else it descends from."""
    numpy = pytest.importorskip("numpy")

    class Extra:
        pass

    class Own(numpy.ndarray, Extra):
        pass

    array(numpy.zeros(2).view(Own), [2], "float64", 0.0, 0.0, 0.0, 0)


def test_torch_tensors() -> None:
    """Shape, dtype, device, min, mean, max and nan of every kind of number."""
    torch = pytest.importorskip("torch")
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        seen = array(torch.tensor([1.0, 3.0], dtype=dtype), [2], name, 1.0, 2.0, 3.0, 0)
        assert seen["device"] == "cpu"
        assert seen["text"] == f"2 {name} cpu min 1 mean 2 max 3"
    for dtype in (torch.int8, torch.uint8, torch.int64):
        name = str(dtype).removeprefix("torch.")
        array(torch.tensor([1, 3], dtype=dtype), [2], name, 1, 2.0, 3, 0)
    array(torch.tensor([True, False]), [2], "bool", False, 0.5, True, 0)
    array(torch.tensor([3 + 4j]), [1], "complex64", 5.0, 5.0, 5.0, 0)
    array(torch.full((70_000,), 2.0, dtype=torch.float16), [70_000], "float16", 2.0, 2.0, 2.0, 0)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        name = str(dtype).removeprefix("torch.")
        array(torch.tensor([1.0, 3.0]).to(dtype), [2], name, 1.0, 2.0, 3.0, 0)
    array(torch.arange(12.0).reshape(3, 4)[:, ::2].T, [2, 3], "float32", 0.0, 5.0, 10.0, 0)


def test_torch_tensors_with_nan() -> None:
    """nan is counted and left out, also in small floats."""
    torch = pytest.importorskip("torch")
    array(torch.tensor([1, math.nan, 3]), [3], "float32", 1.0, 2.0, 3.0, 1)
    array(torch.tensor([math.nan]), [1], "float32", None, None, None, 1)
    small = torch.tensor([1.0, math.nan, 3.0]).to(torch.float8_e4m3fn)
    array(small, [3], "float8_e4m3fn", 1.0, 2.0, 3.0, 1)


def test_torch_tensors_without_figures() -> None:
    """Empty and meta tensors have shape, dtype and device; sparse ones say what failed."""
    torch = pytest.importorskip("torch")
    nothing = (None, None, None, None)
    array(torch.empty(0, 3), [0, 3], "float32", *nothing)
    seen = array(torch.empty(2, 3, device="meta"), [2, 3], "float32", *nothing)
    assert seen["device"] == "meta"
    assert described(torch.empty((), device="meta"))["kind"] == "array"
    assert described(torch.eye(3).to_sparse())["shape"] == [3, 3]


def test_torch_parameters() -> None:
    """What requires a gradient is described, and nothing is added to its graph."""
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.tensor([1.0, 3.0]))
    array(parameter, [2], "float32", 1.0, 2.0, 3.0, 0)
    seen = described(parameter.sum() * 2)
    assert (seen["kind"], seen["text"], seen["number"]) == ("number", "8.0", 8.0)
    assert parameter.grad is None


def test_torch_things_that_are_no_tensors() -> None:
    """A size, a dtype, a device and a module are shown as they are."""
    torch = pytest.importorskip("torch")
    assert described(torch.Size([2]))["text"] == "torch.Size([2])"
    assert described(torch.float32)["text"] == "torch.float32"
    assert described(torch.device("cpu"))["text"] == "device(type='cpu')"
    assert described(torch.nn.Linear(2, 3))["text"].startswith("Linear(in_features=2")


DTENSOR = """
import os, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from rankdbg.agent.describe import describe
store = dist.HashStore()
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
whole = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
seen = describe(whole)
assert (seen["kind"], seen["shape"], seen["max"]) == ("array", [4], 3.0), seen
seen = describe(distribute_tensor(torch.tensor(2.5), mesh, [Replicate()]))
assert (seen["kind"], seen["number"]) == ("number", 2.5), seen
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_dtensor() -> None:
    """Of a DTensor the local part is described: no collective is started."""
    pytest.importorskip("torch.distributed.tensor")
    finished = subprocess.run([sys.executable, "-c", DTENSOR], capture_output=True, check=False)
    assert finished.returncode == 0, finished.stderr.decode()


def test_local_of_an_array() -> None:
    """In a listing of locals an array is shape, dtype and device; nothing is computed."""
    torch = pytest.importorskip("torch")
    assert short_text(torch.empty(2, 3, dtype=torch.bfloat16)) == "Tensor 2×3 bfloat16 cpu"
