"""Control of a node that runs as a program."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT

import finerail

# Each recovery ping raises the health a little.
NET = """
net: [{net type: tcp, local NI(s): [{nid: 127.0.0.1@tcp}]}]
global: {health_sensitivity: 1}
"""


@pytest.fixture
def socket(tmp_path, port):
    """The control socket of a node."""
    program = os.environ.get("FINERAIL_PROGRAM", ROOT / "target/debug/finerail")
    if not Path(program).exists():
        if os.environ.get("FINERAIL_REQUIRE") == "1":
            pytest.fail(f"{program} is missing")
        pytest.skip(f"{program} is missing")
    config, socket = tmp_path / "lnet.conf", tmp_path / "control.sock"
    config.write_text(NET)
    node = subprocess.Popen([program, "node", "--config", config, "--port", str(port), "--control", socket])
    try:
        while not socket.exists():
            assert node.poll() is None
            time.sleep(0.01)
        yield socket
    finally:
        node.terminate()
        assert node.wait(60) == 0


def test_a_node_is_shown_and_changed(socket):
    control = finerail.Control(socket)
    assert "nid: 127.0.0.1@tcp" in control.show("net")
    control.set_health("127.0.0.1@tcp", 500)
    assert "health value: 50" in control.show("net")
    control.apply("peer: [{primary nid: 10.0.0.7@tcp, peer ni: [{nid: 10.0.0.7@tcp}]}]")
    assert "10.0.0.7@tcp" in control.export(backup=True)
    assert "127.0.0.1@tcp" in control.ping("127.0.0.1@tcp")
    explained = finerail.explain_state("10.0.0.7@tcp", control.state())
    assert "127.0.0.1@tcp" in json.dumps(explained)
    # A refusal ends no connection.
    with pytest.raises(finerail.Error):
        control.set_health("10.9.9.9@tcp", 1)
    assert "tcp" in control.show("net", net="tcp")


def test_the_example_prints_each_change_of_health(socket):
    example = ROOT / "crates/python/examples/watch_health.py"
    watching = subprocess.Popen([sys.executable, example, socket], stdout=subprocess.PIPE, text=True)
    # A hang ends as a line that is missing.
    limit = threading.Timer(60, watching.kill)
    limit.start()
    try:
        assert watching.stdout.readline().endswith("0@lo 0\n")
        assert watching.stdout.readline().endswith("127.0.0.1@tcp 1000\n")
        finerail.Control(socket).set_health("127.0.0.1@tcp", 500)
        _time, nid, health = watching.stdout.readline().split()
        assert nid == "127.0.0.1@tcp" and 500 <= int(health) < 1000
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0
    finally:
        limit.cancel()
        watching.kill()
