"""Put and Get."""

import gc
import threading

import numpy
import pytest

import finerail

SERVER = "127.0.0.2@tcp"


def test_a_message_arrives_with_its_number_and_sender(server, client):
    with server.inbox(10, size=64) as inbox:
        client.put(SERVER, 10, b"hello", match_bits=7, hdr_data=2**63)
        message = inbox.next(timeout=10)
        assert (message.data, message.length) == (b"hello", 5)
        assert (message.match_bits, message.hdr_data) == (7, 2**63)
        assert message.source == "127.0.0.1@tcp"
        assert repr(message).startswith("Message(source=\"127.0.0.1@tcp\", match_bits=7")
        assert inbox.next(timeout=0.01) is None


def test_an_iteration_ends_when_the_inbox_is_closed(server, client):
    inbox = server.inbox(10)
    both = threading.Event()
    seen = []

    def receive():
        for message in inbox:
            seen.append(message.data)
            if len(seen) == 2:
                both.set()

    thread = threading.Thread(target=receive)
    thread.start()
    client.put(SERVER, 10, memoryview(b"one"))
    client.put(SERVER, 10, bytearray(b"two"))
    assert both.wait(30) and seen == [b"one", b"two"]
    inbox.close()
    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(EOFError):
        inbox.next()


def test_memory_is_read_and_written_without_a_copy(server, client):
    memory = numpy.zeros(3 << 20, dtype=numpy.uint8)
    sent = numpy.arange(3 << 20, dtype=numpy.uint32).astype(numpy.uint8)
    with server.window(11, memory, match_bits=3, writable=True):
        client.write(SERVER, 11, sent, match_bits=3)
        assert (memory == sent).all()
        got = numpy.empty_like(sent)
        address = got.ctypes.data
        client.read_into(SERVER, 11, got, match_bits=3)
        assert (got == sent).all() and got.ctypes.data == address
        assert client.read(SERVER, 11, 16, match_bits=3, offset=256) == sent[256:272].tobytes()
    memory[:] = 1


def test_a_window_keeps_the_memory_of_an_object_that_dies(server, client):
    window = server.window(11, bytearray(b"x" * 4096))
    gc.collect()
    assert client.read(SERVER, 11, 4096) == b"x" * 4096
    # The window itself dies while it is open.
    del window
    gc.collect()


def test_what_cannot_be_is_said(server, client, port):
    with pytest.raises(ValueError, match="nobody"):
        client.put("nobody", 10, b"")
    with pytest.raises(ValueError, match="1 MiB"):
        client.put(SERVER, 10, bytes((1 << 20) + 1))
    with pytest.raises(finerail.NoAnswer, match="nothing accepts"):
        client.put(SERVER, 33, b"x", timeout=0.2)
    with pytest.raises(finerail.NoAnswer, match="Connection refused"):
        client.put("127.0.0.77@tcp", 33, b"x")
    with pytest.raises(finerail.NoAnswer, match="no path"):
        client.put("10.1.1.1@tcp9", 33, b"x")
    for portal in (0, 64):
        with pytest.raises(ValueError, match=f"portal {portal} .* 1 to 63"):
            server.inbox(portal)
        with pytest.raises(ValueError, match=f"portal {portal} .* 1 to 63"):
            client.put(SERVER, portal, b"x")
    with pytest.raises(ValueError, match="numpy.uint8"):
        client.read_into(SERVER, 10, numpy.zeros(4))
    with pytest.raises(finerail.Error, match="in a list"):
        finerail.Node(SERVER)
    with pytest.raises(ValueError, match="written"):
        client.read_into(SERVER, 10, b"constant")
    with pytest.raises(ValueError, match="contiguous"):
        client.read_into(SERVER, 10, numpy.zeros((4, 4), dtype=numpy.uint8).T[1:, 1:])
    with pytest.raises((ValueError, BufferError, TypeError)):
        client.put(SERVER, 10, "text")
    with pytest.raises(ValueError):
        client.put(SERVER, 10, b"", timeout=-1)
    with pytest.raises(OverflowError):
        client.put(SERVER, 2**40, b"")
    with pytest.raises(finerail.Error, match="in use"):
        finerail.Node(["127.0.0.1@tcp"], port=port)
    with pytest.raises(finerail.Error, match="config"):
        finerail.Node("net: [")
    with pytest.raises(finerail.Error, match="no NID"):
        finerail.Node(["nowhere"])
    client.close()
    client.close()
    with pytest.raises(finerail.Error, match="closed"):
        client.put(SERVER, 10, b"")


def test_calls_of_several_threads_arrive_once_each(server, client):
    with server.inbox(10, size=8) as inbox:

        def send(first):
            for number in range(first, first + 50):
                client.put(SERVER, 10, b"", hdr_data=number)

        threads = [threading.Thread(target=send, args=(first,)) for first in (0, 50, 100)]
        for thread in threads:
            thread.start()
        seen = sorted(inbox.next(timeout=30).hdr_data for _ in range(150))
        for thread in threads:
            thread.join()
    assert seen == list(range(150))


def test_a_node_says_what_it_is(server, client):
    assert client.nids == ["127.0.0.1@tcp"]
    reply = client.ping(SERVER)
    assert reply["primary_nid"] == SERVER and 0 < reply["round_trip"] < 60
    assert client.discover(SERVER) == [SERVER]
    assert client.stats()["send_count"] >= 1
    with pytest.raises(finerail.NoAnswer):
        client.ping("127.0.0.9@tcp", timeout=0.3)
