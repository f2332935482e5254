# SPDX-License-Identifier: Apache-2.0
"""Programs on CUDA devices move: to another server, to the own node and back, in place and as images."""
import os
import random
import signal
import subprocess
import time

import pytest

from conftest import tree_of, wait_for
from cuda_programs import NVCC, RUN, SOURCES, make, numba  # noqa: F401 (fixtures)
from test_kills import state
from test_remote import Server, command
from test_remote_cuda import Here, Nodes
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]


@pytest.fixture
def nodes(ckpt, make):  # noqa: F811
    return Nodes(ckpt, make)


class Moved:
    """remote_moves.cu, or another program that makes as many steps as it may."""

    def __init__(self, nodes, *arguments, flags=(), source="remote_moves.cu", steps=(10,), device=None,
                 first="step 1\n"):
        self.nodes = nodes
        self.steps = 0
        self.limit = nodes.ckpt.folder / "steps"
        self.allow(1)
        self.job = nodes.start(source, *steps, *arguments, device=device or nodes.device(), flags=flags)
        self.job.wait_text(first)

    def allow(self, steps):
        self.steps = steps
        new = self.limit.with_suffix(".new")
        new.write_text(str(steps))
        new.rename(self.limit)

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

    def step(self, job=None):
        """Lets it make one more step."""
        self.allow(self.steps + 1)
        (job or self.job).wait_text(f"step {self.steps}\n")

    def finish(self, job=None):
        job = job or self.job
        self.limit.unlink()
        assert job.wait() == 0 and "PASSED" in job.text, job.error_text

    def finish_after_dumps(self):
        """One dump that it survives, and one that it ends with."""
        dump = self.nodes.ckpt.dump
        dump(self.job.pid, "image", "--leave-running")
        self.step()
        dump(self.job.pid, "image2")
        assert self.job.wait() == 85
        here = self.nodes.ckpt.restore("image2", "--device", self.nodes.device())
        self.step(here)
        self.finish(here)


def servers_here(job):
    return [p for p in tree_of(job.pid) if command(p) in ("ckpt-cuda-server", "ckpt-remote-proxy")]


def test_a_running_program_moves_to_its_own_node_and_back(nodes):
    """In place: the process stays, and its calls go elsewhere. The new server is reached over TLS.
    (test_remote_cuda_native.py moves without a server on the own node.)"""
    nodes.ckpt.env["CKPT_CUDA_NATIVE"] = "no"
    moved = Moved(nodes)
    program = moved.job.program()
    moved.move("cuda:1")
    wait_for(lambda: not nodes.drivers(), "the end of the old server")
    assert [command(p) for p in servers_here(moved.job)] == ["ckpt-cuda-server"]
    moved.step()
    moved.move(nodes.device(nodes.server.tls, 1))
    assert len(nodes.drivers()) == 1 and moved.job.program() == program
    assert [command(p) for p in servers_here(moved.job)] == ["ckpt-remote-proxy"]
    moved.finish()


def test_a_running_program_moves_by_one_command(nodes):
    """If the new device cannot take it, it runs on with the former one."""
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    moved = Moved(nodes, flags=("-gencode", "arch=compute_90,code=compute_90"))
    errors = refused(moved, f"remote:{older.unix}/cuda:0")
    assert "compute capability 8.0" in errors and "runs on with the devices that it had" in errors, errors
    moved.step()
    code, errors = moved.call("ckpt-restore", "--copy-ahead", "2", "--device", "cuda:1", "--resume")
    assert code == 0, errors
    wait_for(lambda: not nodes.drivers(), "the end of the old server")
    moved.step()
    moved.resume(nodes.device(n=1))
    assert len(nodes.drivers()) == 1
    moved.finish()


