"""Two threads and two locks, in a program of one process that knows nothing of torch."""

import threading

accounts = [threading.Lock(), threading.Lock()]
both = threading.Barrier(2)


def transfer(source, target):
    with accounts[source]:
        both.wait()
        with accounts[target]:
            print("never")


print("ready", flush=True)
threading.Thread(target=transfer, args=(1, 0)).start()
transfer(0, 1)
