# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the system tests: the tools as a user runs them, on real programs, with real CRIU.

CKPT_BUILD names the build folder (default: build/ of the checkout). Nothing here measures time: every
wait is for a condition, and its deadline is far beyond what it takes and follows the machine's load.
"""
import contextlib
import faulthandler
import fcntl
import json
import os
import pathlib
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import zlib

import pytest

from deadline import Deadline, fair_share
from workers import make_once, shared_folder, turn

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CKPT_BUILD", ROOT / "build")).resolve()
# The software device behaves as NVIDIA's driver does where that is unkind (docs/SOFTCUDA.md).
os.environ.setdefault("CKPT_SOFTCUDA_STRICT", "1")
# Tests leave the history of this machine's dumps alone.
os.environ.setdefault("CKPT_HISTORY", "")
# A shell's background job (`./check &`, nohup) ignores SIGINT, and its programs inherit that; some tests send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
DEADLINE = 60


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="the long tier as well")
    parser.addoption("--sample", type=int, metavar="SEED", help="of the long tier a quarter, chosen by this number")
    parser.addoption("--test-limit", type=float, metavar="S", help="stop a test after S seconds of an idle machine")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: only with --full")
    config.addinivalue_line("markers", "alone: compares times, so that no other test may run beside it")
    config.addinivalue_line("markers", "no_criu: needs neither CRIU nor root nor the other tools")


def why_not():
    if os.geteuid() != 0:
        return "CRIU needs root"
    for tool in ("ckpt-run", "ckpt-dump", "ckpt-restore"):
        if not (BUILD / "tools" / tool).exists():
            return f"{BUILD}/tools/{tool} is not built"
    criu = os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"
    if not shutil.which(criu) and not shutil.which("criu"):
        return "there is no CRIU (scripts/setup installs it)"
    return None


def in_sample(item, seed):
    return seed is None or zlib.crc32(f"{seed} {item.nodeid}".encode()) % 4 == 0


def pytest_collection_modifyitems(config, items):
    reason = why_not()
    for item in items:
        full = item.get_closest_marker("full")  # not item.keywords, which has the ids of parameters, too
        if reason and not item.get_closest_marker("no_criu"):
            item.add_marker(pytest.mark.skip(reason=reason))
        elif full and not config.getoption("--full"):
            item.add_marker(pytest.mark.skip(reason="only with --full"))
        elif full and not in_sample(item, config.getoption("--sample")):
            item.add_marker(pytest.mark.skip(reason="not in this run's sample of the long tier"))


def has_own_namespace():
    """Whether this worker has a PID namespace of its own (scripts/suites/own-namespace)."""
    return "PYTEST_XDIST_WORKER" in os.environ and os.getppid() == 1


# In such a namespace: each process that has outlived a test, and the first such test.
OUTLIVED = {}


def note_what_outlives(test):
    if has_own_namespace():
        known = dict(OUTLIVED)
        OUTLIVED.clear()
        OUTLIVED.update({pid: known.get(pid, test) for pid in set(tree_of(1)) - {os.getpid()}})


def left_running():
    return [f"{command}(since {OUTLIVED.get(pid)})" for pid in tree_of(1) for command in commands_of([pid])]


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_running():
    """Holds where a worker has a PID namespace of its own, where the kernel ends what is left."""
    yield
    if has_own_namespace():
        wait_for(lambda: not left_running(), f"the end of {left_running()}", 10)


TEST_DEADLINE = pytest.StashKey()


@pytest.fixture(autouse=True)
def own_turn(request, tmp_path_factory):
    with turn(tmp_path_factory, request.node.get_closest_marker("alone") is not None):
        request.node.stash[TEST_DEADLINE] = Deadline(request.config.getoption("--test-limit") or 0)
        yield
        note_what_outlives(request.node.name)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Fails a test that hangs. Its limit counts from its turn."""
    limit = item.config.getoption("--test-limit")
    item.stash[TEST_DEADLINE] = Deadline((limit or 0) * 3)
    watch = contextlib.nullcontext()
    if limit:
        in_main = threading.current_thread() is threading.main_thread()
        watch = (interrupt_late if in_main else end_worker_late)(item, limit)
    with watch:
        yield


