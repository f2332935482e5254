# SPDX-License-Identifier: Apache-2.0
"""Programs on CUDA devices move: to another server, to the own node and back, in place and as images."""
import os

import pytest

from conftest import tree_of, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (a fixture)
from test_remote import command
from test_remote_cuda import Nodes
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]


@pytest.fixture
def nodes(ckpt, make):  # noqa: F811
    return Nodes(ckpt, make)


class Moved:
    """remote_moves.cu (or another program that waits while the file "pause" exists), stopped by that file."""

    def __init__(self, nodes, *arguments, device=None, source="remote_moves.cu"):
        self.nodes = nodes
        self.pause = nodes.ckpt.folder / "pause"
        self.pause.touch()
        self.job = nodes.start(source, *arguments, device=device or nodes.device())
        self.job.wait_text("step 1\n")

    def call(self, tool, *options):
        r = self.nodes.server.call(tool, *options, self.job.pid)
        return r.returncode, r.stderr

    def suspend(self):
        code, errors = self.call("ckpt-dump", "--suspend")
        assert code == 0, errors

    def resume(self, device):
        code, errors = self.call("ckpt-restore", "--device", device, "--resume")
        assert code == 0, errors

    def move(self, device):
        self.suspend()
        self.resume(device)

    def step(self):
        """Lets it make one more step at least."""
        self.pause.unlink()
        n = len(self.job.lines)
        wait_for(lambda: len(self.job.lines) > n, "a step")
        self.pause.touch()

    def finish(self, job=None):
        job = job or self.job
        self.pause.unlink()
        assert job.wait() == 0 and "PASSED" in job.text, job.error_text


def servers_here(job):
    return [p for p in tree_of(job.pid) if command(p) in ("ckpt-cuda-server", "ckpt-remote-proxy")]


def test_a_running_program_moves_to_its_own_node_and_back(nodes):
    """In place: the process stays, and its calls go elsewhere. The new server is reached over TLS."""
    moved = Moved(nodes, 20)
    program = moved.job.program()
    moved.move("cuda:1")
    wait_for(lambda: not nodes.drivers(), "the end of the old server")
    assert [command(p) for p in servers_here(moved.job)] == ["ckpt-cuda-server"]
    moved.step()
    moved.move(nodes.device(nodes.server.tls, 1))
    assert len(nodes.drivers()) == 1 and moved.job.program() == program
    assert [command(p) for p in servers_here(moved.job)] == ["ckpt-remote-proxy"]
    moved.finish()


def test_an_image_restores_on_a_local_device_and_the_other_way_round(nodes):
    moved = Moved(nodes, 20)
    nodes.ckpt.dump(moved.job.pid, "there")
    assert moved.job.wait() == 85
    wait_for(lambda: not nodes.drivers(), "the end of the old server")
    here = nodes.ckpt.restore("there", "--device", "cuda:0")
    wait_for(lambda: servers_here(here), "the server here")
    nodes.ckpt.dump(here.pid, "here")
    assert here.wait() == 85
    back = nodes.ckpt.restore("here", "--device", nodes.device())
    wait_for(nodes.drivers, "the server there")
    moved.finish(back)


def test_the_program_continues_on_its_server_after_a_dump(nodes):
    moved = Moved(nodes, 20)
    server = nodes.drivers()
    nodes.ckpt.dump(moved.job.pid, "image", "--leave-running")
    assert nodes.drivers() == server  # the device's contents have stayed there
    moved.finish()