def test_mipmapped_arrays_move(nodes):
    """With textures and surfaces of them, to the own node and back; all levels are checked after each move."""
    model = nodes.ckpt.folder / "model"
    model.write_text("launch 2e-2\n")
    nodes.ckpt.env["CKPT_SOFTCUDA_MODEL"] = str(model)
    slow = another_server(nodes, CKPT_SOFTCUDA_MODEL=str(model))
    job = nodes.start("mipmaps.cu", device=f"remote:{slow.unix}/cuda:0")
    for cases, device in ((5, "cuda:1"), (20, f"remote:{slow.unix}/cuda:1"), (35, "cuda:0")):
        job.wait_lines(cases)
        r = nodes.server.call("ckpt-restore", "--resume", job.pid, "--device", device)
        assert r.returncode == 0, r.stderr
    assert job.wait() == 0 and "PASSED" in job.text, job.error_text


def test_molecular_dynamics_have_the_same_result_with_a_move(nodes):
    """The program checks energy and momentum; its checksum is of all positions."""
    code, expected = nodes.natively("molecular_dynamics.cu", 12, 3, 3)
    assert code == 0, expected
    moved = Moved(nodes, 3, 3, source="molecular_dynamics.cu", steps=(12,), first="step 3 ")
    moved.move("cuda:1")
    moved.finish()
    assert moved.job.text == expected


def test_graphs_and_an_open_recording_move(nodes):
    """To the own node in place, and from there as an image to the other one."""
    moved = Moved(nodes, source="remote_graph_moves.cu")
    moved.move("cuda:1")
    moved.step()
    moved.step()
    nodes.ckpt.dump(moved.job.pid, "image")
    assert moved.job.wait() == 85
    moved.finish(nodes.ckpt.restore("image", "--device", nodes.device()))


def test_an_image_restores_on_a_local_device_and_the_other_way_round(nodes):
    moved = Moved(nodes)
    nodes.ckpt.dump(moved.job.pid, "there")
    assert moved.job.wait() == 85
    wait_for(lambda: not nodes.drivers(), "the end of the old server")
    here = nodes.ckpt.restore("there", "--device", "cuda:0")
    moved.step(here)
    nodes.ckpt.dump(here.pid, "here")
    assert here.wait() == 85
    back = nodes.ckpt.restore("here", "--device", nodes.device())
    wait_for(nodes.drivers, "the server there")
    moved.finish(back)


def test_a_restore_shows_the_program_no_more_devices(nodes):
    """Without --device it gets all devices of this node. Its variables are on one, so that it can be dumped again."""
    moved = Moved(nodes, source="remote_variables.cu")
    nodes.ckpt.dump(moved.job.pid, "there")
    assert moved.job.wait() == 85
    here = nodes.ckpt.restore("there")
    moved.step(here)
    nodes.ckpt.dump(here.pid, "here")
    assert here.wait() == 85
    moved.finish(nodes.ckpt.restore("here"))


def test_the_program_continues_on_its_server_after_a_dump(nodes):
    moved = Moved(nodes)
    server = nodes.drivers()
    nodes.ckpt.dump(moved.job.pid, "image", "--leave-running")
    assert nodes.drivers() == server  # the device's contents have stayed there
    moved.finish()


def test_memory_of_host_and_device_moves(nodes):
    """Managed, mapped and registered memory: in place, as an image, and with a dump that leaves it running."""
    moved = Moved(nodes, source="remote_shared.cu")
    moved.move("cuda:1")
    moved.step()
    moved.move(nodes.device(nodes.server.tls, 1))
    moved.step()
    nodes.ckpt.dump(moved.job.pid, "running", "--leave-running")
    moved.step()
    nodes.ckpt.dump(moved.job.pid, "image")
    assert moved.job.wait() == 85
    here = nodes.ckpt.restore("image", "--device", "cuda:0")
    moved.step(here)
    moved.finish(here)


