# SPDX-License-Identifier: Apache-2.0
"""Split programs: the CUDA devices of a program move one by one, so that some are of its own node and the others of
another node."""
import pytest

from conftest import wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (a fixture)
from test_remote import Server
from test_remote_cuda import Here, Nodes
from test_remote_cuda_moves import Moved, another_server, drivers_of, refused, servers_here
from test_remote_cuda_native import is_native
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]


class Split:
    """A program with n devices of another node, and the names of devices there and here."""

    def __init__(self, ckpt, make, n, source, steps, *flags, more=(), host="unix"):
        ckpt.env.update(CKPT_SOFTCUDA="4x256M", CUDA_MODULE_LOADING="LAZY")
        self.nodes = Nodes(ckpt, make)
        ckpt.env["CKPT_SOFTCUDA"] = "4x256M"
        self.many = another_server(self.nodes, CKPT_SOFTCUDA="4x256M")
        self.host = getattr(self.many, host)
        self.moved = Moved(self.nodes, source=source, steps=(steps, *more), device=self.names("r" * n), flags=flags)
        assert f"{n} devices\n" in self.moved.job.text

    def names(self, where):
        """"rl": the program's device 0 is the other node's device 0, and device 1 is this node's device 1."""
        return ",".join(f"remote:{self.host}/cuda:{i}" if w == "r" else f"cuda:{i}" for i, w in enumerate(where))

    def go(self, where):
        self.moved.move(self.names(where))
        self.moved.step()


@pytest.fixture
def split(ckpt, make):  # noqa: F811
    return lambda n, source, steps, *flags, **more: Split(ckpt, make, n, source, steps, *flags, **more)


def test_one_of_two_devices_moves_then_the_other_one_and_both_back(split):
    """Over TLS. Every kind of work between two devices, each step checked."""
    s = split(2, "remote_split.cu", 20, host="tls")
    s.go("lr")
    assert "softcuda/driver/libcuda.so.1" in maps_of(s.moved.job) and servers_here(s.moved.job)
    s.go("rl")
    s.go("ll")
    wait_for(lambda: is_native(s.moved.job), "the end of the other node's server")
    s.go("lr")
    s.go("rr")
    s.moved.finish()


def maps_of(job):
    with open(f"/proc/{job.program()}/maps") as f:
        return f.read()


@pytest.mark.parametrize("flags", [(), ("-DVARIABLES", "-rdc=true")], ids=["plain", "variables"])
def test_four_devices_move_one_by_one(split, flags):
    """With physical memory, and variables of each device; the last step is an image of split devices."""
    s = split(4, "remote_devices.cu", 20, *flags)
    for where in ("rlrr", "rllr", "lllr", "llll", "llrl"):
        s.go(where)
    ckpt = s.nodes.ckpt
    ckpt.dump(s.moved.job.pid, "image")
    assert s.moved.job.wait() == 85
    here = ckpt.restore("image", "--device", s.names("rrll"))
    s.moved.step(here)
    s.moved.finish(here)


def test_a_dump_leaves_split_devices_running(split):
    s = split(2, "remote_split.cu", 20)
    s.go("rl")
    s.nodes.ckpt.dump(s.moved.job.pid, "image", "--leave-running")
    s.moved.step()
    s.go("rr")
    s.moved.finish()


def test_what_cannot_be_split_is_refused_by_name(split):
    """Before anything is touched: the program stays suspended, and goes on elsewhere."""
    s = split(2, "remote_split.cu", 20, more=("managed",))
    s.moved.suspend()
    other = f"remote:{s.nodes.server.unix}/cuda:0"
    assert "CUDA devices of this node and of one other" in refused(s.moved, f"{s.names('r')},{other},cuda:0")
    assert 'there is no device "cuda:9"' in refused(s.moved, f"{s.names('r')},cuda:9")
    assert "device 1 of the program" in refused(s.moved, f"{s.names('r')},{s.names('r')}")
    assert "cannot be of two nodes: the program has managed or mapped memory" in refused(s.moved, s.names("rl"))
    s.moved.resume(s.names("rr"))
    s.moved.finish()


def test_a_failed_split_leaves_the_program_suspended(split):
    """After the driver of the own node has started: the other node has no room at the program's addresses."""
    s = split(2, "remote_split.cu", 20)
    s.moved.suspend()
    elsewhere = Server(Here(s.nodes.ckpt), port=7671, env={"CKPT_SOFTCUDA_BASE": "600000000000"})
    assert "cannot reserve the addresses" in refused(s.moved, f"remote:{elsewhere.unix}/cuda:0,cuda:1")
    wait_for(lambda: not drivers_of(elsewhere), "the end of the server that was tried")
    s.moved.resume(s.names("lr"))
    s.moved.step()
    s.go("ll")
    s.moved.finish()


def test_a_split_program_gets_no_managed_memory(split):
    s = split(2, "remote_split.cu", 20)
    assert s.moved.job.text.endswith("managed memory: cudaSuccess\nstep 1\n")
    for where, answer in (("rl", "cudaErrorNotSupported"), ("ll", "cudaSuccess")):
        s.go(where)
        assert s.moved.job.text.endswith(f"managed memory: {answer}\nstep {s.moved.steps}\n"), s.moved.job.text
    s.moved.finish()


def test_without_native_calls_no_device_moves_alone(split, ckpt):
    ckpt.env["CKPT_CUDA_NATIVE"] = "no"
    s = split(2, "remote_devices.cu", 20)
    s.moved.suspend()
    assert "cannot be of two nodes: CKPT_CUDA_NATIVE is no" in refused(s.moved, s.names("lr"))
    s.moved.resume(s.names("ll"))
    s.moved.finish()
