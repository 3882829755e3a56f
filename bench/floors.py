"""What the machine itself takes, measured beside the contenders."""

import multiprocessing
import pickle
import socket
import statistics
import struct
import time

import numpy as np

SIZE = struct.Struct("<I")


def _receive(sock):
    data = sock.recv(1 << 16)
    while len(data) < 4 or len(data) < 4 + SIZE.unpack_from(data)[0]:
        more = sock.recv(1 << 16)
        if not more:
            return None
        data += more
    return pickle.loads(memoryview(data)[4:])


def _send(sock, value):
    data = pickle.dumps(value, 5)
    sock.sendall(SIZE.pack(len(data)) + data)


def _serve(sock):
    while (value := _receive(sock)) is not None:
        _send(sock, value)


def echo(calls):
    """Round trip in us of a bare pickle echo between two Python processes, over a Unix socket."""
    ours, theirs = socket.socketpair()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(theirs,))
    process.start()
    theirs.close()
    times = []
    for i in range(calls + 50):
        begin = time.perf_counter()
        _send(ours, (i,))
        assert _receive(ours) == (i,)
        times.append((time.perf_counter() - begin) * 1e6)
    _send(ours, None)
    ours.close()
    process.join()
    return statistics.median(times[50:])


def memcpy(array):
    """Copying the array into fresh memory (what a first argument needs), and
    into memory that is there (what a second one needs), in GiB/s."""
    fresh, warm = [], []
    for _ in range(3):
        target = np.empty_like(array)
        for times in (fresh, warm):
            begin = time.perf_counter()
            np.copyto(target, array)
            times.append(time.perf_counter() - begin)
        del target
    size = array.nbytes / (1 << 30)
    return {"fresh": size / statistics.median(fresh), "warm": size / statistics.median(warm)}


def get_memory(array):
    """Writes four times as much memory as the array has, and releases it. A virtual machine gets
    memory from its host when it is written first, and may have returned it since: whoever comes
    next would wait for the host."""
    kept = [np.ones_like(array) for _ in range(4)]
    del kept