@pytest.mark.parametrize("flags", [(), ("-rdc=true",)], ids=["plain", "rdc"])
def test_arrays_textures_and_surfaces_move(nodes, flags):
    """In place to another device and to another chip, over TLS, and as an image. Handles are in parameters, constants,
    device memory and a graph."""
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    moved = Moved(nodes, source="remote_textures.cu", flags=flags)
    moved.move("cuda:1")
    moved.step()
    moved.move(f"remote:{older.tls}/cuda:1")
    moved.step()
    moved.move("cuda:0")  # remote to local
    moved.step()
    moved.finish_after_dumps()


@pytest.mark.parametrize("n, flags", [(2, ()), (4, ()), (2, ("-DVARIABLES",)), (4, ("-DVARIABLES", "-rdc=true"))],
                         ids=["2", "4", "2-variables", "4-variables"])
def test_a_program_of_several_devices_moves(nodes, n, flags):
    """All at once: to devices of its own node in another order, back, and as an image. With variables on each."""
    nodes.ckpt.env["CKPT_SOFTCUDA"] = "4x256M"
    many = another_server(nodes, CKPT_SOFTCUDA="4x256M")
    there = ",".join(f"remote:{many.unix}/cuda:{i}" for i in range(n))
    moved = Moved(nodes, source="remote_devices.cu", device=there, flags=flags)
    assert f"{n} devices\n" in moved.job.text
    moved.move(",".join(f"cuda:{i}" for i in reversed(range(n))))
    moved.step()
    moved.move(",".join(f"remote:{many.tls}/cuda:{i}" for i in range(n)))
    moved.step()
    nodes.ckpt.dump(moved.job.pid, "image")
    assert moved.job.wait() == 85
    here = nodes.ckpt.restore("image", "--device", ",".join(f"cuda:{i}" for i in range(n)))
    moved.step(here)
    moved.finish(here)


def test_devices_of_several_nodes_are_refused_by_name(nodes):
    r = nodes.server.call("ckpt-run", "--device", f"{nodes.device()},cuda:0", "true")
    assert r.returncode == 125 and "devices are all on one node" in r.stderr, r.stderr


def test_textures_beside_variables_on_several_devices(nodes):
    """The program uses one of the devices, and its code has variables on both."""
    both = ",".join(nodes.device(n=n) for n in (0, 1))
    moved = Moved(nodes, source="remote_textures.cu", device=both)
    moved.move("cuda:1,cuda:0")
    moved.finish()


@pytest.mark.parametrize("arguments", [(0,), (1,), (1, "first")], ids=["0", "1", "host first"])
def test_managed_variables_of_a_program_that_sees_several_devices(nodes, arguments):
    """They exist once for all devices, where the program uses them first, and a library's other variables on each."""
    both = ",".join(nodes.device(n=n) for n in (0, 1))
    job = nodes.start("managed_devices.cu", *arguments, device=both)
    assert job.wait() == 0 and "2 devices\nPASSED" in job.text, job.error_text


def test_managed_variables_move_with_several_devices(nodes):
    both = ",".join(nodes.device(n=n) for n in (0, 1))
    moved = Moved(nodes, source="remote_shared.cu", device=both)
    moved.move("cuda:1,cuda:0")
    moved.step()
    moved.finish()


def test_mappings_and_physical_memory_move(nodes):
    """At the same addresses, also what is mapped at several or at none: in place, to another chip, and as an image."""
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    seed = random.randrange(1 << 30)
    print("seed", seed)
    moved = Moved(nodes, seed, source="remote_mappings.cu")
    for device in ("cuda:1", f"remote:{older.tls}/cuda:1", "cuda:0"):
        moved.move(device)
        moved.step()
    moved.finish_after_dumps()


def test_arrays_and_textures_that_come_and_go_move(nodes):
    """Two arrays, then a texture, then neither."""
    moved = Moved(nodes, source="remote_arrays.cu")
    for device in ("cuda:1", nodes.device(), "cuda:0"):
        moved.move(device)
        moved.step() if moved.steps < 3 else None
    moved.finish()


