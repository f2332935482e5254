# SPDX-License-Identifier: Apache-2.0
"""CRIU's plugin: `criu dump` and `criu restore`, as a container engine calls them, of a process tree with programs of ckpt."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import BUILD, process_exists, send_all, tree_of, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from test_cuda import cuda  # noqa: F401 (a fixture)
from test_opencl import OPENCL, bed_environment, devices  # noqa: F401 (devices is a fixture)
from toolkit import WHY_NOT

PLUGINS = BUILD / "criu-plugin"
GUARD = BUILD / "tools" / "ckpt-criu-guard"
CRIU = os.environ.get("CKPT_CRIU") or shutil.which("/opt/ckpt/criu/bin/criu") or "criu"
RECORD, LOG = "ckpt-suspended.json", "ckpt-plugin.log"

pytestmark = pytest.mark.skipif(not (OPENCL / "ocl-objects").exists(), reason="the OpenCL programs are not built")
needs_cuda = pytest.mark.skipif(not NVCC or not RUN.exists(), reason=WHY_NOT)


def executable_name(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def arguments_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


class Tree:
    """A shell with programs below it, each with its output in files, and CRIU with the plugin on it.

    start("objects", tool, …)   adds a program, with its output in objects.out
    run()                       starts the shell
    dump(…), restore(…)         what CRIU returns; CRIU's log is in `log`"""

    def __init__(self, ckpt):
        self.ckpt = ckpt
        self.lines = []
        self.pid = 0
        self.process = None
        self.go = ckpt.folder / "go"
        ckpt.env["CKPT_TEST_GO"] = str(self.go)
        self.image = ckpt.folder / "image"

    def add(self, name, *command):
        self.lines.append(f"{' '.join(map(str, command))} >{name}.out 2>{name}.err &")

    def add_program(self, name, *command, options=("--share-ipc",)):
        self.add(name, self.ckpt.tool("ckpt-run"), *options, "--", *command)

    def run(self):
        script = self.ckpt.folder / "tree.sh"
        script.write_text("\n".join([*self.lines, "wait"]))
        with open(self.ckpt.folder / "tree.out", "w") as out:
            self.process = subprocess.Popen(["sh", script], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True, env=self.ckpt.env, cwd=self.ckpt.folder)
        self.pid = self.process.pid

    def text(self, name):
        files = [self.ckpt.folder / f"{name}.out", self.ckpt.folder / f"{name}.err"]
        return "".join(f.read_text() for f in files if f.exists())

    def wait_text(self, name, text):
        wait_for(lambda: text in self.text(name), f"{text!r} of {name}")

    def wait_more(self, name, steps, nudge):
        """nudge() lets the program make about one step."""
        wait_for(lambda: nudge() or self.text(name).count("step ") > steps, f"a further step of {name}: {self.plugin_log()}")

    def criu(self, verb, *options, **more):
        self.image.mkdir(exist_ok=True)
        libdir = more.pop("libdir", PLUGINS)
        env = dict(self.ckpt.env, **more.pop("env", {}))
        r = subprocess.run([CRIU, verb, "-D", self.image, "-v4", "-o", "criu.log", "--libdir", libdir, *map(str, options)],
                           env=env, cwd=self.ckpt.folder, stdin=subprocess.DEVNULL, timeout=200)
        self.log = (self.image / "criu.log").read_text(errors="replace")
        return r.returncode

    def dump(self, *options, pid=None, locks=("--file-locks",), **more):
        return self.criu("dump", "-t", pid or self.pid, *locks, *options, **more)

    def moved(self, *options):
        """Dumped and restored."""
        assert self.dump(*options) == 0, self.log[-2000:]
        self.gone()
        self.restore(*options)

    def gone(self):
        """All processes have ended, so that their PIDs are free."""
        if self.process:
            self.process.wait()
            self.process = None
        wait_for(lambda: not process_exists(self.pid), "the end of the tree")

    def restore(self, *options, **more):
        assert self.criu("restore", "-d", "--file-locks", *options, **more) == 0, self.log[-2000:]

    def states(self):
        r = subprocess.run([self.ckpt.tool("ckpt-ps"), "--json"], env=self.ckpt.env, capture_output=True, text=True, timeout=60)
        return sorted(p["state"] for p in json.loads(r.stdout))

    def wait_resumed(self, before=()):
        """The OpenCL program has a proxy again, another one than before."""
        try:
            wait_for(lambda: set(self.proxies()) - set(before), "a proxy")
        except AssertionError as e:
            raise AssertionError(f"{e}: {self.states()} {self.plugin_log()}") from None

    def proxies(self):
        return [p for p in tree_of(self.pid) if executable_name(p) == "ckpt-ocl-proxy"]

    def guards(self):
        return [p for p in tree_of(1) if executable_name(p) == GUARD.name and str(self.pid) in arguments_of(p)]

    def wait_no_guard(self):
        wait_for(lambda: not self.guards(), "the end of the guard")

    def plugin_log(self):
        return (self.image / LOG).read_text() if (self.image / LOG).exists() else ""

    def finish(self):
        """All programs end, and the shell with them."""
        self.go.touch()
        self.ckpt.finish()
        if self.process:
            self.process.wait()
        wait_for(lambda: not process_exists(self.pid), "the end of the tree")

    def close(self):
        send_all([*tree_of(self.pid), self.pid] if self.pid else [], signal.SIGKILL)
        if self.process:
            self.process.wait()


