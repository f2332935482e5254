# SPDX-License-Identifier: Apache-2.0
"""Whatever process is killed at whatever step: the program's own check of its data is right, or the program was told
by an error of its API; a tool that has lost something says so by its exit code; nothing is left behind.

CKPT_TEST_HOLD_AT=STEP stops a tool at the beginning of a step. The test then kills its victim and continues the tool.
"""
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import BUILD, tree_of, wait_for
from criu_wrapper import criu_wrapper
from cuda_programs import make  # noqa: F401
from manager import Node
from test_cuda import Cuda
from test_opencl import Programs, devices  # noqa: F401
from tiers import parametrize
from toolkit import NVCC

DUMP_STEPS = ["resolve", "preflight", "begin", "prepare", "quiesce", "save", "detach", "criu", "record", "check", "write", "end"]
RESTORE_STEPS = ["check", "session", "criu", "devices"]
SUSPEND_STEPS = ["resolve", "preflight", "prepare", "quiesce", "suspend", "end"]
RESUME_STEPS = ["resolve", "wake", "end"]


def state(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def below(pid, name):
    """The processes below `pid` with `name` in their command line."""
    found = []
    for p in tree_of(pid):
        try:
            if name in pathlib.Path(f"/proc/{p}/cmdline").read_text():
                found.append(p)
        except OSError:
            pass
    return found


class Subject:
    """A program of one API that checks its own data, the same for CUDA and OpenCL."""

    def __init__(self, api, ckpt, fixtures):
        self.api, self.ckpt = api, ckpt
        if api == "cuda":
            self.cuda = Cuda(ckpt, fixtures.getfixturevalue("make"))
            self.expected = self.cuda.expected(4)
        else:
            self.ocl = Programs(ckpt, *fixtures.getfixturevalue("devices"))

    def start(self):
        if self.api == "cuda":
            return self.cuda.start(4)
        job = self.ocl.start("objects")
        job.wait_text("READY")
        return job

    def go(self):
        self.cuda.go_on() if self.api == "cuda" else self.ocl.go()

    def outcome(self, job):
        """"right" or "told", once the program has ended, whether or not its keeper lives."""
        for reader in job.readers:
            reader.join(120)
            assert not reader.is_alive(), f"the program hangs: {job.text} {job.error_text}"
        text = job.text + job.error_text
        if self.api == "cuda":
            if job.lines[-2:] == self.expected:
                return "right"
            assert "checksum" not in job.text, f"wrong data: {text}"
            assert "check.h" not in text and ".cu:" in job.error_text, f"neither right nor told, status {job.process.poll()}: {text}"
            return "told"
        if job.lines and job.lines[-1] == "OK":
            return "right"
        assert "OpenCL error" in text or "error -" in text, f"neither right nor told: {text}"
        return "told"


@pytest.fixture
def subject(ckpt, request):
    if request.param == "cuda" and not NVCC:
        pytest.skip("there is no nvcc")
    return Subject(request.param, ckpt, request)


def tool(ckpt, name, *arguments, hold=None, **env):
    """A tool that stops itself at the step `hold`, in the background."""
    env = dict(ckpt.env, **env, **({"CKPT_TEST_HOLD_AT": hold} if hold else {}))
    process = subprocess.Popen([ckpt.tool(name), *map(str, arguments)], env=env, cwd=ckpt.folder, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ckpt.held.append(process)
    return process


def held(process):
    wait_for(lambda: state(process.pid) in ("T", None) or process.poll() is not None, "the step")
    return process.poll() is None


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def kill_at(process, victims):
    """Kills `victims` (a function) while `process` is held, and returns its exit code."""
    if held(process):
        kill(victims())
        try:
            os.kill(process.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
    process.communicate(timeout=120)
    return process.returncode


def victims_of(job, victim, process):
    return {"tool": lambda: [process.pid], "keeper": lambda: [job.pid],
            "proxy": lambda: below(job.pid, "ckpt-ocl-proxy")}[victim]


def clean(ckpt):
    """Nothing is left behind after the next run of a tool."""
    r = subprocess.run([ckpt.tool("ckpt-image"), "clean", "--json", "."], env=ckpt.env, cwd=ckpt.folder,
                       capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    assert ckpt.partials() == []
    left = [p for p in ckpt.runtime.iterdir() if not p.name.startswith(("ckpt-restore-", "softcuda-", "ckptd"))]
    assert left == [], left


# What is interesting enough for every run. The others are for --full.
FAST = {("cuda", "record", "keeper"), ("ocl", "record", "proxy")}


def rows(steps, victims, fast):
    for api in ("cuda", "ocl"):
        for step in steps:
            for victim in victims:
                if api == "cuda" and victim == "proxy":
                    continue
                marks = [] if (api, step, victim) in fast else [pytest.mark.full]
                yield pytest.param(api, step, victim, marks=marks)


@pytest.mark.parametrize("subject,step,victim", rows(DUMP_STEPS, ["tool", "keeper", "proxy"], FAST), indirect=["subject"])
def test_dump_and_a_killed_process(subject, ckpt, step, victim):
    job = subject.start()
    process = tool(ckpt, "ckpt-dump", job.pid, "-o", "image", "--leave-running", hold=step)
    code = kill_at(process, lambda: victims_of(job, victim, process)())
    subject.go()
    outcome = subject.outcome(job)
    if victim == "tool":
        assert code == -signal.SIGKILL and outcome == "right"
    # From "write" on the program has its devices back, and what it loses then is not lost by the dump.
    assert outcome == "right" or code != 0 or step in ("write", "end")
    job.process.wait(60)
    clean(ckpt)


@pytest.mark.parametrize("subject,step,victim", rows(RESTORE_STEPS, ["tool", "stem", "proxy"], {
    ("cuda", "devices", "tool"), ("ocl", "devices", "tool"), ("cuda", "devices", "stem")}), indirect=["subject"])
def test_restore_and_a_killed_process(subject, ckpt, step, victim):
    job = subject.start()
    ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = ckpt.restore("image", env={"CKPT_TEST_HOLD_AT": step})
    find = {"tool": lambda: [copy.pid], "stem": lambda: below(copy.pid, "--stem"),
            "proxy": lambda: below(copy.pid, "ckpt-ocl-proxy")}[victim]
    if held(copy.process):
        kill(find())
        if copy.process.poll() is None:
            os.kill(copy.pid, signal.SIGCONT)
    subject.go()
    for reader in copy.readers:
        reader.join(120)
        assert not reader.is_alive(), "something of the restore hangs"
    code = copy.process.wait(60)
    # The copy has printed its lines before the dump, so an empty output is a copy that never ran.
    if copy.text or ".cu:" in copy.error_text:
        assert subject.outcome(copy) == "right" or code != 0
    else:
        assert code != 0
    wait_for(lambda: not below(1, "ocl-objects") and not below(1, "steps_cu"), "the end of every copy")
    clean(ckpt)


@pytest.mark.parametrize("subject,step,victim", rows(SUSPEND_STEPS, ["tool", "keeper", "proxy"], {
    ("cuda", "end", "keeper"), ("ocl", "end", "keeper")}), indirect=["subject"])
def test_suspend_and_a_killed_process(subject, ckpt, step, victim):
    job = subject.start()
    program = job.program()
    process = tool(ckpt, "ckpt-dump", program, "--suspend", hold=step)
    code = kill_at(process, lambda: victims_of(job, victim, process)())
    # It may be suspended or not; both must lead to a program that goes on.
    tool(ckpt, "ckpt-restore", "--resume", program).communicate(timeout=120)
    subject.go()
    outcome = subject.outcome(job)
    if victim == "tool":
        assert code == -signal.SIGKILL and outcome == "right"
    job.process.wait(60)
    clean(ckpt)


@pytest.mark.parametrize("subject,step,victim", rows(RESUME_STEPS, ["tool", "keeper", "proxy"], {}), indirect=["subject"])
def test_resume_and_a_killed_process(subject, ckpt, step, victim):
    job = subject.start()
    program = job.program()
    tool(ckpt, "ckpt-dump", program, "--suspend").communicate(timeout=120)
    process = tool(ckpt, "ckpt-restore", "--resume", program, hold=step)
    code = kill_at(process, lambda: victims_of(job, victim, process)())
    tool(ckpt, "ckpt-restore", "--resume", program).communicate(timeout=120)
    subject.go()
    outcome = subject.outcome(job)
    if victim == "tool":
        assert code == -signal.SIGKILL and outcome == "right"
    job.process.wait(60)
    clean(ckpt)


def evicting_node(ckpt, api, request):
    """ckptd, and programs a and b: a is evicted when it asks for its second piece."""
    if api == "cuda":
        n = Node(ckpt, request.getfixturevalue("make"), "1x256M").start("--victim", "requester", reconnect=1)
        return n, n.run("a", 120, 60, pause=["2", "end"]), n.run("b", 80, pause=["end"])
    programs = Programs(ckpt, *request.getfixturevalue("devices"))
    n = Node(ckpt, None, "1x256M").start("--victim", "requester", "--nvml", "none", reconnect=1,
                                         opencl=programs.here.get("basic", "basic") + "=64M")
    tenant = BUILD / "tests" / "programs" / "opencl" / "ocl-tenant"
    return n, n.run_executable(tenant, "a", 30, 20, pause=["2", "end"]), n.run_executable(tenant, "b", 30, pause=["end"])


@pytest.mark.parametrize("api,victim", [pytest.param(api, victim, marks=[] if victim == "keeper" else pytest.mark.full)
                                        for api in ("cuda", "ocl") for victim in ("keeper", "ckptd")])
def test_eviction_and_a_killed_process(ckpt, request, api, victim):
    if api == "cuda" and not NVCC:
        pytest.skip("there is no nvcc")
    n, a, b = evicting_node(ckpt, api, request)
    a.wait_text("have")
    b.wait_text("have")
    n.go_on("a", "2")
    n.wait_state(a, "evicted")
    kill([a.pid if victim == "keeper" else n.daemon.pid])
    n.go_on("b", "end")
    assert b.wait() == 0
    n.go_on("a", "end")
    a.readers[0].join(120)
    assert not a.readers[0].is_alive(), f"the program hangs: {a.text} {a.error_text}"
    right = a.lines[-1] in ("OK", "PASSED")
    # Only an OpenCL program needs its keeper, which starts proxies.
    assert right == (api == "cuda" or victim == "ckptd"), a.text + a.error_text
    assert right or "-2" in a.text + a.error_text


# ---- CRIU

KILLED_CRIU = 'trap "" TERM; $criu "$@" & until %s || ! kill -0 $!; do :; done; kill -9 $!; wait $!'
HUNG_CRIU = {"before": "sleep 1000",
             "seized": '$criu "$@" & until seized || ! kill -0 $!; do :; done; kill -STOP $!; wait $!',
             "infected": '$criu "$@" & until infected || ! kill -0 $!; do :; done; kill -STOP $!; wait $!'}


@pytest.mark.parametrize("moment", ["seized", "infected"])
@pytest.mark.parametrize("subject", [pytest.param("cuda", marks=pytest.mark.full), "ocl"], indirect=True)
def test_dump_and_killed_criu(subject, ckpt, moment):
    wrapper = criu_wrapper(ckpt, "dump", KILLED_CRIU % moment)
    for n in range(5):
        job = subject.start()
        if code := tool(ckpt, "ckpt-dump", job.pid, "-o", f"image{n}", **wrapper).wait(120):
            break
        assert job.wait() == 85  # the wrapper was so late that CRIU had ended
    assert code == 1
    subject.go()
    # While CRIU executes system calls in a process, its death kills that process (docs/LIMITS.md). The
    # wrapper may be late, so this can be so at either moment.
    if job.wait() != -signal.SIGTRAP:
        assert subject.outcome(job) == "right"
        assert job.wait() == 0
    clean(ckpt)


# A process that CRIU has started outlives it and holds its connection (CRIU 4.2 probes the kernel by one, which stops
# itself).
ORPHAN = """for a; do if [ "$dir_is_next" ]; then dir=$a; dir_is_next=; elif [ "$a" = -D ]; then dir_is_next=yes; fi; done
/usr/bin/python3 -c 'import os, signal, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1] + "/streamer-SOCKET.sock")
open(sys.argv[1] + "/connected", "w")
os.kill(os.getpid(), signal.SIGSTOP)' "$dir" &
until [ -e "$dir/connected" ]; do :; done
kill -KILL $$"""


def test_dump_after_a_killed_criu_has_left_a_process(ckpt):
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    process = tool(ckpt, "ckpt-dump", job.pid, "-o", "image", **criu_wrapper(ckpt, "dump", ORPHAN.replace("SOCKET", "capture")))
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 1 and "signal 9" in errors, errors
    assert not below(1, "streamer-capture")
    job.wait_lines(len(job.lines) + 3)
    clean_after_kill(ckpt, job)


def test_restore_after_a_killed_criu_has_left_a_process(ckpt):
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = ckpt.restore("image", env=criu_wrapper(ckpt, "restore", ORPHAN.replace("SOCKET", "serve")))
    assert copy.wait(100) == 1 and "signal 9" in copy.error_text
    assert not below(1, "streamer-serve")
    clean(ckpt)


# Waits for the main thread alone, as CRIU 4.2 does at some moments: wait4(2) then never returns.
HANGING_TRACER = """exec /usr/bin/python3 -c 'import ctypes, os, signal, sys
PTRACE_SEIZE, target = 0x4206, int(sys.argv[1])
ptrace = ctypes.CDLL(None).ptrace
for thread in os.listdir(f"/proc/{target}/task"):
    assert ptrace(PTRACE_SEIZE, int(thread), None, None) == 0
os.kill(target, signal.SIGKILL)
os.waitpid(target, 0x40000000)' $target"""


def test_a_program_is_killed_while_criu_traces_it(ckpt):
    job = ckpt.run("threads", 100000)
    job.wait_lines(3)
    process = tool(ckpt, "ckpt-dump", job.pid, "-o", "image", **criu_wrapper(ckpt, "dump", HANGING_TRACER))
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 1 and "CRIU does not end, and was killed" in errors, errors
    assert job.wait() == -signal.SIGKILL
    clean(ckpt)


@pytest.mark.parametrize("moment", [pytest.param(m, marks=pytest.mark.full) if m == "seized" else m for m in HUNG_CRIU])
@pytest.mark.parametrize("name", ["TERM", pytest.param("INT", marks=pytest.mark.full)])
def test_a_dump_with_hung_criu_is_cancelled(ckpt, moment, name):
    for n in range(5):
        job = ckpt.run("threads", 100000)
        job.wait_lines(3)
        process = tool(ckpt, "ckpt-dump", job.pid, "-o", f"image{n}", **criu_wrapper(ckpt, "dump", HUNG_CRIU[moment]))
        hangs = (lambda: below(process.pid, "criu-wrapper")) if moment == "before" else \
                (lambda: any(state(p) == "T" for p in tree_of(process.pid)))
        wait_for(lambda: hangs() or process.poll() is not None, "CRIU to hang")
        if process.poll() is None:
            break
        assert job.wait() == 85  # the wrapper was so late that CRIU had ended
    os.kill(process.pid, getattr(signal, "SIG" + name))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + getattr(signal, "SIG" + name) and "cancelled by signal" in errors
    job.wait_lines(len(job.lines) + 5)
    ckpt.dump(job.pid, "again")  # nothing of CRIU is in the way
    assert job.wait() == 85
    copy = ckpt.restore("again")
    copy.wait_lines(3)
    clean_after_kill(ckpt, copy)


def clean_after_kill(ckpt, job):
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == -signal.SIGTERM
    clean(ckpt)


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_restore_with_hung_criu_is_cancelled(ckpt, name):
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = ckpt.restore("image", env=criu_wrapper(ckpt, "restore", "sleep 1000"))
    wait_for(lambda: below(copy.pid, "sleep"), "CRIU")
    os.kill(copy.pid, getattr(signal, "SIG" + name))
    assert copy.wait() == 1
    assert "cancelled by signal" in copy.error_text
    wait_for(lambda: not below(1, str(ckpt.folder / "criu-wrapper")), "the end of CRIU")
    clean(ckpt)


# ---- ckpt-run ends when its program has ended

def test_a_program_killed_in_the_middle_of_a_dump(ckpt, devices):  # noqa: F811
    """As the OOM killer does. The parked proxy must not keep ckpt-run."""
    ocl = Programs(ckpt, *devices)
    job = ocl.start("objects")
    job.wait_text("READY")
    process = tool(ckpt, "ckpt-dump", job.pid, "-o", "image",
                   **criu_wrapper(ckpt, "dump", 'kill -9 $target; $criu "$@"'))
    assert process.wait(60) == 1
    assert job.wait() == -signal.SIGKILL
    clean(ckpt)


@parametrize("restored", [False, True], quick=1)
@pytest.mark.parametrize("also", ["", "ckpt-dump"])
def test_orphans_of_a_root_that_is_killed_during_a_dump_go_on(ckpt, also, restored):
    """CRIU has stopped the children, too."""
    log = ckpt.folder / "log"
    log.touch()

    def wait_for_a_line():
        lines = log.read_text().count("x")
        wait_for(lambda: log.read_text().count("x") > lines, "the child to write")

    job = ckpt.run("sh", "-c", "until [ -e finish ]; do sleep 0.1; echo x >>log; done & wait")
    wait_for_a_line()
    if restored:
        ckpt.dump(job.pid, "one")
        assert job.wait() == 85
        job = ckpt.restore("one")
        wait_for_a_line()
    root = job.program()
    process = tool(ckpt, "ckpt-dump", job.pid, "-o", "image", hold="record")
    assert held(process)
    os.kill(root, signal.SIGKILL)
    wait_for(lambda: state(root) in (None, "Z"), "the end of the root")  # its tracer is stopped
    if also:
        kill([process.pid])
    else:
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(60) == 1
    try:
        wait_for_a_line()
        assert job.wait() == -signal.SIGKILL
    finally:
        ckpt.finish()


@pytest.mark.parametrize("restored", [False, True])
def test_a_program_that_is_stopped_and_continued_by_its_pid(ckpt, restored):
    job = ckpt.run("counter", 400, 7)
    job.wait_lines(3)
    if restored:
        ckpt.dump(job.pid, "image")
        assert job.wait() == 85
        job = ckpt.restore("image")
        job.wait_lines(3)
    program = job.program()
    for _ in range(3):
        os.kill(program, signal.SIGSTOP)
        wait_for(lambda: state(job.pid) == "T", "the keeper to stop")
        os.kill(program, signal.SIGCONT)
        wait_for(lambda: state(job.pid) != "T", "the keeper to continue")
    ckpt.finish()
    assert job.wait() == 7


def test_a_program_that_is_killed_while_it_is_stopped(ckpt):
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    os.kill(job.program(), signal.SIGSTOP)
    wait_for(lambda: state(job.pid) == "T", "ckpt-run to stop")
    os.kill(job.program(), signal.SIGKILL)
    assert job.wait() == -signal.SIGKILL


def test_the_exit_code_survives_a_killed_stem(ckpt):
    job = ckpt.run("counter", 400, 7)
    job.wait_lines(3)
    ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = ckpt.restore("image")
    copy.wait_lines(3)
    kill(below(copy.pid, "--stem"))
    ckpt.finish()
    assert copy.wait() == 7


# ---- left-overs

def test_the_next_run_removes_what_a_killed_tool_has_left(ckpt):
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    r = ckpt.dump_process(job.pid, "one", env={"CKPT_TEST_STOP_AT": "record"})
    assert r.returncode == -signal.SIGKILL
    job.wait_lines(len(job.lines) + 3)
    other = ckpt.run("counter", 100000)
    other.wait_lines(3)
    kill([other.pid])
    other.process.wait()
    assert len(ckpt.partials()) == 1 and len(list(ckpt.runtime.iterdir())) == 2
    ckpt.dump(job.pid, "two", "--leave-running")  # another image in the same folder
    assert ckpt.partials() == []
    (session,) = ckpt.runtime.iterdir()
    ckpt.dump(job.pid, "three", "--leave-running")
    assert session.exists()


def test_clean_spares_what_is_in_use(ckpt):
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    process = tool(ckpt, "ckpt-dump", job.pid, "-o", "image", hold="record")
    assert held(process)
    before = sorted(p.name for p in ckpt.runtime.iterdir()) + ckpt.partials()
    foreign = ckpt.runtime / "ckpt-0-foreign"
    foreign.mkdir()
    (foreign / "data").touch()
    r = subprocess.run([ckpt.tool("ckpt-image"), "clean"], env=ckpt.env, cwd=ckpt.folder, capture_output=True, text=True)
    assert r.returncode == 0 and r.stdout == ""
    assert (foreign / "data").exists()
    assert sorted(p.name for p in ckpt.runtime.iterdir() if p != foreign) + ckpt.partials() == before
    os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode == 0 and job.wait() == 85
