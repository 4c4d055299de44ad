"""Explanations, sites, plans, captures, the doctor."""

import numpy
import pytest
from conftest import shared_data

import finerail

NET = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp, interfaces: {0: eth0}}]}]"

RING = """
machine: ring
fabric:
  kind: torus
  dimensions:
    - {name: x, size: 4, cost: 1, capacity: [10]}
clients: {per-vertex: 1}
groups:
  - name: A
    nets: [o2ib201]
    sub-groups:
      - modules:
          - {blade: a1, at: [0], nodes: [1001]}
          - {blade: a2, at: [2], nodes: [1002]}
"""


def test_a_path_is_explained_and_what_has_none():
    explanation = finerail.explain("10.0.0.9@tcp", [("net.yaml", NET)], sends=10)
    assert "10.0.0.1@tcp" in str(explanation["answer"]["path"])
    explanation = finerail.explain("10.0.0.9@o2ib", [("net.yaml", NET)])
    assert explanation["answer"]["path"] is None
    with pytest.raises(finerail.Error, match="net.yaml"):
        finerail.explain("10.0.0.9@tcp", [("net.yaml", "net: [")])
    with pytest.raises(ValueError, match="nobody"):
        finerail.explain("nobody", [])
    with pytest.raises(finerail.Error):
        finerail.explain_state("10.0.0.9@tcp", "{}")


def test_a_site_is_checked(tmp_path):
    (tmp_path / "mds1.yaml").write_text(NET)
    (tmp_path / "client1.yaml").write_text(NET.replace("0.1@", "0.2@"))
    reach = finerail.site.reach(tmp_path)
    assert reach
    assert "findings" in str(finerail.site.check(tmp_path))
    with pytest.raises(finerail.Error, match="oss9"):
        finerail.site.reach(tmp_path, "oss9")
    with pytest.raises(finerail.Error):
        finerail.site.check(tmp_path / "nothing")


def test_a_plan_is_arrays_and_frames():
    machine = finerail.Machine.parse(RING, "ring.yaml")
    assert (machine.name, machine.nets) == ("ring", ["o2ib201"])
    plan = machine.plan("nearest", backups=1)
    assert plan.routers.shape == (4, 1, 2)
    assert set(plan.routers[:, 0, 0]) == {1001, 1002}
    assert plan.evaluate()["unserved"] == 0
    assert plan.places().shape == (4, 1)
    loads = plan.link_loads()
    assert loads.shape[1] == 3 and loads[:, 1].sum() > 0
    frame = finerail.plan_frame(machine, plan)
    assert list(frame.columns) == ["client", "net", "choice", "router"] and len(frame) == 8
    links = finerail.link_frame(plan, reads=True)
    assert numpy.isclose(links.utilisation.max(), plan.evaluate()["read"]["max"])
    dead = machine.plan("nearest", backups=1, dead=[1001])
    assert set(dead.routers.ravel()) == {1002, -1}
    for wrong in [{"policy": "best"}, {"dead": [7]}]:
        with pytest.raises(ValueError):
            machine.plan(**wrong)
    with pytest.raises(ValueError, match="ring.yaml"):
        finerail.Machine.parse("machine: [", "ring.yaml")
    with pytest.raises(ValueError, match="frontier"):
        finerail.Machine.preset("titan")
    with pytest.raises(FileNotFoundError):
        finerail.Machine.read("/nowhere")


def test_a_capture_is_its_messages(tmp_path):
    captures = sorted(shared_data("captures").glob("*.pcap"))
    assert captures
    messages = list(finerail.capture(captures[0]))
    assert any(message["what"] == "HELLO" for message in messages)
    # An iterator that nobody asks any more ends its thread.
    one = next(iter(finerail.capture(captures[0])))
    assert one["connection"] >= 0
    with pytest.raises(FileNotFoundError):
        finerail.capture(tmp_path / "nothing")
    (tmp_path / "text.pcap").write_text("no capture")
    with pytest.raises(finerail.Error):
        list(finerail.capture(tmp_path / "text.pcap"))


def test_the_doctor_finds_that_nobody_listens(port, server):
    healthy = finerail.doctor("127.0.0.2@tcp", "127.0.0.1", port=port)
    assert healthy["steps"][0]["tested"]
    found = finerail.doctor("127.0.0.3@tcp", "127.0.0.1", port=port, timeout=1)
    assert found["findings"][0]["to_do"]
    with pytest.raises(ValueError):
        finerail.doctor("10.0.0.1@o2ib", "nowhere")


def test_a_control_socket_that_is_not_there_is_said(tmp_path):
    with pytest.raises(finerail.Error, match="no node is controlled"):
        finerail.Control(tmp_path / "socket").show("net")
    with pytest.raises(ValueError):
        finerail.Control(tmp_path / "socket").request({"nothing": 1})
