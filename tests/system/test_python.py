# SPDX-License-Identifier: Apache-2.0
"""The Python module: real programs under ckpt-run, dumped and restored; and outside of a session."""
import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time

import pytest

import documents
from conftest import BUILD, ROOT, wait_for
from cuda_programs import NVCC, RUN as SOFTCUDA_RUN, numba  # noqa: F401 (a fixture)
from test_opencl import bed_environment

MODULE = ROOT / "python"
PYTHON = "/usr/bin/python3"

pytestmark = pytest.mark.skipif(not (BUILD / "libckpt" / "libckpt.so").exists(), reason="libckpt.so is not built")

START = """
import os, sys, threading, time
import libckpt as ckpt

def say(*words):  # one line, in one piece also beside other threads
    sys.stdout.write(" ".join(map(str, words)).replace("\\n", " ") + "\\n")
    sys.stdout.flush()

def until(*files):
    while not any(os.path.exists(f) for f in files):
        time.sleep(0.01)
"""


@pytest.fixture
def script(ckpt):
    """script(text, …) starts a program of Python under ckpt-run."""
    ckpt.env.update(PYTHONPATH=str(MODULE), PYTHONDONTWRITEBYTECODE="1", PATH=f"{BUILD}/tools:{os.environ['PATH']}")

    def start(text, *arguments, options=(), python=PYTHON, **more):
        return ckpt.run(python, "-c", START + textwrap.dedent(text), *arguments, options=options, **more)

    return start


