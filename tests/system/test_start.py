# SPDX-License-Identifier: Apache-2.0
"""Templates, and copies that ckpt-start starts from them at the same time."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

import rootless
from conftest import process_exists, tree_of, wait_for
from tiers import parametrize

PYTHON = "/usr/bin/python3"
HEAD = ("import mmap, multiprocessing, os, signal, socket, sys, tempfile, time\n"
        "from multiprocessing import shared_memory\n"
        "def wait():\n"
        "    os.write(1, b'ready\\n')  # at once: two processes may write at the same time\n"
        "    while not os.path.exists('finish'): time.sleep(0.02)\n")

# Each is what several copies would collide in, and says "right" after the start if it has all its own.
WORK = {
    "nothing": "wait(); print('right', os.getpid() == PID)",
    "lock": "l = multiprocessing.Lock(); v = multiprocessing.Value('i', 5); wait()\n"
            "with l: v.value += 1\n"
            "print('right', v.value == 6)",
    "child": "r, w = os.pipe()\n"
             "if os.fork() == 0:\n"
             "    wait(); os.write(w, b'x'); os._exit(0)\n"
             "wait(); print('right', os.read(r, 1) == b'x', os.wait()[1] == 0)",
    "temporary-file": "f = tempfile.TemporaryFile(); f.write(b'before'); f.flush(); wait()\n"
                      "f.write(str(os.getppid()).encode()); f.seek(0); print('right', f.read().startswith(b'before'))",
    "unlinked-file": "f = open('gone', 'w+b'); f.write(b'before'); f.flush(); os.unlink('gone'); wait()\n"
                     "f.seek(0); time.sleep(0.2); print('right', f.read() == b'before', not os.path.exists('gone'))",
    "unlinked-folder": "os.mkdir('d'); f = open('d/gone', 'w+b'); f.write(b'before'); f.flush(); os.unlink('d/gone')\n"
                       "os.rmdir('d'); wait(); f.seek(0); print('right', f.read() == b'before')",
    "other-name": "f = open('one', 'w+b'); f.write(b'before'); f.flush(); os.link('one', 'two'); os.unlink('one')\n"
                  "f.close(); f = open('two', 'rb'); os.link('two', 'three'); os.unlink('two'); wait()\n"
                  "print('right', f.read() == b'before')",
    "shared-memory": "m = shared_memory.SharedMemory(create=True, size=4096, name='ckpt-warm'); m.buf[0] = 1; wait()\n"
                     "m.buf[0] += 1; time.sleep(0.5); print('right', m.buf[0] == 2); m.unlink()",
    "mapped-memory": "m = mmap.mmap(-1, 1 << 20); m[0] = 1\n"
                     "if os.fork() == 0:\n"
                     "    wait(); m[0] = 7; os._exit(0)\n"
                     "wait(); os.wait(); print('right', m[0] == 7)",
    "tcp": "l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
           "l.bind(('127.0.0.1', PORT)); l.listen(); wait()\n"
           "c = socket.create_connection(l.getsockname()); a = l.accept()[0]; c.sendall(b'x')\n"
           "print('right', a.recv(1) == b'x', l.getsockname()[1])",
    "udp6": "u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.bind(('::1', PORT)); wait()\n"
            "c = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); c.sendto(b'x', u.getsockname())\n"
            "print('right', u.recv(1) == b'x', u.getsockname()[1])",
    "unix": "l = socket.socket(socket.AF_UNIX); l.bind('PATH'); l.listen(); wait()\n"
            "c = socket.socket(socket.AF_UNIX); c.connect(l.getsockname()); a = l.accept()[0]; c.sendall(b'x')\n"
            "print('right', a.recv(1) == b'x', l.getsockname())",
    "abstract": "l = socket.socket(socket.AF_UNIX); l.bind('\\0NAME'); l.listen(); wait()\n"
                "c = socket.socket(socket.AF_UNIX); c.connect(l.getsockname()); a = l.accept()[0]; c.sendall(b'x')\n"
                "print('right', a.recv(1) == b'x', l.getsockname())",
}
COPIES = 4


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Ground:
    """Starts a Python program under ckpt-run, makes a template of it, and starts copies."""

    def __init__(self, ckpt):
        self.ckpt = ckpt
        self.port = free_port()
        self.path = str(ckpt.runtime / "server.sock")
        self.name = f"ckpt-{os.getpid()}"

    def program(self, body, **streams):
        text = HEAD + body.replace("PORT", str(self.port)).replace("PATH", self.path).replace("NAME", self.name)
        job = self.ckpt.run(PYTHON, "-c", text.replace("PID", "os.getpid()"), **streams)
        if streams.get("stdout") is None:
            job.wait_text("ready" if "fork" not in body else "ready\nready")
        return job

    def template(self, body, *options, image="img"):
        job = self.program(body)
        report = self.ckpt.dump(job.pid, image, "--template", *options)
        assert job.wait() == 85
        return report

    def listen(self, *extra):
        first = 20000 + self.port % 10000
        return [f"--listen={self.port}={first}-{first + COPIES - 1}", *extra]

    def start(self, *options, image="img", copies=COPIES):
        return self.ckpt.start("ckpt-start", [image, "-n", str(copies), *options])

    def running(self, job, copies=COPIES):
        """The PIDs of all copies, once they run."""
        job.wait_lines(copies)
        return [int(re.search(r"PID (\d+)", line)[1]) for line in job.lines]

    def finish(self, job, copies=COPIES):
        """What each copy has written when it has ended with 0."""
        self.running(job, copies)
        self.ckpt.finish()
        assert job.wait() == 0, job.text + job.error_text + str(self.outputs())
        assert job.text.count("ended with exit code 0") == copies, job.text
        return self.outputs()

    def outputs(self):
        return {p.name: p.read_text() for p in sorted(pathlib.Path(self.ckpt.folder).glob("copy-*.out"))}

    def left_over(self):
            return [p for p in os.listdir(self.ckpt.runtime) if p.startswith("ckpt-")]


@pytest.fixture
def ground(ckpt):
    return Ground(ckpt)


LISTEN = {"tcp": "ip", "udp6": "ip", "unix": "--listen=PATH=PATH-%n", "abstract": "--listen=@NAME=@NAME-%n"}


def options_for(ground, case):
    wanted = LISTEN.get(case)
    if wanted == "ip":
        return ground.listen()
    return [wanted.replace("PATH", ground.path).replace("NAME", ground.name)] if wanted else []


@parametrize("case", WORK, quick=5)
def test_four_copies_run_at_once(ground, case):
    ground.template(WORK[case])
    outputs = ground.finish(ground.start(*options_for(ground, case)))
    assert len(outputs) == COPIES
    for text in outputs.values():
        assert "right True" in text and "False" not in text, outputs
    if case in LISTEN:
        assert len(set(outputs.values())) == COPIES, outputs
    wait_for(lambda: not ground.left_over(), f"the end of {ground.left_over()}")


def test_copies_and_the_original_can_be_beside_each_other(ground):
    job = ground.program("wait(); print('right', True)")
    ground.ckpt.dump(job.pid, "img", "--template", "--leave-running")
    outputs = ground.finish(ground.start(copies=2), copies=2)
    assert all("right True" in text for text in outputs.values()) and len(outputs) == 2
    assert job.wait() == 0 and "right True" in job.text


def test_a_copy_can_be_dumped_and_started_again(ground):
    ground.template(WORK["lock"] + "; f = open('generation', 'a'); f.write('x')")
    job = ground.start(copies=2)
    pids = ground.running(job, 2)
    ground.ckpt.dump(pids[1], "second", "--template")
    os.kill(job.pid, signal.SIGTERM)  # ends the other one
    assert job.wait() == 1
    again = ground.start(image="second")
    ground.finish(again)
    assert (ground.ckpt.folder / "generation").read_text() == "x" * COPIES


REFUSED = {
    "tcp": ("TCP 127.0.0.1 port", "--listen"),
    "udp6": ("UDP ::1 port", "--listen"),
    "unix": ("the UNIX socket", "--listen"),
    "abstract": ("the UNIX socket @", "--listen"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_copies_that_would_share_an_address_are_refused_before_anything_starts(ground, case):
    ground.template(WORK[case])
    job = ground.start()
    assert job.wait() == 1
    assert all(part in job.error_text for part in (*REFUSED[case], "nothing was started")), job.error_text
    assert not ground.outputs()
    # One copy can have the program's own.
    assert len(ground.finish(ground.start(copies=1), copies=1)) == 1


def test_a_range_of_ports_that_is_too_short_is_refused(ground):
    ground.template(WORK["tcp"])
    job = ground.start(f"--listen={ground.port}=9001-9003")
    assert job.wait() == 1 and "has 3 ports for 4 copies" in job.error_text
    job = ground.start("--listen=1=9001-9004", f"--listen={ground.port}=9001-9004")
    assert job.wait() == 1 and "--listen 1=9001-9004: the program has no such address" in job.error_text


def test_an_address_that_is_in_use_is_refused(ground):
    ground.template(WORK["tcp"])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        job = ground.start(f"--listen={ground.port}={taken.getsockname()[1]}", copies=1)
        assert job.wait() == 1 and "is not available here" in job.error_text


def test_a_path_that_is_in_use_is_left_alone(ground):
    ground.template(WORK["unix"])
    taken = pathlib.Path(ground.path + "-1")
    taken.write_text("mine")
    job = ground.start(f"--listen={ground.path}={ground.path}-%n", copies=2)
    assert job.wait() == 1 and f"{taken} is in use here" in job.error_text
    assert taken.read_text() == "mine"


SHARED = {
    "written-file": ("f = open('written', 'r+'); wait()", "written open for writing"),
    "written-mapping": ("f = open('written', 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close(); wait()",
                        "written open for writing"),
    "lock": ("import fcntl; f = open('written'); fcntl.flock(f, fcntl.LOCK_EX); wait()", "has locked"),
}


@pytest.mark.parametrize("case", SHARED)
def test_files_that_copies_cannot_share_are_named(ground, case):
    (ground.ckpt.folder / "written").write_text("x" * 4096)
    body, said = SHARED[case]
    report = ground.template(body)
    assert any(said in remark for remark in report["remarks"]), report["remarks"]
    job = ground.start()
    assert job.wait() == 1 and said in job.error_text and not ground.outputs()
    if case != "lock":
        assert len(ground.finish(ground.start("--share-files"))) == COPIES
    else:
        assert len(ground.finish(ground.start(copies=1), copies=1)) == 1


def test_output_to_a_file_becomes_each_copy_s_own(ground):
    with open(ground.ckpt.folder / "log", "w") as log:
        job = ground.program("wait(); print('right', os.getppid())", stdout=log)
    log = ground.ckpt.folder / "log"
    wait_for(lambda: "ready" in log.read_text(), "the program")
    ground.ckpt.dump(job.pid, "img", "--template")
    before = log.read_text()
    outputs = ground.finish(ground.start())
    assert log.read_text() == before
    assert all("right" in text for text in outputs.values()) and len(outputs) == COPIES


CONNECTION = ("l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen()\n"
              "c = socket.create_connection(l.getsockname()); a = l.accept()[0]; l.close()\n"
              "signal.signal(signal.SIGPIPE, signal.SIG_IGN); wait()\n"
              "got = c.recv(1)\n"
              "try: c.send(b'x'); c.send(b'x'); sent = 'sent'\n"
              "except OSError as e: sent = type(e).__name__\n"
              "print('got', got, sent)")


def test_a_connection_is_refused_or_closed(ground):
    job = ground.program(CONNECTION)
    said = ground.ckpt.dump_refused(job.pid, "img", "--template")
    assert "TCP connection" in said and "--tcp-close" in said
    ground.ckpt.dump(job.pid, "img", "--template", "--tcp-close")
    outputs = ground.finish(ground.start())
    assert len(outputs) == COPIES
    for text in outputs.values():
        assert "got b'' BrokenPipeError" in text, outputs


def test_what_is_no_template_is_refused(ground):
    job = ground.program("wait()")
    ground.ckpt.dump(job.pid, "img")
    job = ground.start()
    assert job.wait() == 1 and "is not a template" in job.error_text


def test_the_report_has_each_copy(ground):
    ground.template("wait(); sys.exit(3 if os.path.exists('/proc/1/none') else 0)")
    ground.ckpt.finish()
    job = ground.start("--json", copies=2)
    assert job.wait() == 0, job.error_text
    copies = json.loads(job.text)["copies"]
    assert [c["copy"] for c in copies] == [1, 2] and all(c["exit_code"] == 0 and c["pid"] > 0 for c in copies)


def test_one_copy_ends_as_its_program(ground):
    ground.template("wait(); sys.exit(7)")
    ground.ckpt.finish()
    assert ground.start(copies=1).wait() == 7
    assert ground.start(copies=2).wait() == 1


def test_copies_in_the_background_live_on(ground):
    ground.template("wait(); print('right')")
    job = ground.start("--detach", copies=2)
    assert job.wait() == 0, job.error_text
    pids = [int(re.search(r"PID (\d+)", line)[1]) for line in job.lines]
    assert len(pids) == 2 and all(process_exists(p) for p in pids)
    ground.ckpt.finish()
    wait_for(lambda: not any(process_exists(p) for p in pids), "the end of the copies")
    assert all("right" in text for text in ground.outputs().values())
    wait_for(lambda: not ground.left_over(), f"the end of {ground.left_over()}")


def test_each_copy_has_its_host_name(ground):
    ground.template("wait(); print('right', socket.gethostname())")
    outputs = ground.finish(ground.start("--hostname=node-%n", copies=2), 2)
    assert [text.split()[-1] for text in outputs.values()] == ["node-1", "node-2"]


def test_another_user_s_template_is_refused(ckpt):
    """Also to the user, for whom nobody makes the namespaces."""
    user = rootless.User()
    try:
        job = user.run(PYTHON, "-c", "import time; print('ready', flush=True); time.sleep(1000)")
        job.wait_text("ready")
        ckpt.dump(job.pid, user.folder / "img", "--template")
        started = subprocess.run([ckpt.tool("ckpt-start"), "--trust-image", user.folder / "img"], env=ckpt.env, cwd=ckpt.folder,
                                 capture_output=True, text=True, timeout=90)
        assert started.returncode == 1 and "copies can be started of root's programs only" in started.stderr
        started = user.tool("ckpt-start", "img")
        assert started.returncode == 1 and "only root can start copies" in started.stderr
    finally:
        user.close()


def ours(ground, before):
    return [p for p in set(tree_of(1)) - before if str(ground.ckpt.folder) in cwd_of(p)]


def cleaned(ground):
    """The next tool removes the folders of killed ones; a process that is ending has no folder to be found by, but may still
    hold one."""
    subprocess.run([ground.ckpt.tool("ckpt-image"), "clean"], env=ground.ckpt.env, check=True, capture_output=True)
    return not ground.left_over()


def check_nothing_is_left(ground, before, shared_memory):
    wait_for(lambda: not ours(ground, before), f"the end of {ours(ground, before)}")
    wait_for(lambda: cleaned(ground), "an end of the folders of killed tools")
    assert set(os.listdir("/dev/shm")) <= shared_memory  # each copy has its own
    assert not list(ground.ckpt.folder.glob("*.ckpt-*"))
    assert len(ground.finish(ground.start())) == COPIES


KILLED = "f = open('gone', 'w+b'); os.unlink('gone'); " + WORK["lock"]


# Those of ckpt-start itself, then those of each copy's keeper. Later, the program runs on, as after a
# kill of ckpt-restore.
@parametrize("step", ["check", "start", "wait", "copy", "session", "criu"], quick=3)
def test_a_killed_start_leaves_nothing(ground, step):
    ground.template(KILLED)
    before, shared_memory = set(tree_of(1)), set(os.listdir("/dev/shm"))
    job = ground.ckpt.start("ckpt-start", ["img", "-n", "3", "--output", "out-%n"], env={"CKPT_TEST_STOP_AT": step})
    job.wait()
    check_nothing_is_left(ground, before, shared_memory)


@pytest.mark.parametrize("step", ["copy", "session", "criu", "devices"])
def test_copies_end_if_the_start_is_killed(ground, step):
    ground.template(KILLED)
    before, shared_memory = set(tree_of(1)), set(os.listdir("/dev/shm"))
    job = ground.ckpt.start("ckpt-start", ["img", "-n", "3", "--output", "out-%n"], env={"CKPT_TEST_HOLD_AT": step})
    held = lambda: [p for p in tree_of(job.pid) if state_of(p) == "T" and name_of(p) == "ckpt-start"]
    wait_for(lambda: len(held()) == 3, "the keepers")
    keepers = held()
    os.kill(job.pid, signal.SIGKILL)
    wait_for(lambda: job.process.poll() is not None, "the end of ckpt-start")
    for pid in keepers:
        os.kill(pid, signal.SIGCONT)
    check_nothing_is_left(ground, before, shared_memory)


def state_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def name_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def cwd_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""
