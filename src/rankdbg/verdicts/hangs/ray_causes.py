"""What Ray's tables can show to hold others up, in words. Words in braces are filled in."""

from __future__ import annotations

from rankdbg.verdicts.hangs.hang_rules import HangRule

OBJECTS = "object-spilling"

UNPLACEABLE = HangRule(
    cause="ray-unplaceable",
    says="needs {needs}; the largest node has {largest}",
    why="No node of the cluster has these resources: Ray waits until one is added.",
    fix="request less, or add a node that has it; ray status",
)
RESOURCES_HELD = HangRule(
    cause="ray-resources-held",
    says="needs {needs}, held by {holders}, where nothing runs",
    why="An actor holds its resources until it ends, whether it runs anything or not.",
    fix="end actors that are not used any more, or give them num_cpus=0; ray status",
)
NOT_STARTED = HangRule(
    cause="ray-not-started",
    says="needs {needs}, which is free, and has not started",
    why="Its worker or its runtime environment is not ready, or a label or affinity keeps it away.",
    fix="check the runtime environment and the raylet's log: rankdbg doctor",
)
RESTARTS = HangRule(
    cause="ray-actor-restarts",
    says="Ray has restarted it {restarts} times, and it ends before it runs a call{died}",
    why="Its process ends in the constructor or soon after.",
    fix="find out why its process ends: rankdbg doctor",
)
CYCLE = HangRule(
    cause="ray-cycle",
    says="wait for each other: {calls}",
    why="Each runs a call that waits for the other, and an actor runs one call after another.",
    fix="do not call ray.get() on an actor that may be waiting for this one: return the "
    "reference, use async methods, or max_concurrency above 1",
)
QUEUE = HangRule(
    cause="waits-for-queue",
    role="outside",
    says="waiting at {queue} queue of ray.util.queue, in {place}",
    why="No actor or task puts an item into the queue, or takes one out of a full one.",
    fix="check the actor or task at the other end of the queue: rankdbg stacks",
)
AWAITS = HangRule(
    cause="event-loop-awaits",
    role="outside",
    says="in an asynchronous method, at an await",
    why="No thread runs the method: it awaits something that has not happened.",
    fix="give the await a timeout; what its tasks await: rankdbg stacks {rank} --tasks",
)
_SPILLING = (
    "check the storage for spilled objects on {host} (object_spilling_config), and its mount"
)
# By the function that a worker which moves objects runs.
MOVES = {
    "restore_spilled_objects": HangRule(
        cause=OBJECTS,
        role="outside",
        says="reading a spilled object from storage, in {place}",
        why="The object was spilled to storage, and ray.get() waits until Ray has read it again.",
        fix=_SPILLING,
    ),
    "spill_objects": HangRule(
        cause=OBJECTS,
        role="outside",
        says="writing an object to storage, in {place}",
        why="The object store is full, and others wait until Ray has written objects to storage.",
        fix=_SPILLING,
    ),
}
# By the raylet of a node, for an object that another node pulls.
READS_FILE = HangRule(
    cause=OBJECTS,
    role="outside",
    says="in the system call {call} on the file of {object}, for node {to}",
    why="The object was spilled to a disk, and the raylet of that node reads it for the node that needs it.",
    fix="check the storage for spilled objects on {host}, and its mount: ls -l {file}",
)
NOT_SENT = HangRule(
    cause=OBJECTS,
    role="outside",
    says="has not sent {object} to node {to}, which has requested it {requests} times",
    why="The raylet of the node on which an object was spilled sends it when it can read the file.",
    fix="check on {host} whether {file} is there, and the raylet's log: rankdbg doctor",
)
ALL = (
    UNPLACEABLE, RESOURCES_HELD, NOT_STARTED, RESTARTS, CYCLE, QUEUE, AWAITS, *MOVES.values(),
    READS_FILE, NOT_SENT,
)  # fmt: skip