@pytest.fixture
def tree(ckpt, devices):  # noqa: F811
    ckpt.env.update(bed_environment())
    tree = Tree(ckpt)
    yield tree
    tree.close()


def with_objects(tree, *more, **options):
    """With an OpenCL program that checks its objects at its end."""
    tree.add_program("objects", *more, OPENCL / "ocl-objects", **options)
    tree.run()
    tree.wait_text("objects", "READY")


@needs_cuda
@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.full)])
def test_a_tree_is_dumped_and_restored(tree, cuda, rounds):  # noqa: F811
    """With an OpenCL program, a CUDA program and one without a device. The CUDA program computes between the rounds."""
    arguments = (2000 * rounds, 4096)  # steps, of which a round takes a few, or many on a busy machine
    expected = cuda.expected(*arguments)
    cuda.pause.touch()
    tree.add("counter", tree.ckpt.programs / "counter", 100000)
    tree.add_program("steps", cuda.make("steps.cu"), *arguments)
    with_objects(tree)
    tree.wait_text("steps", "step 1\n")
    for _ in range(rounds):
        done = tree.text("steps").count("step ")
        tree.moved()
        assert len(json.loads((tree.image / RECORD).read_text())["suspended"]) == 2
        tree.wait_more("steps", done, lambda: cuda.go_on() or time.sleep(0.003) or cuda.pause.touch())
        tree.wait_resumed()
        tree.wait_no_guard()
    cuda.go_on()
    tree.finish()
    assert tree.text("objects").splitlines()[-1] == "OK"
    assert [line for line in tree.text("steps").splitlines() if line in expected] == expected
    numbers = [int(line) for line in tree.text("counter").splitlines() if line.isdigit()]
    assert numbers == list(range(100000))
    assert tree.plugin_log() == ""


def test_a_tree_that_goes_on(tree):
    with_objects(tree)
    before = tree.proxies()
    assert tree.dump("--leave-running") == 0, tree.log[-2000:]
    tree.wait_resumed(before)
    tree.finish()
    assert tree.text("objects").splitlines()[-1] == "OK"


def test_a_tree_that_stays_stopped_is_resumed_when_it_goes_on(tree):
    with_objects(tree)
    assert tree.dump("--leave-stopped") == 0, tree.log[-2000:]
    assert not tree.proxies() and tree.guards()
    send_all([tree.pid, *tree_of(tree.pid)], signal.SIGCONT)
    tree.wait_resumed()
    tree.finish()
    assert tree.text("objects").splitlines()[-1] == "OK"


def test_a_dump_that_fails_after_the_suspend(tree):
    """Without --file-locks CRIU refuses the lock of the session."""
    with_objects(tree)
    before = tree.proxies()
    assert tree.dump(locks=()) != 0 and "file locks are hold" in tree.log
    tree.wait_resumed(before)
    tree.finish()
    assert tree.text("objects").splitlines()[-1] == "OK"


def test_criu_is_killed_after_the_suspend(tree):
    """By the first of its faults for tests (criu/include/fault-injection.h)."""
    with_objects(tree)
    before = tree.proxies()
    assert tree.dump(env={"CRIU_FAULT": "1"}) != 0
    assert "fault: CRIU sudden detach" in tree.log
    tree.wait_resumed(before)
    tree.finish()
    assert tree.text("objects").splitlines()[-1] == "OK"