def code_of_files(nodes):
    """What remote_opaque.cu loads: a fat binary with an old cubin and newer PTX, and a cubin."""
    mixed, cubin = nodes.ckpt.folder / "mixed.fatbin", nodes.ckpt.folder / "plain.cubin"
    common = [NVCC, "-DCODE", str(SOURCES / "remote_opaque.cu")]
    for command in ([*common, "-fatbin", "-gencode", "arch=compute_75,code=sm_75", "-gencode",
                     "arch=compute_80,code=compute_80", "-o", str(mixed)],
                    [*common, "-cubin", "-arch=sm_90", "-o", str(cubin)]):
        subprocess.run(command, check=True, timeout=200)
    return mixed, cubin


@pytest.mark.parametrize("flags", [(), ("-G",)], ids=["plain", "debug"])
def test_textures_beside_code_without_ptx(nodes, flags):
    """Before a texture exists, such code keeps the program where it is. Afterwards a cubin with newer PTX is left out,
    and one without PTX is refused by name."""
    moved = Moved(nodes, *code_of_files(nodes), source="remote_opaque.cu", steps=(), flags=flags)
    code, errors = moved.call("ckpt-dump", "--suspend")
    assert code == 1 and 'because the code with the kernel "add" may use them' in errors, errors
    moved.step()
    moved.move("cuda:1")
    moved.step()
    moved.move(nodes.device())
    moved.finish()
    assert 'the code with the kernel "add" is refused' in moved.job.error_text
    assert "compute_NN" in moved.job.error_text


def test_a_library_without_ptx_keeps_the_drivers_handles(nodes):
    """Though the runtime has not loaded its code: a program of cubins makes its textures before its first kernel. With
    PTX in the library, the program moves."""
    library = nodes.make("plugin.cu", "-gencode", "arch=compute_90,code=sm_90")
    moved = Moved(nodes, library, source="remote_opaque.cu", steps=())
    code, errors = moved.call("ckpt-dump", "--suspend")
    assert code == 1 and f"because the device code of {library} may use them" in errors, errors
    moved.finish()
    moved = Moved(nodes, nodes.make("plugin.cu"), source="remote_opaque.cu", steps=())
    moved.move("cuda:1")
    moved.finish()


def test_textures_may_keep_the_drivers_handles(nodes):
    """The code is then loaded as it is, with any cubins."""
    nodes.ckpt.env["CKPT_CUDA_TEXTURES"] = "driver"
    moved = Moved(nodes, source="remote_textures.cu")
    code, errors = moved.call("ckpt-dump", "--suspend")
    assert code == 1 and "as CKPT_CUDA_TEXTURES says" in errors, errors
    moved.finish()


def refused(moved, device):
    code, errors = moved.call("ckpt-restore", "--device", device, "--resume")
    assert code != 0
    return errors


def another_server(nodes, *options, **env):
    return Server(Here(nodes.ckpt), *options, port=7670, env=env)


def test_a_device_that_cannot_take_the_program_leaves_it_suspended(nodes):
    """A device without code for it, one without the program's addresses, a node without a server."""
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    moved = Moved(nodes, flags=("-gencode", "arch=compute_90,code=compute_90"))
    moved.suspend()
    wait_for(lambda: not nodes.drivers(), "the end of the old server")
    errors = refused(moved, f"remote:{older.unix}/cuda:0")
    assert "the code with the kernel" in errors and "compute capability 8.0" in errors and "compute_90" in errors
    older.job.kill()
    elsewhere = another_server(nodes, CKPT_SOFTCUDA_BASE="600000000000")
    assert "cannot reserve the addresses" in refused(moved, f"remote:{elsewhere.unix}/cuda:0")
    wait_for(lambda: not drivers_of(elsewhere), "the end of the server that was tried")
    elsewhere.job.kill()
    assert "ckpt-devd" in refused(moved, f"remote:{elsewhere.unix}/cuda:0")
    moved.resume("cuda:0")
    moved.finish()


