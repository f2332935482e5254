# SPDX-License-Identifier: Apache-2.0
"""Programs that were started on a CUDA device of another node, and have moved to one of their own node: their calls go
to a driver in their own process."""
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

from conftest import tree_of, wait_for
from cuda_programs import BUILD, NVCC, RUN, make  # noqa: F401 (a fixture)
from test_remote import command
from test_remote_cuda import Nodes
from test_remote_cuda_moves import Moved, another_server, servers_here
from toolkit import WHY_NOT
from workers import make_once, shared_folder

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]

PRELOADED = pathlib.Path(__file__).parent / "programs" / "early_move.c"
WHY_A_SERVER = "its CUDA calls go to ckpt-cuda-server, not to a driver in its process: "


@pytest.fixture
def nodes(ckpt, make):  # noqa: F811
    return Nodes(ckpt, make)


@pytest.fixture(scope="session")
def early(tmp_path_factory):
    library = shared_folder(tmp_path_factory, "early") / "early_move.so"
    make_once(library, lambda: subprocess.run(["cc", "-shared", "-fPIC", "-o", library, PRELOADED, "-ldl"], check=True))
    return library


def is_native(job):
    """The driver is in the program, and nothing else serves its calls."""
    maps = pathlib.Path(f"/proc/{job.program()}/maps").read_text()
    return f"{BUILD}/softcuda/driver/libcuda.so.1" in maps and not servers_here(job)


def becomes_native(job):
    """A server that was not needed ends by itself."""
    wait_for(lambda: is_native(job), "the end of the server that was offered")


def natively_after_a_move(nodes, early, source, *arguments, flags=(), device="cuda:1"):
    """Starts the program on the other node, and moves it before main()."""
    file = nodes.ckpt.folder / "early"
    ready = pathlib.Path(f"{file}.ready")
    ready.unlink(missing_ok=True)
    file.touch()
    program = nodes.make(source, *flags)
    job = nodes.ckpt.start("ckpt-run", ["--device", nodes.device(), "--", "/usr/bin/env", f"EARLY_MOVE={file}",
                                        f"LD_PRELOAD={early}", str(program), *map(str, arguments)])
    wait_for(ready.exists, "the start of the driver")
    for tool, *options in (("ckpt-dump", "--suspend"), ("ckpt-restore", "--device", device, "--resume")):
        r = nodes.server.call(tool, *options, job.pid)
        assert r.returncode == 0, r.stderr
    becomes_native(job)
    file.unlink()
    return job


def same_as_natively(nodes, early, source, *arguments, flags=()):
    job = natively_after_a_move(nodes, early, source, *arguments, flags=flags)
    verdict = job.wait(), job.text
    nodes.ckpt.env["CUDA_VISIBLE_DEVICES"] = "1"
    expected = nodes.natively(source, *arguments, flags=flags)
    del nodes.ckpt.env["CUDA_VISIBLE_DEVICES"]
    assert verdict == expected, job.error_text


def test_calls_are_native_after_a_move_and_remote_after_another_one(nodes):
    """In place, there and back, twice: the driver in the process is left and used again."""
    moved = Moved(nodes, steps=(20,))
    for here, there in (("cuda:1", nodes.device(nodes.server.tls, 1)), ("cuda:0", nodes.device())):
        moved.move(here)
        becomes_native(moved.job)
        wait_for(lambda: not nodes.drivers(), "the end of the old server")
        moved.step()
        moved.move("cuda:1")  # from one device of this node to another one
        becomes_native(moved.job)
        moved.step()
        moved.move(there)
        assert nodes.drivers()
        moved.step()
    moved.finish()


def test_an_image_of_native_calls_restores_anywhere(nodes):
    """On the other node, on another chip there, and on this node."""
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    moved = Moved(nodes, steps=(20,))
    moved.move("cuda:0")
    moved.step()
    for device in (nodes.device(), "cuda:1", f"remote:{older.unix}/cuda:0", "cuda:0", "cuda:0"):
        nodes.ckpt.dump(moved.job.pid, f"image{moved.steps}")
        assert moved.job.wait() == 85
        moved.job = nodes.ckpt.restore(f"image{moved.steps}", "--device", device)
        moved.step()
        if device.startswith("cuda"):
            becomes_native(moved.job)
    moved.finish()


