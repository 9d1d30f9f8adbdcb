"""python fuse_server.py FOLDER [served]: a file system of one file, `shard`, that does not answer; or, if
served, answers each read after a while. Needs root. Prints a line when it is mounted."""

import ctypes
import os
import struct
import sys
import time

INIT, LOOKUP, GETATTR, OPEN, READ = 26, 1, 3, 14, 15
FILE, ENOENT, ENOSYS = 2, 2, 38
DIRECT_IO = 1  # nothing is cached


def mount(folder):
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"filer:/export", folder.encode(), b"fuse.filer", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    return device


def attributes(node):
    mode = 0o40755 if node == 1 else 0o100644
    times = (0, 0, 0, 0, 0, 0)
    return struct.pack("6Q10I", node, 1 << 30, 0, *times[:3], *times[:3], mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body):
    """None: there is no such call."""
    if opcode == INIT:
        return struct.pack("4I2H2I2H8I", 7, 31, 4096, 0, 12, 10, 4096, 1, 0, 0, *[0] * 8)
    if opcode == LOOKUP and body.rstrip(b"\0") == b"shard":
        return struct.pack("4Q2I", FILE, 0, 1, 1, 0, 0) + attributes(FILE)
    if opcode == GETATTR:
        return struct.pack("Q2I", 1, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("Q2I", 1, DIRECT_IO, 0)
    if opcode == READ:
        time.sleep(0.05)
        return bytes(100)
    return None


def serve(device):
    while True:
        request = os.read(device, 1 << 16)
        _, opcode, unique, node = struct.unpack_from("IIQQ", request)
        reply = answer(opcode, node, request[40:])
        error = 0 if reply is not None else -(ENOENT if opcode == LOOKUP else ENOSYS)
        body = reply or b""
        os.write(device, struct.pack("IiQ", 16 + len(body), error, unique) + body)


opened = mount(sys.argv[1])
print("mounted", flush=True)
if "served" in sys.argv:
    serve(opened)
while True:
    time.sleep(1000)
