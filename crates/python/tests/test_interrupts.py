"""Ctrl-C ends each call that waits, soon, and the program goes on."""

import signal
import socket
import subprocess
import sys
import time

import pytest

WAITS = {
    "ping": "node.ping('127.0.0.9@tcp', timeout=600)",
    "put": "node.put('127.0.0.1@tcp', 40, b'x', timeout=600)",
    "read_into": "node.read_into('127.0.0.1@tcp', 40, bytearray(64), timeout=600)",
    "inbox": "node.inbox(41).next()",
    "iteration": "list(node.inbox(41))",
    "discover": "node.discover('127.0.0.9@tcp', timeout=600)",
}

PROGRAM = """
import sys, finerail
node = finerail.Node(["127.0.0.1@tcp"], port=int(sys.argv[1]))
print("ready", flush=True)
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(node.nids, flush=True)
import os
os._exit(0)
"""


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_wait(name, port):
    program = PROGRAM.format(wait=WAITS[name])
    # Whoever dials there is connected, and hears nothing.
    with socket.create_server(("127.0.0.9", port)):
        interrupt(program, port)


def interrupt(program, port):
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(port)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    # The wait begins a moment later; until then, the signal would end the program elsewhere.
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    said = process.communicate(timeout=30)[0]
    assert said == "interrupted\n['127.0.0.1@tcp']\n"
    assert time.monotonic() - begun < 20
