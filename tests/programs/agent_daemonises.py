"""Becomes a daemon as the books say, then listens on sockets of its own; prints its pid.

Connections to its own sockets are answered with `mine`: nobody else may accept them.
"""

import os
import socket
import sys

output = os.dup(1)
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.dup2(output, 1)
os.closerange(3, 4096)
os.chdir("/")
# One of them gets the number that the agent's socket had.
own = [socket.create_server(("127.0.0.1", 0), backlog=5)]
for number in (1023, 1022):
    moved = socket.create_server(("127.0.0.1", 0), backlog=5)
    os.dup2(moved.fileno(), number)
    own.append(socket.socket(fileno=number))
print(os.getpid(), *[server.getsockname()[1] for server in own], flush=True)
while True:
    for server in own:
        connection, _ = server.accept()
        connection.sendall(b"mine")
        connection.close()
    sys.stdout.flush()
