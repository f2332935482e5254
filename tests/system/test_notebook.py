# SPDX-License-Identifier: Apache-2.0
"""The notebooks of examples/: their form, and their cells, executed one after the other."""
import ast
import importlib.util
import json
import os
import re
import subprocess

import pytest

from conftest import BUILD, ROOT
from test_python import MODULE, PYTHON

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

# As a kernel does: all cells in one namespace. argv: the notebook.
KERNEL = """
import json, sys
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
"""


@pytest.mark.no_criu
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_the_form_of_a_notebook(path):
    """nbformat 4.5 (nbformat.readthedocs.io, "The notebook file format"), without output of a past run."""
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5) and notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[\w-]{1,64}", i) for i in ids)
    for cell in notebook["cells"]:
        assert isinstance(cell["metadata"], dict) and all(isinstance(line, str) for line in cell["source"])
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            ast.parse("".join(cell["source"]))  # no commands of IPython
        else:
            assert set(cell) == {"cell_type", "id", "metadata", "source"} and cell["cell_type"] == "markdown"
    if importlib.util.find_spec("nbformat"):  # its schema says the same, and more
        nbformat = importlib.import_module("nbformat")
        nbformat.validate(nbformat.from_dict(notebook))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_runs(ckpt, path):
    env = {**ckpt.env, "PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{BUILD}/tools:{os.environ['PATH']}"}
    r = subprocess.run([PYTHON, "-c", KERNEL, path], cwd=ckpt.folder, env=env, capture_output=True, text=True, timeout=200)
    assert (r.returncode, r.stderr) == (0, ""), r.stderr
    assert "MiB, written in" in r.stdout and "<svg" in (ckpt.folder / "steps.svg").read_text()
