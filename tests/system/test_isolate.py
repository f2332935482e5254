# SPDX-License-Identifier: Apache-2.0
"""`ckpt-run --isolate`: an ordinary user dumps and restores programs with TCP connections, and MPI jobs, without root
and without ckpt-helper."""
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import BUILD, Job, tree_of, wait_for
from hostile_user import criu_for_users  # noqa: F401
from rootless import UID, as_user, assert_is_users, refused, root, status, user  # noqa: F401 (fixtures)
from test_mpi import STEPS, check_end, mpi  # noqa: F401 (mpi is a fixture)
from test_opencl import OPENCL

NAMESPACES = subprocess.run([*as_user(), "unshare", "--user", "--map-current-user", "--net", "true"], capture_output=True)

pytestmark = [pytest.mark.skipif(NAMESPACES.returncode != 0, reason="users cannot make namespaces here"),
              pytest.mark.usefixtures("criu_for_users")]

# Two processes and a thread with connections; System V memory; a pseudo-terminal of its own.
PROGRAM = """
import os, pty, socket, sys, threading, time
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen(1)
a = socket.create_connection(listener.getsockname()); b, _ = listener.accept()
inner, outer = pty.openpty()
child = os.fork()
if child == 0:
    a.close()
    while data := b.recv(64):
        b.sendall(data)
    os._exit(0)
b.close()
print("ready", os.getpid(), flush=True)
for n in range(int(sys.argv[1])):
    a.sendall(b"%d" % n)
    assert a.recv(64) == b"%d" % n
    os.write(outer, b"x\\n"); assert os.read(inner, 16)
    open("count", "w").write(str(n))
    time.sleep(0.02)
a.close()
os.waitpid(child, 0)
print("end", n, flush=True)
"""


@pytest.fixture
def program(user):
    path = user.folder / "program.py"
    path.write_text(PROGRAM)

    def start(steps=10**9, *options):
        job = user.run("/usr/bin/python3", path, steps, options=["--isolate", *options])
        job.wait_lines(1)
        return job

    return start


def counts_on(user):
    (user.folder / "count").unlink(missing_ok=True)
    wait_for(lambda: (user.folder / "count").exists(), "the program's next step")


def test_a_user_dumps_and_restores_connections(user, program):
    """Three images in a row; a program that has no rights; its exit code and its output."""
    job = program(200)
    assert_is_users(job.program())
    at = job.pid
    for n in range(2):
        counts_on(user)
        user.dump(at, f"{n}.img")
        assert job.wait() == 85
        job = user.start("ckpt-restore", f"{n}.img")
        counts_on(user)
        at = job.pid
        assert_is_users(job.program())
    assert job.wait() == 0, job.error_text
    assert job.lines[-1] == "end 199"


def test_it_runs_on_after_a_dump(user, program):
    job = program(150)
    counts_on(user)
    user.dump(job.program(), "a.img", "--leave-running")
    assert job.wait() == 0, job.error_text
    restored = user.restore("a.img")
    counts_on(user)
    os.kill(restored, signal.SIGTERM)


def test_two_restores_run_at_the_same_time(user, program):
    """Each has PIDs, a network and terminals of its own."""
    job = program()
    user.dump(job.pid, "a.img")
    job.wait()
    first, second = user.restore("a.img"), user.restore("a.img")
    assert status(first)["NSpid"][-1] == status(second)["NSpid"][-1]
    for pid in (first, second):
        assert_is_users(pid)
        counts_on(user)
        os.kill(pid, signal.SIGKILL)


def test_checkpoints_of_its_keeper(user, program):
    """By --every, and at a signal with --image: ckpt-dump is started inside of the namespaces."""
    job = program(10**9, "--every", "1s", "--image-dir", str(user.folder))
    wait_for(lambda: list(user.folder.glob("*.img")), "an image")
    job.kill()
    counted = program(10**9, "--image", str(user.folder / "series"), "--on-signal", "TERM")
    counts_on(user)
    counted.process.send_signal(signal.SIGTERM)
    assert counted.wait() == 85, counted.error_text
    again = user.run("/usr/bin/python3", user.folder / "program.py", 10**9,
                     options=["--isolate", "--image", str(user.folder / "series")])
    counts_on(user)
    again.kill()


def test_its_network_is_its_own(user):
    script = "import socket; print(socket.if_nameindex())"
    job = user.run("/usr/bin/python3", "-c", script, options=["--isolate"])
    assert job.wait() == 0, job.error_text
    assert job.text.strip() == "[(1, 'lo')]"


def test_a_user_of_several_groups(user):
    """They cannot be mapped. The program keeps them, and so does a restore by the same user."""
    (user.folder / "shared").write_text("")
    os.chown(user.folder / "shared", 0, 100)
    (user.folder / "shared").chmod(0o664)
    script = ("import time\nfor n in range(10**9):\n"
              "    open('shared', 'w').write(str(n)); open('count', 'w').write(str(n)); time.sleep(0.02)")

    def start(*words):
        words = user.command(*words)
        words[words.index("--clear-groups")] = "--groups=100,20"
        user.jobs.append(Job(words, env=user.env, cwd=user.folder))
        return user.jobs[-1]

    job = start("ckpt-run", "--isolate", "--", "/usr/bin/python3", "-c", script)
    counts_on(user)
    dump = start("ckpt-dump", job.pid, "-o", "a.img")
    assert dump.wait() == 0, dump.error_text
    assert job.wait() == 85
    start("ckpt-restore", "a.img")
    counts_on(user)