@pytest.mark.parametrize("flags", [(), ("-rdc=true",), ("-lineinfo",)], ids=["plain", "rdc", "lineinfo"])
def test_variables_keep_their_addresses(nodes, flags):
    """Other variables and device memory hold these addresses. A library was unloaded before, so that the driver of a
    new process would choose others."""
    moved = Moved(nodes, "gap", flags=flags, source="remote_variables.cu")
    moved.move("cuda:0")
    moved.step()
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    moved.move(f"remote:{older.unix}/cuda:0")
    moved.step()
    nodes.ckpt.dump(moved.job.pid, "image")
    assert moved.job.wait() == 85
    moved.finish(nodes.ckpt.restore("image", "--device", nodes.device()))


@pytest.mark.parametrize("flag, named", [("FUNCTIONS", 'its variable "function"'),
                                         ("POINTERS", 'takes the address of the function "')])
def test_addresses_of_functions_are_refused_by_name(nodes, flag, named):
    """In a variable, or in a kernel. The program runs on."""
    moved = Moved(nodes, flags=(f"-D{flag}",), source="remote_variables.cu")
    code, errors = moved.call("ckpt-dump", "--suspend")
    assert code != 0 and named in errors, errors
    moved.finish()


def test_a_program_moves_to_another_chip(nodes):
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    moved = Moved(nodes)
    moved.move(f"remote:{older.tls}/cuda:1")
    assert not nodes.drivers()
    moved.finish()