@contextlib.contextmanager
def interrupt_late(item, limit):
    def tick(signum, frame):
        if item.stash[TEST_DEADLINE].passed():
            signal.setitimer(signal.ITIMER_REAL, 0)
            pytest.fail(f"stopped after {limit:g} s of an idle machine")

    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def end_worker_late(item, limit):
    """A worker may run its tests in another thread than the main one, which no signal interrupts. So the
    worker ends, with all in its PID namespace; pytest-xdist reports the test and starts another one."""
    over = threading.Event()

    def watch():
        while not over.wait(1):
            if item.stash[TEST_DEADLINE].passed():
                print(f"{item.nodeid}: stopped after {limit:g} s of an idle machine", file=sys.__stderr__, flush=True)
                faulthandler.dump_traceback(sys.__stderr__)
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    yield
    over.set()


def wait_for(condition, what, deadline=DEADLINE):
    """`what` may be a function, so that the message has what is there at the end."""
    end = Deadline(deadline)
    while not end.passed():
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {deadline} s of an idle machine for {what() if callable(what) else what}")


def memory_share(pid):
    """In bytes; what processes share counts in parts (proc(5), Pss)."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("Pss:"))


def tree_of(pid):
    """All processes below pid, deepest last."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
                parents.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry))
            except OSError:
                pass
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def commands_of(pids):
    """The command lines of other processes than this one, without those that have ended."""
    commands = {}
    for pid in set(pids) - {os.getpid()}:
        try:
            commands[pid] = pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:100]
        except OSError:
            pass
    return [c for c in commands.values() if c]


def let_users_in(folder):
    """pytest keeps its temporary folders to their owner; a test that becomes another user needs a way through."""
    top = pathlib.Path(tempfile.gettempdir())
    assert top in folder.parents, f"{folder} is not below {top}"
    for f in (folder, *folder.parents[: folder.parents.index(top)]):
        f.chmod(0o755)


def send_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def process_exists(pid):
    return os.path.exists(f"/proc/{pid}")


def receive_exactly(socket, n):
    """n bytes from a stream socket; None: the other end hung up before."""
    data = b""
    while len(data) < n:
        piece = socket.recv(n - len(data))
        if not piece:
            return None
        data += piece
    return data


