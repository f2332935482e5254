# SPDX-License-Identifier: Apache-2.0
"""The tree that `meson install` makes, moved to another place."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import BUILD, tree_of
from test_opencl import HEAT, bed_environment

PREFIX = "usr/local"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Installed for /usr/local, and found under another folder."""
    folder = tmp_path_factory.mktemp("moved")
    r = subprocess.run(["meson", "install", "--no-rebuild", "--quiet", "--destdir", folder], cwd=BUILD, capture_output=True,
                       text=True, timeout=300)
    if r.returncode != 0:
        pytest.skip(f"not everything is built: {r.stderr[-200:]}")
    return folder / PREFIX


def tool(tree, name, *options, env, cwd=None):
    return subprocess.run([tree / "bin" / name, *map(str, options)], env=env, cwd=cwd, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=100)


@pytest.mark.full
@pytest.mark.no_criu
def test_a_moved_tree_lists_the_same_devices(tree):
    env = {**os.environ, **bed_environment()}
    devices = [json.loads(subprocess.run([where / "ckpt-run", "--list-devices", "--json"], env=env, capture_output=True,
                                         text=True, timeout=100).stdout) for where in (tree / "bin", BUILD / "tools")]
    for device in sum(devices, []):
        if "softcuda" in device.get("driver", ""):
            device["driver"] = os.path.basename(device["driver"])  # the software device's is a part of the tree
    assert devices[0] == devices[1] != []


@pytest.mark.skipif(not HEAT.exists(), reason="the OpenCL parts are not built")
def test_a_moved_tree_runs_dumps_and_restores_an_opencl_program(tree, ckpt, monkeypatch):
    ckpt.env.update(bed_environment())
    monkeypatch.setattr(ckpt, "tool", lambda name: str(tree / "bin" / name))
    job = ckpt.start("ckpt-run", ["--device", "ocl:pthread", "--", HEAT, "--n", "64", "--steps", "10000000", "--report", "50"])
    job.wait_text("step")
    maps = open(f"/proc/{job.program()}/maps").read()
    assert str(tree) in maps and "pocl" not in maps
    proxies = [p for p in tree_of(job.pid) if os.readlink(f"/proc/{p}/exe").startswith(f"{tree}/libexec")]
    assert proxies
    ckpt.dump(job.pid, "one")
    copy = ckpt.restore("one")
    copy.wait_text("step")


@pytest.mark.full
@pytest.mark.no_criu
def test_tools_without_their_parts_say_so(tree, tmp_path):
    shutil.copytree(tree / "bin", tmp_path / "bin")
    env = {**os.environ, **bed_environment()}
    r = tool(tmp_path, "ckpt-run", "--list-devices", env=env)
    assert r.returncode == 125 and "no device was found, because parts of ckpt are missing" in r.stderr
    assert str(tmp_path) not in r.stdout and "ckpt-ocl-proxy" in r.stderr
    r = tool(tmp_path, "ckpt-run", "--device", "ocl:pthread", "true", env=env)
    assert r.returncode == 125 and "parts of ckpt are missing" in r.stderr