def test_a_tree_without_programs_of_ckpt(tree):
    tree.add("counter", tree.ckpt.programs / "counter", 2000)
    tree.run()
    tree.wait_text("counter", "\n3\n")
    tree.image.mkdir()
    (tree.image / RECORD).write_text('{"suspended": [[1]]}')  # of an earlier dump
    for _ in range(5):
        assert tree.dump("--leave-running") == 0, tree.log[-2000:]
    tree.moved()
    assert 'Plugin "ckpt_plugin"' in tree.log and not (tree.image / RECORD).exists() and not (tree.image / LOG).exists()
    tree.finish()
    assert [int(n) for n in tree.text("counter").splitlines() if n.isdigit()] == list(range(2000))


def test_a_program_that_uses_no_device(tree):
    tree.add_program("counter", tree.ckpt.programs / "counter", 500)
    tree.run()
    tree.wait_text("counter", "\n3\n")
    tree.moved()
    assert not (tree.image / RECORD).exists()
    tree.finish()
    assert [int(n) for n in tree.text("counter").splitlines() if n.isdigit()] == list(range(500))


def test_what_a_user_has_suspended_stays_so(tree):
    with_objects(tree)
    keeper = next(p for p in tree_of(tree.pid) if executable_name(p) == "ckpt-run")

    def tool(*command):
        r = subprocess.run([tree.ckpt.tool(command[0]), *command[1:]], env=tree.ckpt.env, capture_output=True, text=True)
        assert r.returncode == 0, r.stderr

    tool("ckpt-dump", "--suspend", str(keeper))
    assert tree.dump("--leave-running") == 0, tree.log[-2000:]
    tree.wait_no_guard()
    assert not tree.proxies()
    tree.moved()
    tree.wait_no_guard()
    assert not (tree.image / RECORD).exists() and not tree.proxies()
    wait_for(lambda: tree.states() == ["suspended"], "what ckpt-ps says of a suspended program")
    tool("ckpt-restore", "--resume", str(keeper))
    tree.finish()
    assert tree.text("objects").splitlines()[-1] == "OK"


def test_the_time_that_criu_leaves(tree):
    """A kernel that runs on: the suspend is refused by name before CRIU's alarm, and the program goes on."""
    tree.add_program("long", OPENCL / "ocl-long_kernel", 8000000000)
    tree.run()
    tree.wait_text("long", "LAUNCHED")
    assert tree.dump("--timeout", 3) != 0
    assert "were not suspended within the" in tree.log and "raise `timeout` in CRIU's configuration" in tree.log
    assert "Timeout reached" not in tree.log
    assert tree.proxies()


@pytest.mark.parametrize("case", ["program", "ipc"])
def test_what_cannot_be_restored_is_refused_by_name(tree, case):
    with_objects(tree, options=() if case == "ipc" else ("--share-ipc",))
    before = tree.proxies()
    program = next(p for p in tree_of(tree.pid) if executable_name(p) == "ocl-objects")
    assert tree.dump(pid=program if case == "program" else None) != 0
    said = {"program": "is dumped without its ckpt-run", "ipc": "start the program with ckpt-run --share-ipc"}
    assert said[case] in tree.log and tree.proxies() == before
    tree.finish()
    assert tree.text("objects").splitlines()[-1] == "OK"


