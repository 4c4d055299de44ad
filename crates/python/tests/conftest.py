"""What the tests have in common: ports, and nodes."""

import os
import socket
from pathlib import Path

import pytest

import finerail

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def port():
    """A TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def server(port):
    with finerail.Node(["127.0.0.2@tcp"], port=port) as node:
        yield node


@pytest.fixture
def client(port):
    with finerail.Node(["127.0.0.1@tcp"], port=port) as node:
        yield node


@pytest.fixture(autouse=True)
def names(doctest_namespace):
    doctest_namespace["finerail"] = finerail


def shared_data(relative):
    """A file of the shared data, or a skip that says so."""
    root = os.environ.get("FINERAIL_SHARED_DATA", ROOT.parent / "shared" / "data")
    path = Path(root) / relative
    if not path.exists():
        if os.environ.get("FINERAIL_REQUIRE") == "1":
            pytest.fail(f"{path} is missing")
        pytest.skip(f"{path} is missing")
    return path
