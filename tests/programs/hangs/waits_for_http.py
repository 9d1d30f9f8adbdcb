"""Rank 3 sends an HTTP request that is not answered."""

import socket
import urllib.request

import training

server = socket.create_server(("127.0.0.1", 0))

training.begin()
if training.RANK == 3:
    urllib.request.urlopen(f"http://127.0.0.1:{server.getsockname()[1]}/metrics")
training.step()