class Group:
    """A control group for the tree; version 2 where there is one."""

    def __init__(self, name):
        v1, v2 = pathlib.Path("/sys/fs/cgroup/freezer"), pathlib.Path("/sys/fs/cgroup")
        self.v1 = (v1 / "tasks").exists()
        if not self.v1 and not (v2 / "cgroup.procs").exists():
            pytest.skip("no freezer of control groups is mounted here")
        self.path = (v1 if self.v1 else v2) / name
        try:
            self.path.mkdir()
        except OSError as e:
            pytest.skip(f"no control group can be made: {e}")

    def take(self, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (self.path / "cgroup.procs").write_text(str(pid))

    def freeze(self, frozen):
        name, text = ("freezer.state", ("THAWED", "FROZEN")) if self.v1 else ("cgroup.freeze", "01")
        (self.path / name).write_text(text[frozen])

    def is_frozen(self):
        if self.v1:
            return (self.path / "freezer.state").read_text().strip() == "FROZEN"
        return "frozen 1" in (self.path / "cgroup.events").read_text()


@pytest.fixture
def group(tree):
    group = Group(f"ckpt-test-{os.getpid()}-{id(tree)}")
    yield group
    group.freeze(False)
    tree.close()
    wait_for(lambda: not (group.path / "cgroup.procs").read_text(), "an empty control group")
    group.path.rmdir()


@pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen"])
def test_the_freezer_of_an_engine(tree, group, frozen):
    """CRIU freezes the whole control group itself, or finds it frozen and leaves it so."""
    with_objects(tree)
    before = tree.proxies()
    group.take([tree.pid, *tree_of(tree.pid)])
    if frozen:
        group.freeze(True)
        wait_for(group.is_frozen, "the frozen group")
    assert tree.dump("--leave-running", "--freeze-cgroup", group.path) == 0, tree.log[-2000:]
    assert group.is_frozen() == frozen and (tree.image / RECORD).exists()
    if frozen:
        assert not tree.proxies()
        group.freeze(False)
    tree.wait_resumed(before)
    tree.finish()
    assert tree.text("objects").splitlines()[-1] == "OK"


class Guard:
    """ckpt-criu-guard, with this test as the plugin."""

    def __init__(self, tree, task, limit=0):
        tree.image.mkdir(exist_ok=True)
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = os.open(tree.image, os.O_RDONLY)

        def place():
            for wanted, fd in ((3, os.dup2(theirs.fileno(), 20)), (4, os.dup2(folder, 21))):
                os.dup2(fd, wanted)

        self.process = subprocess.Popen([GUARD, task, str(tree.pid), str(limit)], env=tree.ckpt.env, preexec_fn=place,
                                        close_fds=False, stdin=subprocess.DEVNULL)
        theirs.close()
        os.close(folder)

    def answer(self):
        return self.socket.recv(9000).decode()

    def ends(self):
        self.socket.close()
        return self.process.wait()


def test_a_device_that_is_used_after_the_suspend_is_found(tree):
    tree.add("second", "sh", "-c", f"'until [ -e second ]; do sleep 0.05; done; "
                                   f"exec {tree.ckpt.tool('ckpt-run')} --share-ipc -- {OPENCL / 'ocl-objects'}'")
    with_objects(tree)
    guard = Guard(tree, "dump")
    assert guard.answer() == "+"
    guard.socket.send(b"check")
    assert guard.answer() == "+"
    (tree.ckpt.folder / "second").touch()
    tree.wait_text("second", "READY")
    guard.socket.send(b"check")
    said = guard.answer()
    assert said.startswith("-programs use devices") and "ckpt-ring" in said
    assert guard.ends() == 0
    wait_for(lambda: len(tree.proxies()) == 2, "both proxies")
    tree.finish()
    assert tree.text("objects").splitlines()[-1] == "OK"


@pytest.mark.parametrize("record", ["", "{", "[]", '{"suspended": [[], [1.5], "x", [99999999999], [-1], {"a": 1}]}',
                                    '{"suspended": [[2, 3]]}', "[" * 5000])
def test_any_record_in_an_image(tree, record):
    with_objects(tree)
    tree.image.mkdir()
    (tree.image / RECORD).write_text(record)
    before = tree.proxies()
    assert Guard(tree, "restore").ends() == 0
    assert tree.proxies() == before and tree.plugin_log() == ""


def test_the_guard_says_who_starts_it():
    r = subprocess.run([GUARD], capture_output=True, text=True)
    assert r.returncode == 125 and "CRIU's plugin starts this program" in r.stderr
    assert subprocess.run([GUARD, "undo", "1", "0"], capture_output=True).returncode == 125


def test_the_configuration_names_the_folder(tree):
    """Installed beside the plugin, and read by CRIU."""
    text = (PLUGINS / "criu.conf").read_text()
    assert "\nfile-locks\n" in text and "\ntimeout 60\n" in text
    config = tree.ckpt.folder / "criu.conf"
    lines = [f"libdir {PLUGINS}" if line.startswith("libdir ") else line for line in text.splitlines()]
    config.write_text("\n".join(lines) + "\n")
    with_objects(tree)
    before = tree.proxies()
    tree.image.mkdir()
    r = subprocess.run([CRIU, "dump", "-t", str(tree.pid), "-D", tree.image, "--config", config, "-v4", "-o", "criu.log",
                        "--leave-running"], env=tree.ckpt.env)
    assert r.returncode == 0 and (tree.image / RECORD).exists()
    tree.wait_resumed(before)
    tree.finish()
