"""Before each step rank 1 waits for a connection, which comes after some seconds."""

import socket
import subprocess
import sys

import training

CONNECT = "import socket, sys, time; time.sleep(4); socket.create_connection(('127.0.0.1', int(sys.argv[1])))"

training.begin()
with socket.create_server(("127.0.0.1", 0)) as server:
    while True:
        if training.RANK == 1:
            client = subprocess.Popen([sys.executable, "-c", CONNECT, str(server.getsockname()[1])])
            server.accept()[0].close()
            client.wait()
        training.step()
