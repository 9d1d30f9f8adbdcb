"""What import_lock.py imports."""

import threading


def load():
    import import_lock_plugins

    return import_lock_plugins


thread = threading.Thread(target=load)
thread.start()
thread.join()