class Job:
    """A tool in the foreground (ckpt-run, ckpt-restore), started as by a shell.

    stdout is "pipe", "tty" (of `size`, rows and columns) or an open file. Output to a pipe or terminal is collected in .text and .lines,
    standard error in .error_text.

    wait()          waits for the end, and returns the exit code (negative: death by a signal)
    wait_lines(n)   waits until n lines were printed, and fails if the job ends before
    wait_text(t)    waits until t was printed, and fails if the job ends before
    type(t)         types on the terminal
    program()       the PID of the program's root, once it has been started
    kill()          kills the tool and all its descendants
    """

    def __init__(self, command, stdout="pipe", stdin=subprocess.DEVNULL, env=None, cwd=None, size=None):
        self.chunks = []
        self.master = None
        setup, out, err = None, stdout, None
        if stdout == "tty":
            self.master, slave = pty.openpty()
            if size:
                termios.tcsetwinsize(slave, size)
            stdin = out = err = slave

            def setup():
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        elif stdout == "pipe":
            out = subprocess.PIPE
        self.process = subprocess.Popen(
            [str(c) for c in command], stdin=stdin, stdout=out,
            stderr=err if stdout == "tty" else subprocess.PIPE if stdout == "pipe" else subprocess.DEVNULL,
            start_new_session=True, preexec_fn=setup, env=env, cwd=cwd)
        self.pid = self.process.pid
        self.errors = []
        self.readers = []
        if stdout == "tty":
            os.close(slave)
            self._read(self.master, self.chunks)
        elif stdout == "pipe":
            self._read(self.process.stdout.fileno(), self.chunks)
            self._read(self.process.stderr.fileno(), self.errors)

    def _read(self, fd, chunks):
        def loop():
            while True:
                try:
                    piece = os.read(fd, 65536)
                except OSError:
                    return
                if not piece:
                    return
                chunks.append(piece)

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        self.readers.append(thread)

    @property
    def text(self):
        return b"".join(self.chunks).decode(errors="replace").replace("\r\n", "\n")

    @property
    def error_text(self):
        return b"".join(self.errors).decode(errors="replace")

    @property
    def lines(self):
        return self.text.splitlines()

    def type(self, text):
        os.write(self.master, text.encode())

    def wait(self, deadline=DEADLINE):
        wait_for(lambda: self.process.poll() is not None, f"the end of {self.process.args}", deadline)
        code = self.process.returncode
        for thread in self.readers:
            thread.join(2 if self.master is None else 0.3)
        return code

    def wait_lines(self, n):
        wait_for(lambda: len(self.lines) >= n or self.process.poll() is not None,
                 lambda: f"{n} lines of {self.text!r}, beside {self.error_text!r}")
        assert len(self.lines) >= n, f"ended with {self.process.returncode}: {self.text!r} {self.error_text!r}"

    def wait_text(self, text):
        wait_for(lambda: text in self.text or self.process.poll() is not None,
                 lambda: f"{text!r} in {self.text!r}, beside {self.error_text!r}")
        assert text in self.text, f"ended with {self.process.returncode}: {self.text!r} {self.error_text!r}"

    def program(self):
        """The PID of the program's root."""
        helpers = ("ckpt-restore", "exe")

        def root():
            for pid in sorted(tree_of(self.pid)):
                try:
                    name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
                except OSError:
                    continue
                if name not in helpers and not name.startswith("ckpt-"):
                    return pid
            return None

        return wait_for(root, "the program's root")

    def kill(self):
        """All are stopped first, so that none of them starts another one meanwhile (CRIU in a restore)."""
        stopped = []
        while new := [p for p in [self.pid, *tree_of(self.pid)] if p not in stopped]:
            send_all(new, signal.SIGSTOP)
            stopped += new
        send_all(stopped, signal.SIGKILL)
        self.process.wait()
        if self.master is not None:
            os.close(self.master)


class Tools:
    """ckpt-run, ckpt-dump and ckpt-restore in one temporary folder.

    run(program, …)           ckpt-run with a program of tests/system/programs or of PATH; returns the Job
    restore(image, …)         ckpt-restore in the foreground; returns the Job
    restore_detached(image)   ckpt-restore --detach; returns the PID of the program
    dump(pid, image, …)       ckpt-dump --json, which must succeed; returns the report
    dump_refused(pid, image)  ckpt-dump, which must fail and leave no image; returns standard error
    finish()                  creates the file at which the test programs stop pausing
    partials()                the names of incomplete images in the folder
    """

    def __init__(self, folder, programs):
        self.folder = folder
        self.programs = programs
        self.jobs = []
        self.detached = []
        self.held = []  # tools that stop themselves at a step
        self.prefix = []  # of the commands of tools: setpriv, for another user than root
        # Not in `folder`: a socket's path has at most 107 bytes, and pytest's folders have long names.
        self.runtime = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-"))
        self.env = dict(os.environ, CKPT_RUNTIME_DIR=str(self.runtime))
        self.env.pop("CKPT_SESSION", None)

    def tool(self, name):
        return str(BUILD / "tools" / name)

    def start(self, tool, args, **streams):
        env = dict(self.env, **streams.pop("env", {}))
        job = Job([*self.prefix, self.tool(tool), *args], env=env, cwd=self.folder, **streams)
        self.jobs.append(job)
        return job

    def run(self, *command, options=(), **streams):
        """Starts a program under ckpt-run; a name of tests/system/programs stands for its executable."""
        command = [str(self.programs / c) if i == 0 and (self.programs / str(c)).exists() else c
                   for i, c in enumerate(command)]
        return self.start("ckpt-run", [*options, "--", *command], **streams)

    def start_shell(self, script):
        job = Job(["bash", "-c", script], env=self.env, cwd=self.folder)
        self.jobs.append(job)
        return job

    def restore(self, image, *options, **streams):
        return self.start("ckpt-restore", [*options, image], **streams)

    def restore_detached(self, image, *options):
        r = subprocess.run([*self.prefix, self.tool("ckpt-restore"), "--detach", *options, str(image)], env=self.env, cwd=self.folder,
                           capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE / fair_share())
        assert r.returncode == 0, r.stderr
        self.detached.append(int(r.stdout))
        return self.detached[-1]

    def dump_process(self, pid, image, *options, env=None):
        return subprocess.run([*self.prefix, self.tool("ckpt-dump"), str(pid), "-o", str(image), "--json", *options],
                              env=dict(self.env, **(env or {})), cwd=self.folder, capture_output=True, text=True,
                              timeout=DEADLINE / fair_share())

    def dump(self, pid, image, *options):
        r = self.dump_process(pid, image, *options)
        assert r.returncode == 0, r.stdout + r.stderr
        return json.loads(r.stdout)

    def dump_refused(self, pid, image, *options):
        r = self.dump_process(pid, image, *options)
        assert r.returncode != 0, r.stdout
        assert not (self.folder / image).exists()
        return r.stderr

    def finish(self):
        (self.folder / "finish").touch()

    def partials(self):
        return [p.name for p in self.folder.iterdir() if ".partial" in p.name]

    def close(self):
        for tool in self.held:
            tool.kill()
            tool.wait()
        for job in self.jobs:
            job.kill()
        for pid in self.detached:
            send_all([pid] + tree_of(pid), signal.SIGKILL)
        shutil.rmtree(self.runtime, ignore_errors=True)


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """tests/system/programs, compiled side by side."""
    folder = shared_folder(tmp_path_factory, "programs")

    def compile():
        compilers = []
        for source in sorted(PROGRAMS.glob("*.cc")):
            command = ["c++", "-std=c++20", "-O1", "-pthread", str(source), "-o", str(folder / source.stem)]
            if source.stem in ("library", "closes"):
                if not (BUILD / "libckpt" / "libckpt.so").exists():
                    continue
                command += [f"-I{ROOT}/include", f"-L{BUILD}/libckpt", "-lckpt", f"-Wl,-rpath,{BUILD}/libckpt"]
            compilers.append(subprocess.Popen(command))
        assert all(c.wait() == 0 for c in compilers)
        (folder / "compiled").touch()

    make_once(folder / "compiled", compile)
    return folder


@pytest.fixture
def ckpt(tmp_path, programs):
    tools = Tools(tmp_path, programs)
    yield tools
    tools.close()


def criu_with(ckpt, before_dump="true", after_dump="true", before_restore="true"):
    """The environment for a CRIU that runs shell commands before and after its work, in the folder `ckpt.folder`."""
    script = ckpt.folder / "criu"
    real = os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"
    script.write_text(f"""#!/bin/bash
in_folder() {{ (cd {ckpt.folder} && eval "$1"); }}
[ "$1" != dump ] || in_folder {shlex.quote(before_dump)} || exit
[ "$1" != restore ] || in_folder {shlex.quote(before_restore)} || exit
{real} "$@" || exit
[ "$1" != dump ] || in_folder {shlex.quote(after_dump)}
""")
    script.chmod(0o755)
    return {"CKPT_CRIU": str(script)}


class PidBlocker:
    """Occupies a PID, so that a restore finds it in use."""

    def __init__(self):
        self.children = []

    def take(self, pid):
        for _ in range(2000):
            pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
            child = os.fork()
            if child == 0:
                signal.pause()
                os._exit(0)
            if child == pid:
                self.children.append(child)
                return
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if process_exists(pid):
                return  # another process has it, which serves as well
        raise AssertionError(f"cannot take PID {pid}")

    def free(self):
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.children = []


@pytest.fixture
def blocker():
    b = PidBlocker()
    yield b
    b.free()


def image_manifest(image):
    """The output of ckpt-image show --json."""
    tool = BUILD / "tools" / "ckpt-image"
    if not tool.exists():
        tool = BUILD / "tools" / "image" / "ckpt-image"
    if not tool.exists():
        pytest.skip("ckpt-image is not built")
    r = subprocess.run([str(tool), "show", "--json", str(image)], capture_output=True, text=True, check=True)
    return json.loads(r.stdout)
