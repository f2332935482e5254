# SPDX-License-Identifier: Apache-2.0
"""A container with OpenCL programs that podman checkpoints and restores by its own commands (docs/CONTAINERS.md). Its root
folder is this machine's with a layer of its own, as no other image is at hand."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import BUILD, wait_for
from test_criu_plugin import CRIU, LOG, PLUGINS, RECORD
from test_opencl import HEAT, OPENCL, bed_environment, devices  # noqa: F401 (devices is a fixture)

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not shutil.which("podman") or not shutil.which("runc"), reason="podman or runc is not installed"),
    pytest.mark.skipif(not (OPENCL / "ocl-objects").exists(), reason="the OpenCL programs are not built"),
]
STEPS = "--n 64 --steps 100000000 --report 200"


class Container:
    def __init__(self, ckpt):
        # Not in ckpt.folder: a socket's path has at most 107 bytes.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-pod-"))
        self.env = dict(os.environ, PATH=f"{os.path.dirname(CRIU)}:{os.environ['PATH']}")
        # Debian's crun is compiled without CRIU.
        self.podman = ["podman", "--root", self.folder / "root", "--runroot", self.folder / "run", "--cgroup-manager=cgroupfs",
                       f"--runtime={shutil.which('runc')}", "--events-backend=file"]
        self.config = self.folder / "criu.conf"
        self.config.write_text(f"libdir {PLUGINS}\nfile-locks\ntimeout 60\n")

    def call(self, *command, check=True):
        r = subprocess.run([*self.podman, *map(str, command)], env=self.env, capture_output=True, text=True, timeout=200)
        assert not check or r.returncode == 0, r.stderr + self.criu_log()[-2000:]
        return r.stdout + r.stderr

    def run(self, script):
        r = self.call("run", "-d", "--name", "moved", "--annotation", f"org.criu.config={self.config}", "--network=host",
                      "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", *self.variables(), "--rootfs", "/:O",
                      "sh", "-c", script, check=False)
        if "moved" not in self.call("ps", "--format", "{{.Names}}"):
            pytest.skip(f"podman runs no container here: {r[-300:]}")

    def variables(self):
        # In the container's own layer.
        return [f"--env={k}={'/pocl' if k == 'POCL_CACHE_DIR' else v}" for k, v in bed_environment().items()] + \
            ["--env=CKPT_TEST_GO=/go"]

    def file(self, name):
        return next(iter(self.folder.glob(f"root/*-containers/*/userdata/{name}")), pathlib.Path("none"))

    def criu_log(self):
        return "".join(self.file(name).read_text(errors="replace") for name in ("dump.log", "restore.log") if self.file(name).exists())

    def logs(self):
        return self.call("logs", "moved")

    def wait_logs(self, condition, what):
        wait_for(lambda: condition(self.logs()), what)

    def close(self):
        self.call("rm", "-f", "-t", "0", "moved", check=False)
        subprocess.run(["umount", "-R", self.folder / "root" / "overlay"], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def container(ckpt, devices):  # noqa: F811
    container = Container(ckpt)
    yield container
    container.close()


def test_podman_moves_a_container_20_times(container):
    run = f"{BUILD}/tools/ckpt-run --share-ipc --"
    container.run(f"{run} {HEAT} {STEPS} & {run} {OPENCL}/ocl-objects; kill %1; exit 7")
    container.wait_logs(lambda text: "READY" in text and "step " in text, "both programs")
    for _ in range(20):
        container.call("container", "checkpoint", "--keep", "moved")
        assert len(json.loads(container.file(f"checkpoint/{RECORD}").read_text())["suspended"]) == 2
        steps = container.logs().count("step ")
        container.call("container", "restore", "--keep", "moved")
        container.wait_logs(lambda text: text.count("step ") > steps, "further steps")  # noqa: B023
    container.call("container", "checkpoint", "--keep", "--leave-running", "moved")
    steps = container.logs().count("step ")
    container.wait_logs(lambda text: text.count("step ") > steps, "further steps")
    container.call("exec", "moved", "touch", "/go")
    assert container.call("wait", "moved").strip() == "7"
    assert "\nOK\n" in container.logs() and not container.file(f"checkpoint/{LOG}").read_text()
