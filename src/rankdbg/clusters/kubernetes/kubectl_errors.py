"""kubectl's error messages -> an explanation and the next step.

kubectl reports errors only as text. These are the messages of Kubernetes 1.32; a message that is
not recognised is shown unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# The reason is in brackets: `Error from server (NotFound): ...`.
_REASON = re.compile(r"\((NotFound|Forbidden|Unauthorized|BadRequest)\)")
_FORBIDDEN = re.compile(r'cannot (?P<verb>[\w-]+) resource "(?P<resource>[\w/.-]+)"')
# The API server calls the kubelet: Post "https://HOST:10250/exec/...".
_TO_KUBELET = re.compile(r'"https://[^"\s]+/(?:exec|containerLogs)/[^"]*": (?P<why>.+)')
_NO_SUCH_COMMAND = re.compile(
    r'exec: "sh": (stat|executable file not found|no such file)|"sh".*no such file or directory'
)
# A request contains the whole command: several kB that users need not see.
_QUERY = re.compile(r'(https?://[^\s"?]+)\?[^\s"]*')

Shown = Callable[..., str]  # words of kubectl -> as the user would type them

PERMISSIONS = "get and list on pods, create and get on pods/exec, get on pods/log, list on events"


def reason_of(said: str) -> str:
    """The reason given by Kubernetes, if there is one."""
    found = _REASON.search(said)
    return found[1] if found else ""


def without_queries(text: str) -> str:
    return _QUERY.sub(r"\1", text)


def forbidden_logs(said: str, shown: Shown) -> str:
    """The same text for all pods, so that it is reported once."""
    found = _FORBIDDEN.search(said)
    if reason_of(said) != "Forbidden" or found is None:
        return said
    verb, resource = found["verb"], found["resource"]
    refusal = said.partition(" is forbidden: ")[2] or said
    check = shown("auth", "can-i", verb, resource)
    return f"your role lacks {verb} on {resource}: {refusal}; check with {check}"


def missing_permission(said: str, shown: Shown) -> str:
    """The next step if something is forbidden."""
    found = _FORBIDDEN.search(said)
    if found is None:
        return f"rankdbg needs {PERMISSIONS}: {shown('auth', 'can-i', '--list')}"
    verb, resource = found["verb"], found["resource"]
    return (
        f"your role lacks {verb} on {resource}; rankdbg needs {PERMISSIONS}: "
        f"{shown('auth', 'can-i', verb, resource)}"
    )


def explain_exec(
    said: str, pod: str, container: str, machine: str, shown: Shown
) -> tuple[str, str]:
    """For an exec that failed: a sentence, and the next step."""
    place = f"container {container} of pod {pod}"
    if reason_of(said) == "Forbidden":
        return f"exec into {place} is forbidden: {said}", missing_permission(said, shown)
    if kubelet := _TO_KUBELET.search(said):
        what = f"the kubelet of {machine or 'its node'} does not respond: {kubelet['why']}"
        return what, shown("get", "node", *filter(None, [machine]))
    if _NO_SUCH_COMMAND.search(said):
        words = ("--image=python:3.12", f"--target={container}", "--profile=sysadmin")
        debug = shown("debug", pod, "-it", *words)
        what = f"{place} has no shell (sh), which rankdbg needs to start"
        return what, f"use a debug container: {debug}; then -c with its name"
    what = f"exec into {place}: {said}"
    again = shown("exec", pod, "-c", container, "--", "sh", "-c", "true")
    return what, f"try it without rankdbg: {again}"