def test_root_is_told_who_can_dump_and_restore_it(user, root, program):
    job = program()
    said = refused(root("ckpt-dump", job.pid, "-o", "a.img"))
    assert "isolated (ckpt-run --isolate)" in said and "runuser" in said
    user.dump(job.pid, "b.img")
    job.wait()
    said = refused(root("ckpt-restore", "--trust-image", "b.img"))
    assert "isolated (ckpt-run --isolate)" in said and "runuser" in said
    assert root("ckpt-run", "--isolate", "true").returncode == 125


def test_a_user_namespace_alone_is_refused(user):
    """Its network is the machine's, which a restore would take from the program."""
    words = user.command("ckpt-run", "--", "/bin/sleep", 1000)
    words[len(as_user()):0] = ["unshare", "--user", "--map-current-user"]
    job = Job(words, env=user.env, cwd=user.folder)
    user.jobs.append(job)
    wait_for(lambda: any(status(p)["Name"] == ["sleep"] for p in tree_of(job.pid)), "the program")
    assert "in another user namespace" in refused(user.tool("ckpt-dump", job.pid, "-o", "a.img"))


def test_another_user_cannot(user, program):
    job = program()
    other = subprocess.run([*as_user(UID + 1), *user.command("ckpt-dump", job.pid, "-o", "/tmp/other.img")[len(as_user()):]],
                           env=user.env, cwd="/", capture_output=True, text=True, timeout=60)
    assert other.returncode == 1
    counts_on(user)


def test_the_program_itself_gets_no_rights(user):
    """It has no capability, and a ckpt-dump that it starts gets none either."""
    script = ("import subprocess, os\n"
              "r = subprocess.run([os.environ['DUMP'], str(os.getpid())], capture_output=True, text=True)\n"
              "print(r.returncode, r.stderr)")
    user.env["DUMP"] = user.command("ckpt-dump")[-1]
    job = user.run("/usr/bin/python3", "-c", script, options=["--isolate"])
    assert job.wait() == 0, job.error_text
    assert job.lines[0].startswith("1 ") and "started by an isolated program" in job.text


def test_it_checkpoints_itself(user):
    image = user.folder / "self.img"
    job = user.run(BUILD / "examples" / "selfcheckpoint", 20, 10, image, options=["--isolate"])
    assert job.wait() == 0, job.error_text
    copy = user.start("ckpt-restore", str(image))
    assert copy.wait() == 0, copy.error_text


NAMELESS = {
    "memfd_create(2): x": "import mmap, os; f = os.memfd_create('x'); os.ftruncate(f, 4096); m = mmap.mmap(f, 4096)",
    "the unlinked file": "import mmap, os; f = os.open('u', os.O_RDWR | os.O_CREAT); os.unlink('u'); os.ftruncate(f, 4096); "
                         "m = mmap.mmap(f, 4096)",
    "System V shared memory": "import ctypes; c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p; "
                              "c.shmat(c.shmget(0, 4096, 0o1600), None, 0)"}


@pytest.mark.parametrize("what", NAMELESS)
def test_memory_that_criu_cannot_read_there_is_refused_by_name(user, what):
    job = user.run("/usr/bin/python3", "-c", NAMELESS[what] + "; print('ready', flush=True); input()", options=["--isolate"],
                   stdin=subprocess.PIPE)
    job.wait_lines(1)
    said = refused(user.tool("ckpt-dump", job.pid, "-o", "a.img"))
    assert what in said and "without --isolate" in said
    assert job.process.poll() is None


@pytest.mark.skipif(not (OPENCL / "ocl-objects").exists(), reason="OpenCL programs are not built")
def test_an_opencl_program(user):
    user.env["CKPT_TEST_GO"] = str(user.folder / "finish")
    job = user.run(OPENCL / "ocl-objects", options=["--isolate"])
    job.wait_lines(1)
    user.dump(job.pid, "a.img")
    assert job.wait() == 85
    (user.folder / "finish").touch()
    copy = user.start("ckpt-restore", "a.img")
    assert copy.wait() == 0, copy.error_text


@pytest.mark.alone
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_an_mpi_job_of_a_user(user, mpi):  # noqa: F811
    """On one node: dumped twice, and the ranks end with the right result."""
    mpirun, ranks = mpi
    copy = user.folder / "ranks"
    copy.write_bytes(pathlib.Path(ranks).read_bytes())
    copy.chmod(0o755)
    job = user.run(*mpirun, copy, STEPS, options=["--isolate"])
    job.wait_lines(3)
    user.dump(job.pid, "one.img")
    assert job.wait() == 85
    job = user.start("ckpt-restore", "one.img")
    job.wait_lines(2)
    user.dump(job.pid, "two.img")
    assert job.wait() == 85
    check_end(user.start("ckpt-restore", "two.img"))