OPENED = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so")
assert cuda.cuInit(0) == 0
print("READY", flush=True)
time.sleep(1000)
"""


def test_the_library_may_be_opened_without_its_version(nodes):
    """As numba does: libcuda.so is a symbolic link."""
    job = nodes.ckpt.start("ckpt-run", ["--device", nodes.device(), "--", "/usr/bin/python3", "-c", OPENED])
    job.wait_text("READY")
    for tool, option in (("ckpt-dump", "--suspend"), ("ckpt-restore", "--resume")):
        r = nodes.server.call(tool, option, job.pid)
        assert r.returncode == 0, r.stderr
    os.kill(job.pid, signal.SIGTERM)
    job.wait()


def test_linked_code_moves_to_another_chip(nodes):
    """If it was made from one text of PTX; then that is what moves, with its variables."""
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    moved = Moved(nodes, source="jit.cc")
    moved.move(f"remote:{older.unix}/cuda:0")
    moved.step()
    moved.finish()


def test_linked_code_that_cannot_move_is_refused_by_name(nodes):
    """An option changes the code, so the image is loaded, and the driver places its variables."""
    moved = Moved(nodes, "limited", source="jit.cc")
    code, errors = moved.call("ckpt-dump", "--suspend")
    assert code != 0 and 'the address of its variable "counter"' in errors, errors
    moved.finish()


@pytest.mark.full
def test_numba_moves(nodes, numba):  # noqa: F811
    """A compiler that is not ours, and links its PTX: from the chip that it has compiled for to a newer one."""
    command, environment = numba
    nodes.ckpt.env.update(environment)
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    pause = nodes.ckpt.folder / "pause"
    pause.touch()
    job = nodes.ckpt.start("ckpt-run", ["--device", f"remote:{older.unix}/cuda:0", "--", *command, "6"])
    job.wait_text("step 1\n")
    call = nodes.server.call
    assert call("ckpt-dump", "--suspend", job.pid).returncode == 0
    r = call("ckpt-restore", "--device", nodes.device(), "--resume", job.pid)
    assert r.returncode == 0, r.stderr
    nodes.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    pause.unlink()
    copy = nodes.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-1].endswith("PASSED") and "step 6" in copy.lines


def test_a_program_of_this_node_cannot_move_to_another_one(nodes):
    """Its driver runs in its own process."""
    pause = nodes.ckpt.folder / "pause"
    pause.touch()
    job = nodes.start("moved.cu", 4)
    job.wait_text("ready")
    assert nodes.server.call("ckpt-dump", "--suspend", job.pid).returncode == 0
    r = nodes.server.call("ckpt-restore", "--device", nodes.device(), "--resume", job.pid)
    assert r.returncode != 0 and "in its own process" in r.stderr
    assert nodes.server.call("ckpt-restore", "--resume", job.pid).returncode == 0
    pause.unlink()
    assert job.wait() == 0 and "same" in job.text


def test_a_suspend_that_fails_leaves_the_program_on_its_server(nodes):
    """The server does not answer in time; then it is killed, which the tool and the program are told."""
    moved = Moved(nodes)
    [server] = nodes.drivers()
    os.kill(server, signal.SIGSTOP)
    code, errors = moved.call("ckpt-dump", "--suspend", "--timeout", "1")
    assert code != 0 and "longer --timeout" in errors
    os.kill(server, signal.SIGCONT)
    moved.step()
    assert nodes.drivers() == [server]
    os.kill(server, signal.SIGSTOP)
    suspend = nodes.ckpt.start("ckpt-dump", ["--suspend", str(moved.job.pid)])
    os.kill(server, signal.SIGKILL)
    assert suspend.wait() != 0 and "lost" in suspend.error_text
    moved.limit.unlink()
    assert moved.job.wait() == 1 and "the CUDA device is lost" in moved.job.error_text


def test_what_was_written_after_a_copy_ahead_is_found(nodes):
    """Kernels go on to write while copies are made; some memory is freed and made meanwhile."""
    moved = Moved(nodes, source="remote_ahead.cu", steps=(9,))
    for device in ("cuda:1", nodes.device(nodes.server.tls)):
        r = nodes.server.call("ckpt-dump", "--suspend", "--copy-ahead=3", "--verbose", moved.job.pid)
        assert r.returncode == 0, r.stderr
        moved.resume(device)
        moved.step()
    nodes.ckpt.dump(moved.job.pid, "image", "--copy-ahead=2")
    assert moved.job.wait() == 85
    moved.finish(nodes.ckpt.restore("image", "--device", "cuda:0"))


def test_a_suspend_that_is_cancelled_ends_its_copies_ahead(nodes):
    """The program runs on, and can be suspended at once."""
    moved = Moved(nodes, source="remote_ahead.cu", steps=(3, 40))
    dump = nodes.ckpt.start("ckpt-dump", ["--suspend", "--copy-ahead=100", str(moved.job.pid)])
    time.sleep(0.1)
    os.kill(dump.pid, signal.SIGKILL)
    dump.wait()
    moved.move("cuda:1")
    moved.finish()


def drivers_of(server):
    return [p for p in tree_of(server.pid()) if command(p) == "ckpt-cuda-server"]


@pytest.mark.full
@pytest.mark.parametrize("source", ["remote_moves.cu", "remote_textures.cu", "remote_mappings.cu"])
def test_random_moves(nodes, source):
    """In place and as images, between servers, the own node and another chip; the program checks itself. The seed is
    printed. CKPT_TEST_ROUNDS: the number of moves."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    nodes.ckpt.env["CKPT_CERTIFICATES"] = nodes.server.user
    devices = ["cuda:0", "cuda:1", nodes.device(), nodes.device(nodes.server.tls, 1), f"remote:{older.unix}/cuda:0"]
    rounds = int(os.environ.get("CKPT_TEST_ROUNDS", "25"))
    moved = Moved(nodes, source=source, steps=(2 * rounds + 2,))
    for n in range(rounds):
        device = rng.choice(devices)
        if rng.randrange(3):
            moved.move(device)
        else:
            nodes.ckpt.dump(moved.job.pid, f"image{n}")
            assert moved.job.wait() == 85
            moved.job = nodes.ckpt.restore(f"image{n}", "--device", device)
            moved.step()
        if rng.randrange(3) == 0:
            moved.step()
    moved.finish()


