"""Measures a put of 64 bytes, and reads of 64 MiB into a NumPy array, between two nodes of this program.

    python measure.py [PORT [ROUNDS]]
"""

import sys
import time

import numpy

import finerail

port = int(sys.argv[1]) if len(sys.argv) > 1 else 9988
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 1000

with (
    finerail.Node(["127.0.0.2@tcp"], port=port) as server,
    finerail.Node(["127.0.0.1@tcp"], port=port) as client,
    server.window(10, bytearray(64), writable=True),
    server.window(11, numpy.zeros(64 << 20, dtype=numpy.uint8)),
):
    payload = bytes(64)
    client.put("127.0.0.2@tcp", 10, payload)
    begun = time.perf_counter()
    for _ in range(rounds):
        client.put("127.0.0.2@tcp", 10, payload)
    each = (time.perf_counter() - begun) / rounds
    print(f"a put of 64 bytes with its ACK: {each * 1e6:.0f} µs")

    place = numpy.empty(64 << 20, dtype=numpy.uint8)
    begun = time.perf_counter()
    for _ in range(max(rounds // 100, 1)):
        client.read_into("127.0.0.2@tcp", 11, place)
    each = (time.perf_counter() - begun) / max(rounds // 100, 1)
    print(f"a read of 64 MiB: {place.nbytes / each / 1e9:.2f} GB/s")
