"""Two nodes in one program: a message, and memory that the other node reads.

    python put_get.py [PORT]
"""

import sys

import finerail

port = int(sys.argv[1]) if len(sys.argv) > 1 else 9988

with (
    finerail.Node(["127.0.0.2@tcp"], port=port) as server,
    finerail.Node(["127.0.0.1@tcp"], port=port) as client,
    server.inbox(10) as inbox,
):
    client.put("127.0.0.2@tcp", 10, b"hello", hdr_data=42)
    message = inbox.next(timeout=10)
    print(f"{message.data.decode()} ({message.length} bytes, number {message.hdr_data})")

    with server.window(11, b"memory of the server", match_bits=7):
        print(client.read("127.0.0.2@tcp", 11, 20, match_bits=7).decode())