@pytest.fixture
def held(nodes):
    """A server whose process for a device stops itself when it asks for the program's first memory (Note::Memory)."""
    return another_server(nodes, "--memory", "1G", CKPT_TEST_HOLD_AT="send-2")


def killed_in_move(moved, server, delay):
    """Moves the program, and kills the process of the new device, so many seconds after it began, or where it has stopped
    itself (None): the answer of ckpt-restore."""
    device = moved.nodes.device(server.unix)
    resume = moved.nodes.ckpt.start("ckpt-restore", ["--device", device, "--resume", str(moved.job.pid)])

    def found():
        return [p for p in drivers_of(server) if delay is not None or state(p) == "T"]

    victim = wait_for(lambda: found() or resume.process.poll() is not None, "the new server")
    time.sleep(delay or 0)
    if isinstance(victim, list):
        os.kill(victim[-1], signal.SIGKILL)
    return resume.wait(), resume.error_text


# While objects are made; while it connects, while objects are made, and while contents are loaded.
@pytest.mark.parametrize("delays", [(None, 0.02), pytest.param([None, *(n * 0.02 for n in range(12))], marks=pytest.mark.full)],
                         ids=["some", "many"])
def test_a_program_whose_new_server_dies_runs_on_with_its_former_device(nodes, held, delays):
    """It ran until it was to be moved. The message that a device is lost is for one that runs without a device."""
    moved = Moved(nodes, device=nodes.device())
    moved.move("cuda:0")
    wait_for(lambda: not nodes.drivers(), "the end of the old server")
    returned = 0
    for delay in delays:
        code, errors = killed_in_move(moved, held if delay is None else nodes.server, delay)
        if code == 0:  # the server was killed after the move, or not at all
            break
        assert "the program runs on with the devices that it had" in errors, errors
        returned += 1
        moved.step()
        assert "every later call fails" not in moved.job.error_text, moved.job.error_text
    assert returned > 0
    if code == 0:
        moved.limit.unlink()
        moved.job.wait()
    else:
        moved.finish()


def test_a_suspended_program_whose_new_server_dies_stays_suspended(nodes, held):
    moved = Moved(nodes, device=nodes.device())
    moved.move("cuda:0")
    moved.suspend()
    code, errors = killed_in_move(moved, held, None)
    assert code == 1 and "the program is suspended, with its data; ckpt-restore --resume " in errors, errors
    assert "every later call fails" not in moved.job.error_text, moved.job.error_text
    code, errors = moved.call("ckpt-restore", "--resume")  # without --device: those that it had
    assert code == 0, errors
    wait_for(lambda: not nodes.drivers() and not drivers_of(held), "the end of all servers")
    moved.finish()


@pytest.mark.full
def test_a_new_server_killed_at_any_moment_loses_no_contents(nodes):
    """The program stays suspended, or it has moved and is told that its device is lost."""
    nodes.ckpt.env["CKPT_CUDA_NATIVE"] = "no"
    for n in range(8):
        moved = Moved(nodes)
        moved.suspend()
        resume = nodes.ckpt.start("ckpt-restore", ["--device", "cuda:0", "--resume", str(moved.job.pid)])
        victim = wait_for(lambda: [p for p in tree_of(moved.job.pid) if command(p) == "ckpt-cuda-server"] or
                          resume.process.poll() is not None, "the new server")
        time.sleep(n * 0.01)
        if isinstance(victim, list):
            os.kill(victim[0], signal.SIGKILL)
        if resume.wait() == 0:
            moved.limit.unlink()
            killed = isinstance(victim, list)
            assert (moved.job.wait() == 0) == (not killed), moved.job.error_text
            assert not killed or "the CUDA device is lost" in moved.job.error_text, moved.job.error_text
            continue
        assert "the program is suspended, with its data" in resume.error_text, resume.error_text
        moved.resume("cuda:1")
        moved.finish()