def test_a_program_with_native_calls_continues_after_a_dump(nodes):
    """Its contents have left the device meanwhile. A dump that fails changes nothing, either."""
    moved = Moved(nodes, steps=(20,))
    moved.move("cuda:0")
    moved.step()
    nodes.ckpt.dump(moved.job.pid, "image", "--leave-running")
    becomes_native(moved.job)
    moved.step()
    r = nodes.server.call("ckpt-dump", moved.job.pid, "-o", "/dev/null/image")
    assert r.returncode != 0
    moved.step()
    becomes_native(moved.job)
    moved.finish()


def test_graphs_and_textures_are_native_after_a_move(nodes):
    for source in ("remote_graph_moves.cu", "remote_textures.cu"):
        moved = Moved(nodes, source=source)
        moved.move("cuda:1")
        becomes_native(moved.job)
        moved.step()
        moved.move(nodes.device())
        moved.step()
        moved.move("cuda:0")
        moved.finish()


def test_why_a_server_serves_the_calls_is_said(nodes):
    """Managed memory has pages of the program where the driver would have its own addresses."""
    moved = Moved(nodes, source="remote_shared.cu")
    moved.move("cuda:1")
    moved.step()
    assert [command(p) for p in servers_here(moved.job)] == ["ckpt-cuda-server"]
    [remark] = nodes.ckpt.dump(moved.job.pid, "image", "--leave-running")["remarks"]
    assert WHY_A_SERVER + "the program has managed or mapped memory" in remark
    moved.finish()


def test_native_calls_may_be_switched_off(nodes):
    nodes.ckpt.env["CKPT_CUDA_NATIVE"] = "no"
    moved = Moved(nodes)
    moved.move("cuda:0")
    moved.step()
    assert [command(p) for p in servers_here(moved.job)] == ["ckpt-cuda-server"]
    moved.finish()


PROGRAMS = [("vector_add.cu",), ("remote_calls.cu",), ("remote_variables.cu",), ("textures.cu",), ("remote_arrays.cu",),
            ("remote_values.cu",), ("video.cc",), ("remote_graphs.cu",), ("remote_captures.cu",), ("jit.cc",),
            ("linking.cc", "without-nvml"), ("errors.cu", "assert"), ("errors.cu", "values")]


def test_programs_answer_as_on_the_device_itself(nodes, early):
    for program in PROGRAMS[:4]:
        same_as_natively(nodes, early, *program)


@pytest.mark.full
@pytest.mark.parametrize("program", [*PROGRAMS[4:], ("errors.cu", "recursion"), ("errors.cu", "deadlock"), ("errors.cu", "trap"),
                                     ("errors.cu", "misaligned"), *((f"{name}.cu",) for name in
                                     ("kernels", "streams", "language", "differential", "accesses", "launches",
                                      "hopper", "matrices"))], ids=" ".join)
def test_more_programs_answer_as_on_the_device_itself(nodes, early, program):
    same_as_natively(nodes, early, *program)


@pytest.mark.full
def test_random_calls_of_several_threads(nodes, early):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    job = natively_after_a_move(nodes, early, "many.cu", seed, 5)
    assert job.wait() == 0 and "PASSED" in job.text, job.error_text


@pytest.mark.full
def test_a_tool_killed_at_any_moment_loses_no_contents(nodes):
    """In a move to native calls, and in one away from them: the program runs, or it is suspended and can be resumed."""
    moved = Moved(nodes, steps=(40,))
    for n in range(16):
        there, here = (nodes.device(), "cuda:0") if n % 2 else ("cuda:0", nodes.device())
        moved.suspend()
        tool = nodes.ckpt.start("ckpt-restore", ["--device", there, "--resume", str(moved.job.pid)])
        time.sleep(n * 0.01)
        os.kill(tool.pid, signal.SIGKILL)
        tool.wait()
        code, errors = moved.call("ckpt-restore", "--device", here, "--resume")
        assert code == 0 or "is not suspended" in errors, errors
        moved.step()
    moved.finish()


@pytest.mark.full
def test_a_native_program_killed_at_any_moment_leaves_nothing(nodes):
    for n in range(8):
        moved = Moved(nodes)
        moved.suspend()
        resume = nodes.ckpt.start("ckpt-restore", ["--device", "cuda:0", "--resume", str(moved.job.pid)])
        time.sleep(n * 0.01)
        pids = [p for p in tree_of(moved.job.pid) if command(p) == "ckpt-cuda-server"]
        os.kill(moved.job.program(), signal.SIGKILL)
        resume.wait()
        assert moved.job.wait() != 0
        wait_for(lambda: not any(pathlib.Path(f"/proc/{p}").exists() for p in pids), "the end of the server")