def alone(text, **environment):
    """A program that runs outside of a session."""
    env = {**os.environ, "PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("CKPT_SESSION", None)
    return subprocess.run([PYTHON, "-c", START + textwrap.dedent(text)], env=env | environment, capture_output=True, text=True,
                          timeout=60)


# ---- outside of a session

@pytest.mark.no_criu
def test_outside_of_a_session_everything_is_a_no_op():
    r = alone("""
        threads = threading.active_count()
        assert not ckpt.available()
        assert ckpt.checkpoint("x").outcome is ckpt.Outcome.NO_SESSION
        assert ckpt.checkpoint(every="10m", stop=True).image is None
        with ckpt.on_checkpoint(print, print), ckpt.suspended(), ckpt.exclude(bytearray(1 << 20)):
            pass
        ckpt.resume()
        assert list(ckpt.reopen(lambda n: range(n, 4))) == [0, 1, 2, 3] and ckpt.generation() == 0
        assert len(os.listdir("/proc/self/task")) == threads == 1
        assert "libckpt" not in open("/proc/self/maps").read() and not os.path.exists("x")
        say("fine")
    """)
    assert (r.returncode, r.stdout, r.stderr) == (0, "fine\n", "")


@pytest.mark.no_criu
def test_wrong_arguments_are_refused_outside_of_a_session_too():
    r = alone("""
        for wrong in ("", "soon", "10x", -1, float("nan"), "1h 30m"):
            try:
                ckpt.checkpoint(every=wrong)
            except ValueError as error:
                say(error)
    """)
    assert r.returncode == 0 and r.stdout.count("is not a time; write it as seconds") == 6, r.stdout + r.stderr


@pytest.mark.no_criu
def test_a_missing_library_is_named():
    r = alone("""
        assert not ckpt.available()
        try:
            ckpt.checkpoint()
        except ckpt.Error as error:
            say(error.code.name, error)
    """, CKPT_SESSION="/nowhere/session.sock")
    assert r.returncode == 0 and r.stdout.startswith("SYSTEM cannot load libckpt.so.1"), r.stdout + r.stderr
    assert "start the program with ckpt-run" in r.stdout


@pytest.mark.no_criu
def test_the_version_is_that_of_the_project():
    built = re.search(r"version: '(.*)'", (ROOT / "meson.build").read_text()).group(1)
    assert alone("say(ckpt.__version__)").stdout.strip() == built


@pytest.mark.no_criu
def test_every_public_name_is_documented_and_needs_no_package():
    known = set(sys.stdlib_module_names)
    for source in sorted((MODULE / "libckpt").glob("*.py")):
        tree = ast.parse(source.read_text())
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and not getattr(node, "level", 0):
                names = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                assert {n.partition(".")[0] for n in names} <= known, f"{source.name}: {names}"
        public = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")]
        assert ast.get_docstring(tree) and all(ast.get_docstring(n) for n in public), source.name
    assert (MODULE / "libckpt" / "py.typed").exists()


@pytest.mark.no_criu
def test_the_examples_of_the_document_use_names_that_exist():
    page = documents.ROOT / "docs" / "PYTHON.md"
    texts = ["\n".join(b.lines) for b in documents.blocks(page) if b.language == "python"]
    texts += [(ROOT / "examples" / "train.py").read_text()]
    used = set().union(*(re.findall(r"\b(ckpt|tools)\.(\w+)\(", text) for text in texts))
    for text in texts:
        ast.parse(text)
    assert len(texts) >= 4 and len(used) >= 6
    checks = "".join(f"assert callable({module}.{name})\n" for module, name in used)
    r = alone("from libckpt import tools\n" + checks)
    assert r.returncode == 0, r.stderr
    calls = re.findall(r"^\| `(\w+)\(", page.read_text(), flags=re.M)
    functions = alone("import inspect\nsay(*(n for n in ckpt.__all__ if inspect.isfunction(getattr(ckpt, n))))").stdout.split()
    assert set(functions) == set(calls) | {"resume"}


# ---- callbacks

COUNTS = """
registration = ckpt.on_checkpoint(lambda: say("before"), lambda outcome: say("after", outcome.name))

def refuses():
    if os.path.exists("refuse"):
        raise RuntimeError("not today")

ckpt.on_checkpoint(refuses)
n = 0
while not os.path.exists("stop"):
    say(n, ckpt.generation())
    n += 1
    time.sleep(0.01)
registration.remove()
sys.exit(6)
"""


def test_callbacks_and_the_generation(ckpt, script):
    job = script(COUNTS)
    job.wait_lines(5)
    ckpt.dump(job.pid, "zero", "--leave-running")
    job.wait_text("after CONTINUED")
    assert job.lines.index("before") < job.lines.index("after CONTINUED")
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    copy = ckpt.restore("one")
    copy.wait_text("after RESTORED")
    wait_for(lambda: any(line.endswith(" 1") for line in copy.lines), "a line of the next generation")
    (ckpt.folder / "stop").touch()
    assert copy.wait() == 6, copy.error_text
    numbers = [int(line.split()[0]) for line in job.lines + copy.lines if line[0].isdigit()]
    assert numbers == list(range(len(numbers)))


def test_an_exception_of_a_callback_is_the_reason_of_the_refusal(ckpt, script):
    job = script(COUNTS)
    job.wait_lines(5)
    (ckpt.folder / "refuse").touch()
    assert "the program refuses the checkpoint: not today" in ckpt.dump_refused(job.pid, "one")
    job.wait_text("after FAILED")
    (ckpt.folder / "refuse").unlink()
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85


def test_an_exception_of_after_is_printed_and_harms_nothing(ckpt, script):
    job = script("""
        def fails(outcome):
            raise RuntimeError("too late")
        ckpt.on_checkpoint(after=fails)
        say("ready")
        until("stop")
    """)
    job.wait_text("ready")
    ckpt.dump(job.pid, "one", "--leave-running")
    wait_for(lambda: "RuntimeError: too late" in job.error_text, "the traceback")
    ckpt.dump(job.pid, "two", "--leave-running")
    (ckpt.folder / "stop").touch()
    assert job.wait() == 0


def test_a_callback_may_remove_itself(ckpt, script):
    job = script("""
        def once():
            say("once")
            registration.remove()
        registration = ckpt.on_checkpoint(once)
        say("ready")
        until("stop")
        registration.remove()
    """)
    job.wait_text("ready")
    for image in ("one", "two"):
        ckpt.dump(job.pid, image, "--leave-running")
    assert job.lines.count("once") == 1
    (ckpt.folder / "stop").touch()
    assert job.wait() == 0, job.error_text


def test_an_image_that_the_program_writes_can_carry_its_files(ckpt, script):
    (ckpt.folder / "table").write_text("as it was")
    job = script("""
        table = open("table")
        r = ckpt.checkpoint("self", stop=True, with_files=True)
        say(r.outcome.name, table.read())
    """)
    assert job.wait() == 85, job.error_text
    (ckpt.folder / "table").unlink()
    copy = ckpt.restore("self")
    assert copy.wait() == 0 and copy.lines == ["RESTORED as it was"], copy.text + copy.error_text


def test_the_interpreter_ends_while_a_callback_runs(ckpt, script):
    """The agent's thread must not meet an interpreter that has ended."""
    job = script("""
        def slow():
            say("slow")
            time.sleep(0.5)
            say("done")
        ckpt.on_checkpoint(slow)
        say("ready")
        until("stop")
        sys.exit(7)
    """)
    job.wait_text("ready")
    dump = ckpt.start("ckpt-dump", [str(job.pid), "-o", "one", "--leave-running"])
    job.wait_text("slow")
    (ckpt.folder / "stop").touch()
    assert job.wait() == 7 and job.lines == ["ready", "slow", "done"], job.text + job.error_text
    dump.wait()


def test_the_child_of_a_fork_has_no_callbacks_and_takes_part_again(ckpt, script):
    job = script("""
        registration = ckpt.on_checkpoint(lambda: say("parent", os.getpid() == parent))
        held = ckpt.exclude(bytearray(1 << 20))
        ckpt.generation()
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            held.include()
            registration.remove()
            ckpt.on_checkpoint(lambda: say("child", os.getpid() != parent))
            ckpt.generation()
            say("ready")
            while ckpt.generation() == 0:
                time.sleep(0.01)
            say("generation", ckpt.generation())
            sys.exit(0)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    job.wait_text("ready")
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    assert sorted(job.lines[1:]) == ["child True", "parent True"]
    copy = ckpt.restore("one")
    assert copy.wait() == 0, copy.error_text
    assert "generation 1" in copy.lines


# ---- the GIL

OPENCL = BUILD / "libckpt-ocl" / "libckpt-ocl.so"


@pytest.mark.skipif(not OPENCL.exists(), reason="the OpenCL parts are not built")
def test_threads_that_keep_the_gil_in_device_calls_and_in_loops(ckpt, script):
    """One calls the device through PyDLL, which keeps the GIL while the call waits for the end of a checkpoint; another
    never sleeps. Callbacks need the GIL nevertheless."""
    job = script("""
        import ctypes
        cl = ctypes.PyDLL("libOpenCL.so.1")
        cl.clCreateContext.restype = cl.clCreateCommandQueue.restype = ctypes.c_void_p
        platform, device = ctypes.c_void_p(), ctypes.c_void_p()
        assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0
        assert cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None) == 0
        context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
        queue = ctypes.c_void_p(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), None))
        cl.clCreateBuffer.restype = ctypes.c_void_p
        buffer = ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_uint64(1), ctypes.c_size_t(4), None, None))
        number = ctypes.c_uint32()

        def device_calls():
            n = 0
            while True:
                n += 1
                wanted = ctypes.c_uint32(n)
                assert cl.clEnqueueWriteBuffer(queue, buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(4),
                                               ctypes.byref(wanted), 0, None, None) == 0
                assert cl.clEnqueueReadBuffer(queue, buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(4),
                                              ctypes.byref(number), 0, None, None) == 0
                assert number.value == n

        def loops():
            while True:
                pass

        for work in (device_calls, loops):
            threading.Thread(target=work, daemon=True).start()
        ckpt.on_checkpoint(lambda: say("before"), lambda outcome: say("after", outcome.name, number.value))
        say("ready")
        for i in range(3):
            ckpt.checkpoint("self")
        until("stop")
    """, options=["--device", "ocl:pthread"], env=bed_environment())
    job.wait_text("ready")
    wait_for(lambda: job.lines.count("before") == 3, "three checkpoints of its own")
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    copy = ckpt.restore("one")
    copy.wait_text("after RESTORED")
    (ckpt.folder / "stop").touch()
    assert copy.wait() == 0, copy.error_text
    values = [int(line.split()[2]) for line in job.lines + copy.lines if line.startswith("after")]
    assert len(values) == 4 and values == sorted(values) and values[0] > 0


# ---- checkpoints of its own

def test_it_checkpoints_itself_and_stops(ckpt, script):
    job = script("""
        r = ckpt.checkpoint("self", stop=True)
        say(r.outcome.name, r.restored, os.path.basename(r.image), r.seconds >= 0, r.device_bytes)
    """)
    assert job.wait() == 85, job.error_text
    copy = ckpt.restore("self")
    assert copy.wait() == 0 and copy.lines == ["RESTORED True self True 0"], copy.error_text


def test_every_makes_a_checkpoint_now_and_then_with_nothing_else(ckpt, script):
    job = script("""
        sys.argv = ["/somewhere/my train.py"]
        made = 0
        for step in range(10000):
            r = ckpt.checkpoint(every=0.5)
            if r.outcome is not ckpt.Outcome.NOT_DUE:
                say(step > 0, r.outcome.name, os.path.basename(r.image))
                made += 1
                if made == 2 or r.restored:
                    break
            time.sleep(0.01)
        say("end")
    """)
    job.wait_text("end")
    assert job.wait() == 0, job.error_text
    image = f"ckpt-my_train-{job.lines[0].rpartition('-')[2]}"
    assert job.lines == [f"True CONTINUED {image}"] * 2 + ["end"] and (ckpt.folder / image).is_dir()
    copy = ckpt.restore(image)
    assert copy.wait() == 0 and copy.lines == [f"True RESTORED {image}", "end"], copy.error_text


def test_failures_are_exceptions_with_the_tools_message(ckpt, script):
    (ckpt.folder / "there").mkdir()
    (ckpt.folder / "there" / "precious").touch()
    job = script("""
        def attempt(*arguments, **more):
            try:
                ckpt.checkpoint(*arguments, **more)
            except ckpt.Error as error:
                say(error.code.name, error)
        attempt("there")
        ckpt.checkpoint("mine", overwrite=False)
        attempt("mine", overwrite=False)
        ckpt.on_checkpoint(lambda: attempt("inner"))
        ckpt.checkpoint("mine")
        say("end")
    """)
    assert job.wait() == 0, job.error_text
    assert re.match("FAILED .*there", job.lines[0]) and re.match("FAILED .*mine exists already", job.lines[1]), job.lines
    assert job.lines[2].startswith("IN_CALLBACK") and job.lines[3] == "end"


# ---- suspended

def test_a_block_in_which_the_program_is_suspended(ckpt, script):
    job = script("""
        ckpt.on_checkpoint(lambda: say("before"), lambda outcome: say("after", outcome.name))
        with ckpt.suspended():
            say("suspended")
            until("go")
        with ckpt.suspended(".", memory_only=True):
            say("memory")
        say("end")
    """)
    job.wait_text("suspended")
    assert "suspended" in ckpt.dump_refused(job.pid, "one")
    (ckpt.folder / "go").touch()
    assert job.wait() == 0, job.error_text
    assert job.lines == ["before", "suspended", "after CONTINUED", "before", "memory", "after CONTINUED", "end"]


# ---- a source that is opened again

def test_a_source_is_opened_again_where_it_was(ckpt, script):
    job = script("""
        class Source:
            def __init__(self, at):
                say("open", at)
                self.at = at
            def __iter__(self):
                return self
            def __next__(self):
                if self.at == 200:
                    raise StopIteration
                self.at += 1
                return self.at - 1
            def close(self):
                say("close")
        seen = []
        for item in ckpt.reopen(Source):
            seen.append(item)
            if item == 5:
                ckpt.checkpoint("self", stop=True)
        say(seen == list(range(200)))
    """)
    assert job.wait() == 85 and job.lines == ["open 0"], job.error_text
    copy = ckpt.restore("self")
    assert copy.wait() == 0 and copy.lines == ["close", "open 6", "close", "True"], copy.error_text


# ---- excluded memory

def test_excluded_host_memory_is_not_in_the_image(ckpt, script):
    job = script("""
        import mmap
        size = 64 << 20
        big = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        big[:] = os.urandom(1 << 20) * 64
        kept = bytearray(os.urandom(1 << 20))
        copy = bytes(kept)
        e = ckpt.exclude(big)
        ckpt.checkpoint("without")
        say(big[:4096] == bytes(4096), kept == copy)
        big[:] = os.urandom(1 << 20) * 64
        first = big[:100]
        e.include()
        ckpt.checkpoint("with")
        say(big[:100] == first)
        with ckpt.exclude(kept):
            try:
                kept.extend(b"x")
            except BufferError:
                say("it cannot be resized")
        kept.extend(b"x")
        try:
            ckpt.exclude(b"constant")
        except ckpt.NotExcludable as error:
            say(error)
        try:
            ckpt.exclude(12345)
        except ckpt.Error as error:
            say(error.code.name)
    """)
    assert job.wait() == 0, job.error_text
    assert job.lines[:3] == ["True True", "True", "it cannot be resized"]
    assert "read-only" in job.lines[3] and job.lines[4] == "UNKNOWN"
    sizes = {}
    for image in ("without", "with"):
        said = subprocess.run([ckpt.tool("ckpt-image"), "show", "--json", ckpt.folder / image], capture_output=True, text=True)
        sizes[image] = int(re.search(r'"bytes": (\d+)', said.stdout).group(1))
    assert sizes["with"] - sizes["without"] > 60 << 20


@pytest.mark.no_criu
def test_arrays_say_where_their_memory_is_by_the_interfaces_of_their_libraries():
    r = alone("""
        import ctypes
        from types import SimpleNamespace as Object
        from libckpt._arrays import extent_of, NotExcludable
        from libckpt import _dlpack

        def interface(shape, typestr, strides=None, readonly=False):
            return dict(shape=shape, typestr=typestr, strides=strides, data=(4096, readonly), version=3)

        def show(array):
            try:
                e = extent_of(array)
                say(e.address if e.address < 1 << 20 else "-", e.nbytes, e.on_device)
            except NotExcludable as error:
                say(error)

        show(Object(__cuda_array_interface__=interface((3, 4), "<f4")))
        show(Object(__cuda_array_interface__=interface((3, 4), "<f4", (4, 12))))
        show(Object(__cuda_array_interface__=interface((3, 4), "<f4", (32, 4))))
        show(Object(__array_interface__=interface((), "|u1")))
        show(Object(__array_interface__=interface((8,), "<f8", None, True)))
        show(bytearray(100))
        show(memoryview(bytearray(100))[::2])
        show(Object())

        class Tensor:
            __module__ = "torch"
            def __init__(self, kind, packed=True):
                self.device, self.packed = Object(type=kind), packed
            is_contiguous = lambda self: self.packed
            data_ptr, numel, element_size = (lambda self: 8192), (lambda self: 10), (lambda self: 2)
        show(Tensor("cuda"))
        show(Tensor("cpu"))
        show(Tensor("mps"))
        show(Tensor("cuda", False))

        class Dlpack:
            def __init__(self, kind, strides):
                self.numbers = (ctypes.c_int64 * 4)(5, 6, *(strides or (0, 0)))
                where = ctypes.addressof(self.numbers)
                self.tensor = _dlpack._Tensor(16384, kind, 0, 2, 2, 32, 1, ctypes.cast(where, ctypes.POINTER(ctypes.c_int64)),
                    ctypes.cast(where + 16, ctypes.POINTER(ctypes.c_int64)) if strides else None, 64)
            def __dlpack__(self):
                new = ctypes.pythonapi.PyCapsule_New
                new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
                return new(ctypes.addressof(self.tensor), b"dltensor", None)
        show(Dlpack(1, None))
        show(Dlpack(2, (6, 1)))
        show(Dlpack(2, (7, 1)))
        show(Dlpack(10, None))
    """)
    assert r.returncode == 0, r.stderr
    gaps = "the {} has gaps, which belong to another one: exclude the whole"
    assert r.stdout.splitlines() == [
        "4096 48 True", "4096 48 True", gaps.format("array"), "4096 1 False",
        "the array is read-only: after a checkpoint its contents would be undefined", "- 100 False",
        "the memory has gaps, which belong to another object: exclude the whole",
        "SimpleNamespace says nowhere where its memory is: pass an address, and for host memory nbytes",
        "8192 20 True", "8192 20 False", "the tensor is on a device of the kind 'mps'; ckpt knows cpu and cuda",
        gaps.format("tensor"), "16448 120 False", "16448 120 True", gaps.format("array"),
        "the array is on a device of DLPack's kind 10; ckpt knows CPU and CUDA"]


@pytest.mark.skipif(not NVCC or not SOFTCUDA_RUN.exists(), reason="the software device is not built")
def test_an_array_of_numba_is_excluded_and_a_part_of_one_is_not(ckpt, script, numba):  # noqa: F811
    command, environment = numba
    ckpt.env.update(environment, CKPT_SOFTCUDA="1x256M", CUDA_MODULE_LOADING="LAZY")
    job = script("""
        import site
        site.addsitedir("/opt/ckpt/numba")
        import numpy as np
        from numba import cuda
        scratch = cuda.to_device(np.full(1 << 20, 7, dtype=np.float32))
        kept = cuda.to_device(np.arange(1 << 20, dtype=np.float32))
        for part in (scratch[: 1 << 19], scratch[1 << 19 :]):
            try:
                ckpt.exclude(part)
            except ckpt.NotExcludable as error:
                say(error)
        ckpt.exclude(scratch)
        r = ckpt.checkpoint("self", stop=True)
        say((kept.copy_to_host() == np.arange(1 << 20)).all(), (scratch.copy_to_host() == 7).any())
    """, python=command[0], options=["--device", "cuda:0"])
    assert job.wait(200) == 85, job.error_text
    assert len(job.lines) == 2 and all("bytes of its allocation" in line for line in job.lines), job.lines
    copy = ckpt.restore("self")
    assert copy.wait(200) == 0 and copy.lines == ["True False"], copy.text + copy.error_text


# ---- the tools

def test_the_tools_as_functions(ckpt, script):
    """Called by a program outside: run, ps, check, dump, images, restore."""
    (ckpt.folder / "count.py").write_text("import os, time\nwhile not os.path.exists('stop'): time.sleep(0.01)\nraise SystemExit(5)\n")
    driver = textwrap.dedent("""
        from libckpt import tools
        import subprocess
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        job = tools.run(["/usr/bin/python3", "count.py"], **quiet)
        while not (found := [p for p in tools.ps() if p.keeper == job.pid and p.state == "running"]):
            time.sleep(0.05)
        program = found[0]
        report = tools.check(program.pid, with_files=True)
        say(report.possible, report.reasons, tools.check(program.pid).carried)
        d = tools.dump(job.pid, "one", leave_running=True, with_files=True)
        say(os.path.basename(d.image), d.processes, d.bytes > d.stored_bytes > 0)
        would = report.carried
        say(d.carried_files == len(would.files) > 5, d.carried_bytes == would.bytes > 1 << 20, dict(would.left_out))
        try:
            tools.dump(job.pid, "one")
        except tools.ToolError as error:
            say(error.exit_code, error.kind, error)
        tools.dump(job.pid, "one", overwrite=True)
        say(job.wait())
        say([(os.path.basename(i.image), i.state, i.parent) for i in tools.images(".")])
        try:
            tools.restore_detached("nothing.img")
        except tools.ToolError as error:
            say(error.exit_code, error.kind, error)
        pid = tools.restore_detached("one", options=["--output", "out"])
        say(pid == program.pid, [p.pid for p in tools.ps()] == [pid])
        try:
            tools.check(os.getpid())
        except tools.ToolError as error:
            say(error.exit_code, "does not run under ckpt-run" in str(error))
        copy = tools.dump(pid, "two")
        again = tools.restore("two", **quiet)
        open("stop", "w")
        say(again.wait())
    """)
    r = subprocess.run([PYTHON, "-c", START + driver], env=ckpt.env, cwd=ckpt.folder, capture_output=True, text=True, timeout=200)
    said = r.stdout.splitlines()
    assert r.returncode == 0, r.stdout + r.stderr
    assert said[:3] == ["True () None", "one 1 True", "True True {}"] and re.match(r"1 \w+ .*exists already", said[3]), said
    assert said[4:6] == ["85", "[('one', 'complete', None)]"] and re.match(r"1 \w+ .*nothing.img", said[6]), said
    assert said[7:] == ["True True", "1 True", "5"]


def test_the_module_runs_a_script_under_ckpt_run(ckpt, script):
    (ckpt.folder / "script.py").write_text("import libckpt, sys\nprint(libckpt.available(), sys.argv[1:])\n")
    r = subprocess.run([PYTHON, "-m", "libckpt", "run", "--device", "none", "script.py", "--every", "x"], env=ckpt.env, cwd=ckpt.folder,
                       capture_output=True, text=True, timeout=60)
    assert r.returncode in (0, 125)
    r = subprocess.run([PYTHON, "-m", "libckpt", "run", "script.py", "--every", "x"], env=ckpt.env, cwd=ckpt.folder,
                       capture_output=True, text=True, timeout=60)
    assert (r.returncode, r.stdout) == (0, "True ['--every', 'x']\n"), r.stderr


@pytest.mark.no_criu
def test_the_module_without_tools_says_what_is_missing(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(MODULE), "PATH": str(tmp_path)}
    r = subprocess.run([PYTHON, "-m", "libckpt", "dump", "1"], env=env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 125 and "ckpt-dump: error:" in r.stderr and "install ckpt's tools" in r.stderr
    r = subprocess.run([PYTHON, "-m", "libckpt", "wrong"], env=env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 125 and "python3 -m libckpt COMMAND" in r.stderr


@pytest.mark.no_criu
def test_the_types_are_complete():
    mypy = shutil.which("mypy")
    if not mypy:
        pytest.skip("there is no mypy")
    r = subprocess.run([mypy, "--strict", "--cache-dir=/dev/null", MODULE / "libckpt"], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout
