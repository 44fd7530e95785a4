"""Messages between server and engine processes: arrays are sent as raw bytes, not copied into a pickle.

Both ends are processes of this program, which is why pickles may be trusted here.
"""

from __future__ import annotations

import pickle
from multiprocessing.connection import Connection
from typing import Any


def send(connection: Connection, message: object) -> None:
    """Write a message."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    arrays = [view for buffer in buffers if (view := buffer.raw()).nbytes]
    sizes = [buffer.raw().nbytes for buffer in buffers]
    connection.send_bytes(pickle.dumps((body, sizes)))
    for array in arrays:
        connection.send_bytes(array)


def receive(connection: Connection) -> Any:
    """Read a message; EOFError at the end."""
    body, sizes = pickle.loads(connection.recv_bytes())
    return pickle.loads(body, buffers=[connection.recv_bytes() if size else b"" for size in sizes])
