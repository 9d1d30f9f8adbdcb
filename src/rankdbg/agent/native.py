"""C functions that Python has no name for, through the C half of ctypes.

The ctypes package itself imports struct and others: a program may have modules of its
own by those names.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = 2**64 - 1


def set_ptracer_any() -> int:
    """prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY): 0, or -1 if that fails."""
    try:
        import _ctypes

        number = _type("L")
        words = [number(word) for word in (_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)]
        return int(_ctypes.call_function(_address("prctl"), tuple(words)))
    except (ImportError, AttributeError, OSError):  # a Python without ctypes
        return -1


def raise_in_thread(ident: int, error: type[BaseException]) -> bool:
    """Raise it in that thread as soon as the thread executes Python again."""
    try:
        function = _python_function("PyThreadState_SetAsyncExc")
        return bool(function(_type("L")(ident), _type("O")(error)) == 1)
    except (ImportError, AttributeError, OSError):
        return False


def ask_truth_in_main(thing: Any) -> bool:
    """Make the main thread call thing.__bool__() as soon as that executes Python again. It must
    return False, and the caller keeps it alive until then.

    A pending call is a C function that returns 0 on success. Of those in Python's own library,
    PyObject_IsTrue can execute Python code. (A function made by ctypes would need memory that is
    both writable and executable, which some systems forbid.)
    """
    try:
        add = _python_function("Py_AddPendingCall")
        call = _type("P")(_address("PyObject_IsTrue"))
        return bool(add(call, _type("O")(thing)) == 0)
    except (ImportError, AttributeError, OSError):
        return False


def write_back(frame: Any) -> None:
    """Before Python 3.13: copy changes in frame.f_locals to the function's variables. (Python
    does that itself when a trace function returns.)"""
    try:
        _python_function("PyFrame_LocalsToFast")(_type("O")(frame), _type("i")(0))
    except (ImportError, AttributeError, OSError):
        pass


def map_file(descriptor: int, size: int) -> memoryview:
    """The file as memory that writes to it. Raises OSError.

    The module mmap keeps an open descriptor, and the program's next file would get another number.
    """
    try:
        shared = (_type("i")(3), _type("i")(1))  # PROT_READ | PROT_WRITE, MAP_SHARED
        arguments = (_type("L")(0), _type("L")(size), *shared, _type("i")(descriptor))
        address = _python_function("mmap", "P")(*arguments, _type("L")(0)) or 0
        if address == 2**64 - 1:
            raise OSError("the file cannot be mapped")
        writable = _type("i")(0x200)  # PyBUF_WRITE
        view = _python_function("PyMemoryView_FromMemory", "O")
        return view(_type("P")(address), _type("L")(size), writable)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise OSError(f"this Python has no ctypes: {error}") from None


def _python_function(name: str, returns: str = "i") -> Any:
    import _ctypes

    # Unlike call_function(), this keeps the GIL during the call.
    flags = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI
    fields = {"_flags_": flags, "_restype_": _type(returns)}
    return type("function", (_ctypes.CFuncPtr,), fields)(_address(name))


def _type(letter: str) -> Any:
    import _ctypes

    return type("value", (_ctypes._SimpleCData,), {"_type_": letter})


def _address(name: str) -> int:
    import _ctypes

    return _ctypes.dlsym(_ctypes.dlopen(None, 0), name)  # type: ignore[arg-type]
