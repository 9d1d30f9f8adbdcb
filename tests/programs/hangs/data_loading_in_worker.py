"""The data set of rank 1 asks a server that does not answer, in a worker of its DataLoader."""

import socket

import training
from torch.utils.data import DataLoader, Dataset

server = socket.create_server(("127.0.0.1", 0))


class Samples(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if training.RANK == 1:
            return socket.create_connection(server.getsockname()).recv(100)
        return index


training.begin()
for batch in DataLoader(Samples(), num_workers=1):
    training.step()
