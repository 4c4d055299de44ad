"""The programs that the book has between its sentences. Those of whole files are run where the files are tested."""

import subprocess
import sys

from conftest import ROOT

NODE = "net: [{net type: tcp, local NI(s): [{nid: %s}]}]\n"
ROUTE = "route: [{net: o2ib, gateway: 10.1.0.1@tcp}]\n"


def programs(page):
    """The blocks of a page that are marked as Python, without those that include a file."""
    blocks = (ROOT / "docs/book/program" / page).read_text().split("```python\n")[1:]
    blocks = [block.split("```")[0] for block in blocks]
    return [block for block in blocks if not block.startswith("{{#include")]


def run(program, place):
    ran = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_questions_from_python_are_answered(tmp_path):
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1/net.yaml").write_text(NODE % "10.1.0.7@tcp")
    (tmp_path / "node1/route.yaml").write_text(ROUTE)
    site = tmp_path / "site"
    site.mkdir()
    for name, nid in [("client0001", "10.1.0.7@tcp"), *((f"oss{n}", f"10.1.1.{n}@tcp") for n in range(1, 5))]:
        (site / f"{name}.yaml").write_text(NODE % nid)
    explain, check = programs("python.md")
    assert "10.1.0.1@tcp" in run(explain, tmp_path)
    assert "'verdict': 'all'" in run("import finerail\n" + check, tmp_path)
