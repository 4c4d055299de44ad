"""The package as a whole: its stubs, examples and README."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, shared_data

import finerail
from finerail import _finerail

HERE = ROOT / "crates" / "python"


def test_the_stubs_name_what_there_is():
    stubs = ast.parse((HERE / "python/finerail/_finerail.pyi").read_text())
    classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in stubs.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in dir(_finerail) if not name.startswith("__")}
    assert public == set(classes) | functions
    for name, stub in classes.items():
        members = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
        real = getattr(_finerail, name)
        for member in members - {"__init__"}:
            assert hasattr(real, member), f"{name}.{member}"
        own = {member for member in vars(real) if not member.startswith("_")}
        fields = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
        assert own <= members | fields, name


def test_each_public_name_has_a_description():
    for name in finerail.__all__:
        if not name.startswith("__"):
            assert getattr(finerail, name).__doc__, name


@pytest.mark.parametrize(
    ("example", "says"),
    [("put_get.py", "hello (5 bytes, number 42)\nmemory of the server\n")],
)
def test_an_example_runs(example, says, port):
    ran = subprocess.run(
        [sys.executable, HERE / "examples" / example, str(port)], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, says), ran.stderr


def test_a_put_and_a_read_are_measured(port):
    ran = subprocess.run(
        [sys.executable, HERE / "examples/measure.py", str(port), "50"], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0 and "GB/s" in ran.stdout, ran.stderr
    print(ran.stdout)


def test_messages_are_counted():
    capture = sorted(shared_data("captures").glob("*.pcap"))[0]
    ran = subprocess.run(
        [sys.executable, HERE / "examples/count_messages.py", capture], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0 and "GET" in ran.stdout, ran.stderr


def test_link_loads_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "loads.png"
    ran = subprocess.run(
        [sys.executable, HERE / "examples/link_loads.py", "preset:frontier", picture],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert Path(picture).stat().st_size > 10_000


def test_the_program_of_the_readme_runs(port):
    readme = (HERE / "README.md").read_text()
    program = readme.split("```python\n")[1].split("```")[0].replace("9988", str(port))
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "b'hello'\n"), ran.stderr
