"""Settings of a watch: the `debug:` section of a job file, and command-line options."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rankdbg.errors import BadInput, shortened
from rankdbg.files import foreign_files
from rankdbg.investigations.confined import ConfinedFailed, confined

SECTION = "debug"
# What a job file collects after if it says no more than `enabled: true`.
USUAL_WAIT = 600.0
EXIT_HUNG = 86
MOST_BYTES = 1 << 20  # of a job file
PARSE_SECONDS, PARSE_MEMORY = 10.0, 192 << 20


@dataclass(frozen=True)
class WatchSettings:
    enabled: bool = True
    hang_after: float = 180.0  # seconds without progress; 0: fixed times alone
    wait_seconds: tuple[float, ...] = ()  # collect this long after the start, hang or not
    every: float = 0.0  # and every so many seconds
    look_every: float = 10.0  # seconds between two cheap looks
    output_dir: str = ""  # default: {log_dir}/backtraces
    log_dir: str = ""
    cuda: str = "suspects"  # "suspects", "all" or "none"
    notify: str = ""  # a command, given the report's file
    webhook: str = ""  # an address that gets the report as JSON
    abort: bool = False  # end the job when it hangs
    exit_status: int = EXIT_HUNG
    rules: tuple[str, ...] = ()
    grace: float = 5.0  # seconds for which a signal waits for a collection; 0: none
    before_end: float = 120.0  # collect this long before the time limit of a Slurm job; 0: never

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> WatchSettings:
        lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        return WatchSettings(**{**values, **lists})

    @property
    def directory(self) -> Path:
        log_dir = self.log_dir or "."
        if not self.output_dir:
            return Path(log_dir) / "backtraces"
        return Path(self.output_dir.replace("{log_dir}", log_dir))


def check(settings: WatchSettings) -> None:
    """Check early what would otherwise fail only when the job hangs."""
    if not 1 <= settings.exit_status <= 255:
        raise BadInput(
            f"invalid exit status {settings.exit_status}: expected a number from 1 to 255"
        )
    if settings.webhook and not settings.webhook.startswith(("http://", "https://")):
        raise BadInput(
            f"invalid webhook {settings.webhook!r}: expected an http or https URL",
            hint="https://...",
        )
    place = settings.directory.absolute()
    there = next(parent for parent in (place, *place.parents) if os.path.lexists(parent))
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "is not writable" if there.is_dir() else "is not a directory"
        raise BadInput(
            f"cannot write reports to {settings.directory}: {there} {why}", hint="--output-dir DIR"
        )


_ALLOWED_CUDA = ("suspects", "all", "none")


def read_file(path: str) -> WatchSettings:
    """The section of a job file; other sections are ignored."""
    text = _read(path)
    try:
        # A merge of merges of aliases is a line in a file, and endless in memory.
        made = confined(lambda: _plain(path, text), PARSE_SECONDS, PARSE_MEMORY)
    except ConfinedFailed as refused:
        raise BadInput(f"cannot read {path}: {refused}") from None
    if isinstance(made, dict):
        return WatchSettings(**made)
    what, why, hint = made
    raise BadInput(what, *why, hint=hint)


def _plain(path: str, text: str) -> dict[str, Any] | tuple[str, tuple[str, ...], str]:
    """The values, or the words of an error."""
    try:
        return vars(_settings(path, text))
    except BadInput as error:
        return error.what, error.why, error.hint


def _settings(path: str, text: str) -> WatchSettings:
    content = _load(path, text)
    section = content.get(SECTION)
    if section is None:
        raise BadInput(
            f"{path} has no section `{SECTION}:`",
            hint=f"add it: `{SECTION}: {{enabled: true}}`; docs/guides/watch-overnight.md",
        )
    if not isinstance(section, Mapping):
        raise BadInput(f"{path}: `{SECTION}` must be a section, not {_shown(section)}")
    values = {str(key): _checked(path, str(key), value) for key, value in section.items()}
    # As srt-slurm has it: a section without `enabled: true` is switched off.
    settings = replace(WatchSettings(enabled=False), **values)
    if "wait_seconds" not in values and "hang_after" not in values and "every" not in values:
        settings = replace(settings, wait_seconds=(USUAL_WAIT,))
    log_dir = content.get("log_dir")
    if not settings.log_dir and isinstance(log_dir, str):
        settings = replace(settings, log_dir=log_dir)
    return settings


def _read(path: str) -> str:
    try:
        return foreign_files.read_bytes(path, MOST_BYTES, named=True).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise BadInput(f"cannot read {path}: {reason}") from None


def _load(path: str, text: str) -> Mapping[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise BadInput(
            f"{path}{where}: not YAML: {getattr(error, 'problem', None) or error}"
        ) from None
    except RecursionError:
        raise BadInput(f"{path} is not a job file: it is nested too deeply") from None
    except (ValueError, OverflowError) as error:  # a date that is none, a number without end
        raise BadInput(f"{path}: not YAML: {error}") from None
    if not isinstance(content, Mapping):
        raise BadInput(f"{path} is not a job file: it has no sections")
    return content


def _checked(path: str, key: str, value: Any) -> Any:
    known = {field.name: field.default for field in fields(WatchSettings)}
    where = f"{path}: {SECTION}.{key}"
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        raise BadInput(
            f"{where}: unknown setting",
            f"there are: {', '.join(known)}",
            hint=f"did you mean {near[0]}?" if near else "",
        )
    if key in ("wait_seconds", "rules"):
        items = value if isinstance(value, list) else [value]
        return tuple(_number(where, v) if key == "wait_seconds" else _text(where, v) for v in items)
    default = known[key]
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise BadInput(f"{where} must be true or false, not {_shown(value)}")
        return value
    if isinstance(default, str):
        if key == "cuda":
            return check_cuda(where, value)
        return _text(where, value)
    number = _number(where, value)
    return int(number) if isinstance(default, int) else number


def check_cuda(where: str, value: Any) -> str:
    if value not in _ALLOWED_CUDA:
        raise BadInput(f"{where} must be one of {', '.join(_ALLOWED_CUDA)}, not {_shown(value)}")
    return str(value)


def _shown(value: Any) -> str:
    """Aliases of aliases are small in a file, and endless when they are written out."""
    if isinstance(value, (list, tuple, set, Mapping)):
        return "a list or a section"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "so large a number"
    return shortened(repr(value))


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{where} must be a string, not {_shown(value)}")
    return os.path.expandvars(value)


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 10**8:
        raise BadInput(f"{where} must be a number of seconds, not {_shown(value)}")
    return float(value)
