"""What `py-spy dump` prints, as text and as JSON, of one process or of many."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rankdbg.dumps.dumped_threads import DEEPEST, MOST_THREADS, DumpedThread
from rankdbg.dumps.native_frames import NativeFrame
from rankdbg.process.user_code import is_native

PROCESS = re.compile(r"Process (\d{1,9}): (.*)$")
PYTHON = re.compile(r"Python v(\d+\.\d+)\S* \((.*)\)$")
# Before Python 3.11 the number is that of pthreads, in hexadecimal.
THREAD = re.compile(
    r'Thread (0x[0-9A-Fa-f]{1,16}|\d{1,18}) \(((?:idle|active)[^)]*)\)(?:: "(.*)")?$'
)
_FRAME = re.compile(r"    (\S.*?) \((.+?)(?::(\d{1,9}))?\)$")
_VARIABLES = re.compile(r"        (Arguments|Locals):$")
_VARIABLE = re.compile(r"            (\S[^:]*): (.*)$")
_ADDRESS = re.compile(r"0x[0-9a-f]+$")
GIL = "Has the GIL"


class PyspyThreadReader:
    """The lines after the head of one thread."""

    def __init__(self, head: re.Match[str], library: str = "") -> None:
        number, state, name = head.groups()
        status = GIL if "gil" in state else ""
        value = int(number, 16) if number.startswith("0x") else int(number)
        self._thread = DumpedThread(value, name or "", status, active=state.startswith("active"))
        self._library = library  # the directory of Python's standard library
        self._in_variables = False

    def read(self, line: str) -> bool:
        """Whether the line is a part of it."""
        thread = self._thread
        if _VARIABLES.match(line):
            self._in_variables = bool(thread.frames)
        elif self._in_variables and (variable := _VARIABLE.match(line)):
            thread.locals[-1][variable[1]] = variable[2]
        elif frame := _FRAME.match(line):
            self._in_variables = False
            if len(thread.frames) < DEEPEST:
                thread.frames.append(_frame(frame[1], frame[2], int(frame[3] or 0)))
                thread.locals.append({})
        else:
            return not line or line[0].isspace()
        return True

    def result(self) -> DumpedThread:
        thread = self._thread
        scripts = {f.file for f in thread.frames if f.function == "<module>" and f.python}
        thread.frames = [
            frame._replace(file=whole_path(frame.file, self._library))
            if frame.python and frame.file not in scripts
            else frame
            for frame in thread.frames
        ]
        if not any(thread.locals):
            thread.locals = []
        return thread


def _frame(function: str, file: str, line: int) -> NativeFrame:
    if is_native(file) or _ADDRESS.match(function):
        name = "??" if _ADDRESS.match(function) else function
        return NativeFrame(name, file if line else "", line, "" if line else file)
    return NativeFrame(function, file, line, python=True)


def library_of(version: str, program: str) -> str:
    """/opt/py/lib/python3.11 for 3.11 and /opt/py/bin/python3.11."""
    folder, _, name = program.rpartition("/")
    prefix = folder.removesuffix("/bin") if folder.endswith("/bin") else "/usr"
    return f"{prefix}/lib/python{version}" if name else f"/usr/lib/python{version}"


def whole_path(file: str, library: str) -> str:
    """py-spy shortens paths to the part below sys.path: `threading.py` is the standard library's,
    `torch/distributed/distributed_c10d.py` a package's. What is neither is the user's."""
    if file.startswith(("/", "<")) or not file.endswith((".py", ".pyx")):
        return file
    first, slash, _ = file.partition("/")
    if first.removesuffix(".py") in sys.stdlib_module_names:
        return f"{library or '/usr/lib/python3'}/{file}"
    if slash and first in PACKAGES:
        return f"{library or '/usr/lib/python3'}/site-packages/{file}"
    return file


# Packages of the frames that rules know, and others that are often in stacks.
PACKAGES = frozenset(
    [
        "accelerate",
        "aiohttp",
        "anyio",
        "apex",
        "apache_beam",
        "async_timeout",
        "bitsandbytes",
        "boto3",
        "botocore",
        "catalyst",
        "cloudpickle",
        "colossalai",
        "composer",
        "cupy",
        "dask",
        "datasets",
        "debugpy",
        "deepspeed",
        "diffusers",
        "distributed",
        "fabric",
        "fairscale",
        "fairseq",
        "fasteners",
        "fastapi",
        "filelock",
        "flash_attn",
        "flax",
        "fsspec",
        "gcsfs",
        "grain",
        "grpc",
        "h5py",
        "horovod",
        "httpcore",
        "httpx",
        "huggingface_hub",
        "hydra",
        "ignite",
        "ipykernel",
        "IPython",
        "jax",
        "jaxlib",
        "joblib",
        "keras",
        "kornia",
        "lightning",
        "lightning_fabric",
        "litgpt",
        "lmdb",
        "megatron",
        "mmcv",
        "mmengine",
        "mlflow",
        "monarch",
        "mpi4py",
        "multiprocess",
        "nemo",
        "nemo_rl",
        "numba",
        "numpy",
        "omegaconf",
        "openrlhf",
        "optax",
        "optree",
        "orbax",
        "pandas",
        "peft",
        "pexpect",
        "PIL",
        "portalocker",
        "psutil",
        "pyarrow",
        "pyspark",
        "pytorch_lightning",
        "ray",
        "redis",
        "requests",
        "s3fs",
        "safetensors",
        "scipy",
        "sglang",
        "sklearn",
        "smart_open",
        "sqlalchemy",
        "starlette",
        "streaming",
        "tensorboard",
        "tensorboardX",
        "tensorflow",
        "tensorflow_datasets",
        "timm",
        "tokenizers",
        "torch",
        "torch_npu",
        "torch_xla",
        "torchaudio",
        "torchdata",
        "torchelastic",
        "torchmetrics",
        "torchrec",
        "torchrl",
        "torchsnapshot",
        "torchtext",
        "torchtitan",
        "torchtune",
        "torchvision",
        "tornado",
        "tqdm",
        "transformer_engine",
        "transformers",
        "triton",
        "trl",
        "unsloth",
        "urllib3",
        "uvicorn",
        "uvloop",
        "verl",
        "vllm",
        "wandb",
        "webdataset",
        "websockets",
        "xformers",
        "xgboost",
        "zarr",
        "zmq",
    ]
)


# --- JSON ---------------------------------------------------------------------------------


def read_json(document: Any) -> Iterator[tuple[int | None, list[DumpedThread]]]:
    """What `py-spy dump --json` prints: the pid of each process, and its threads. Raises ValueError
    if it is something else."""
    if not isinstance(document, list) or not document:
        raise ValueError("not what py-spy prints")
    processes: dict[int | None, list[DumpedThread]] = {}
    for entry in document[:MOST_THREADS]:
        if not isinstance(entry, dict) or not isinstance(entry.get("frames"), list):
            raise ValueError("not what py-spy prints")
        pid = _number(entry.get("pid"))
        processes.setdefault(pid, []).append(_thread(entry))
    yield from processes.items()


def _thread(entry: dict[str, Any]) -> DumpedThread:
    frames = [frame for frame in entry["frames"][:DEEPEST] if isinstance(frame, dict)]
    number = _number(entry.get("os_thread_id")) or _number(entry.get("thread_id")) or 0
    variables = [dict(_variables(frame.get("locals"))) for frame in frames]
    active = entry.get("active")
    return DumpedThread(
        number,
        str(entry.get("thread_name") or ""),
        GIL if entry.get("owns_gil") is True else "",
        [_json_frame(frame) for frame in frames],
        variables if any(variables) else [],
        active if isinstance(active, bool) else None,
    )


def _json_frame(frame: dict[str, Any]) -> NativeFrame:
    file = str(frame.get("filename") or frame.get("module") or "")
    return _frame(str(frame.get("name") or "??"), file, _number(frame.get("line")) or 0)


def _variables(entries: Any) -> Iterator[tuple[str, str]]:
    for entry in entries if isinstance(entries, Sequence) else ():
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            yield entry["name"], str(entry.get("repr"))


def _number(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 2**64 else None
