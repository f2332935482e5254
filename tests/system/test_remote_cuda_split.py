# SPDX-License-Identifier: Apache-2.0
"""Split programs: the CUDA devices of a program move one by one, so that some are of its own node and the others of
another node."""
import os
import signal
import time

import pytest

from conftest import process_exists, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (a fixture)
from nodes import Nodes as Machines
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

    def __init__(self, nodes, server, host, n, source, steps, *flags, more=()):
        self.nodes, self.many, self.host = nodes, server, host
        self.moved = Moved(nodes, source=source, steps=(steps, *more), device=self.names("r" * n), flags=flags)
        assert f"{n} devices\n" in self.moved.job.text

    def names(self, where):
        """"rl": the program's device 0 is the other node's device 0, and device 1 is this node's device 1."""
        return ",".join(f"remote:{self.host}/cuda:{i}" if w == "r" else f"cuda:{i}" for i, w in enumerate(where))

    def go(self, where):
        self.moved.move(self.names(where))
        self.moved.step()


@pytest.fixture
def split(ckpt, make):  # noqa: F811
    def start(n, source, steps, *flags, host="unix", **more):
        nodes = Nodes(ckpt, make)
        ckpt.env["CKPT_SOFTCUDA"] = "4x256M"
        server = another_server(nodes, CKPT_SOFTCUDA="4x256M")
        return Split(nodes, server, getattr(server, host), n, source, steps, *flags, **more)
    return start


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


def is_lost(job):
    """The program is told so, by each call."""
    assert job.wait(120) not in (0, 85)
    return "the CUDA device is lost" in job.error_text


@pytest.mark.parametrize("host", ["unix", "tls"])
def test_a_killed_server_is_an_error_of_all_devices(split, host):
    """And the program cannot be dumped, because contents are lost."""
    s = split(2, "remote_split.cu", 20, host=host)
    s.go("lr")
    os.kill(drivers_of(s.many)[0], signal.SIGKILL)
    code, errors = s.moved.call("ckpt-dump", "--suspend")
    assert code != 0 and "lost" in errors, errors
    s.moved.limit.unlink()
    assert is_lost(s.moved.job), s.moved.job.error_text


def test_a_killed_split_program_leaves_nothing(split):
    s = split(2, "remote_split.cu", 20, host="tls")
    s.go("rl")
    os.kill(s.moved.job.program(), signal.SIGKILL)
    assert s.moved.job.wait() != 0
    wait_for(lambda: not drivers_of(s.many) and not s.many.sessions(), "the end of the session")


@pytest.mark.full
def test_a_server_killed_at_any_moment_of_a_split_loses_no_contents(split):
    """The program stays suspended, or it has moved and is told that its devices are lost."""
    for n in range(10):
        s = split(2, "remote_split.cu", 20)
        s.go("lr" if n % 2 else "rr")
        s.moved.suspend()
        wait_for(lambda: not drivers_of(s.many), "the end of the old server")
        resume = s.nodes.ckpt.start("ckpt-restore", ["--device", s.names("rl"), "--resume", str(s.moved.job.pid)])
        victim = wait_for(lambda: drivers_of(s.many) or resume.process.poll() is not None, "the new server")
        time.sleep(n * 0.02)
        os.kill(victim[0], signal.SIGKILL)
        if resume.wait() == 0:
            s.moved.limit.unlink()
            assert is_lost(s.moved.job), s.moved.job.error_text
        else:
            assert "lost" in resume.error_text or "has ended" in resume.error_text, resume.error_text
            s.moved.resume(s.names("ll"))
            s.moved.finish()
        s.many.job.kill()
        s.nodes.server.job.kill()


@pytest.mark.full
def test_a_tool_killed_at_any_moment_of_a_split_loses_no_contents(split):
    """The program runs, or it is suspended and can be resumed."""
    s = split(2, "remote_split.cu", 60)
    ways = ["rl", "ll", "lr", "rr"]
    for n in range(16):
        s.moved.suspend()
        tool = s.nodes.ckpt.start("ckpt-restore", ["--device", s.names(ways[n % 4]), "--resume", str(s.moved.job.pid)])
        time.sleep(n * 0.02)
        os.kill(tool.pid, signal.SIGKILL)
        tool.wait()
        code, errors = s.moved.call("ckpt-restore", "--device", s.names(ways[(n + 2) % 4]), "--resume")
        assert code == 0 or "is not suspended" in errors, errors
        s.moved.step()
    s.moved.finish()


class Apart(Nodes):
    """The program and ckpt-devd have a node each, and there is a cable between them."""

    def __init__(self, ckpt, make, far, near):  # noqa: F811
        self.ckpt, self.make, self.near = ckpt, make, near
        self.server = Server(Here(ckpt), names=far.address, node=far)
        self.server.call = lambda tool, *arguments: near.call(tool, *arguments, env=ckpt.env)

    def start(self, source, *arguments, device=None, flags=()):
        return self.near.start("ckpt-run", "--device", device, "--", self.make(source, *flags), *arguments,
                               env=self.ckpt.env)


@pytest.fixture
def apart(ckpt, make):  # noqa: F811
    """A split program over a cable."""
    ckpt.env.update(CKPT_SOFTCUDA="2x256M", CUDA_MODULE_LOADING="LAZY")
    machines = Machines(ckpt, 2)
    nodes = Apart(ckpt, make, *machines)
    s = Split(nodes, nodes.server, nodes.server.tls, 2, "remote_split.cu", 20)
    s.go("rl")
    yield s
    machines.close()


def test_a_cable_that_is_pulled_for_a_second_delays_a_split_program(apart):
    apart.nodes.near.plug("down")
    apart.moved.allow(apart.moved.steps + 1)
    time.sleep(1)
    assert f"step {apart.moved.steps}\n" not in apart.moved.job.text
    apart.nodes.near.plug("up")
    apart.moved.job.wait_text(f"step {apart.moved.steps}\n")
    apart.go("lr")
    apart.moved.finish()


@pytest.mark.full
def test_a_cable_that_is_pulled_for_good_is_an_error_of_all_devices(apart):
    session = apart.many.sessions()[0]
    apart.nodes.near.plug("down")
    apart.moved.limit.unlink()
    assert is_lost(apart.moved.job), apart.moved.job.error_text
    wait_for(lambda: not process_exists(session), "the end of the session")
