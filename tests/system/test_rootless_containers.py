# SPDX-License-Identifier: Apache-2.0
"""Root of a user namespace, as in rootless containers, dumps and restores programs there. For the machine it is a user."""
import os
import shutil
import subprocess

import pytest

from conftest import BUILD, Job, wait_for
from hostile_user import criu_for_users  # noqa: F401
from rootless import UID, as_user, refused, root, user  # noqa: F401 (fixtures)
from test_isolate import NAMELESS, PROGRAM
from test_opencl import OPENCL, bed_environment

ROOT = ["unshare", "--user", "--map-root-user", "--mount"]
PIDS = ["--pid", "--fork", "--kill-child", "--mount-proc"]
CONTAINER = [*ROOT, *PIDS, "--net", "--ipc", "--uts"]
# The rights that docs/PROCESSES.md lists for containers, and those that Podman gives by itself.
RIGHTS = ["checkpoint_restore", "sys_ptrace", "sys_admin", "net_admin", "sys_time"]
PODMANS = ["chown", "dac_override", "fowner", "fsetid", "kill", "net_bind_service", "setfcap", "setgid", "setpcap", "setuid",
           "sys_chroot"]
NAMESPACES = subprocess.run([*as_user(), *CONTAINER, "true"], capture_output=True)

pytestmark = [pytest.mark.skipif(NAMESPACES.returncode != 0, reason="users cannot make namespaces here"),
              pytest.mark.usefixtures("criu_for_users")]

# Starts the program, and dumps and restores it twice; the second copy runs to its end.
TWICE = """
goes_on() { rm -f count; for i in $(seq 600); do [ ! -e count ] || return 0; sleep 0.1; done; cat errors; exit 9; }
ckpt-run -- $PROGRAM </dev/null >log 2>errors &
goes_on
for image in one two; do
  ckpt-dump $! -o $image || exit 1
  wait $!; [ $? = 85 ] || exit 2
  ckpt-restore $image </dev/null >>log 2>>errors &
  goes_on
done
touch finish
wait $! || { cat errors; exit 3; }
cat log
"""
COUNTER = """
import os, pathlib, time
n = 0
while not pathlib.Path("finish").exists():
    n += 1
    pathlib.Path("count").write_text(str(n))
    time.sleep(0.02)
print("end", flush=True)
"""


@pytest.fixture
def container(user):
    """Runs a script as the first process of a container, and returns its exit code and what it said."""
    user.env.update(bed_environment(), CKPT_HISTORY="", LANG="C.UTF-8")
    user.env["PATH"] = f"{BUILD}/tools:{user.env['PATH']}"

    def run(script, program="", namespaces=CONTAINER, before=()):
        # No file of the outer mount namespace stays open.
        inner = f"exec </dev/null; ip link set lo up 2>/dev/null; {script}"
        env = {**user.env, "PROGRAM": str(program)}
        job = Job([*as_user(), *namespaces, *before, "bash", "-c", f"{{ {inner}\n}} 2>&1 | cat"], env=env, cwd=user.folder)
        user.jobs.append(job)
        job.process.wait(timeout=180)
        return job.process.returncode, job.text

    return run


def python(user, text):
    path = user.folder / "program.py"
    path.write_text(text)
    return f"/usr/bin/python3 {path}"


@pytest.mark.parametrize("namespaces", [CONTAINER, [*ROOT, "--net"]], ids=["container", "pids-of-the-machine"])
def test_connections_terminals_and_children(user, container, namespaces):
    _, said = container(TWICE, python(user, PROGRAM) + " 400", namespaces)
    assert "end 399" in said, said


def test_with_the_rights_that_the_documents_name_and_no_others(user, container):
    kept = ",".join(["-all", *(f"+{right}" for right in RIGHTS + PODMANS)])
    _, said = container(TWICE, python(user, PROGRAM) + " 400", before=["setpriv", f"--bounding-set={kept}", f"--inh-caps={kept}"])
    assert "end 399" in said, said


def test_without_one_of_these_rights_it_is_refused_by_name(user, container):
    kept = ",".join(["-all", *(f"+{right}" for right in RIGHTS + PODMANS if right != "sys_admin")])
    _, said = container(TWICE, python(user, COUNTER), before=["setpriv", f"--bounding-set={kept}", f"--inh-caps={kept}"])
    assert "root lacks CAP_SYS_ADMIN" in said, said


@pytest.mark.parametrize("text, why", [(COUNTER, ""), (PROGRAM, "their packets must be stopped during a dump")],
                         ids=["without-connections", "with-connections"])
def test_in_the_network_of_the_machine(user, container, text, why):
    _, said = container(TWICE, python(user, text) + " 400", [*ROOT, *PIDS])
    assert (why or "end\n") in said, said


@pytest.mark.skipif(not (OPENCL / "ocl-objects").exists(), reason="OpenCL programs are not built")
def test_an_opencl_program(user, container):
    user.env["CKPT_TEST_GO"] = "finish"
    _, said = container("""
      ckpt-run -- $PROGRAM </dev/null >log 2>errors &
      until [ -s log ]; do sleep 0.1; done
      ckpt-dump $! -o one || exit 1
      touch finish
      ckpt-restore --append-files one </dev/null >>log 2>again && echo restored || cat again""", OPENCL / "ocl-objects")
    assert "restored" in said, said


@pytest.mark.parametrize("what", NAMELESS)
def test_memory_that_criu_cannot_read_there_is_refused_by_name(user, container, what):
    program = python(user, NAMELESS[what] + "\nprint('ready', flush=True)\nimport time; time.sleep(1000)")
    _, said = container("""
      ckpt-run -- $PROGRAM </dev/null >log 2>errors & until [ -s log ]; do sleep 0.1; done
      ckpt-dump $! -o one; kill -KILL $!""", program)
    assert what in said and "outside of the rootless container" in said, said


def test_its_image_belongs_to_root_of_such_a_namespace(user, root, container):
    """To the machine's root and to the user outside, uid 0 of the image is another user."""
    _, said = container("ckpt-run -- $PROGRAM </dev/null >log 2>errors & until [ -e count ]; do sleep 0.1; done; "
                        "ckpt-dump $! -o one", python(user, COUNTER))
    assert (user.folder / "one").is_dir(), said
    assert "root of a user namespace" in refused(root("ckpt-restore", "--trust-image", "one"))
    assert "belongs to uid 0" in refused(user.tool("ckpt-restore", "one"))


def test_an_image_of_the_machines_root_is_refused_in_it(user, root, container):
    job = Job([str(BUILD / "tools" / "ckpt-run"), *python(user, COUNTER).split()], env=user.env, cwd=user.folder)
    user.jobs.append(job)
    wait_for((user.folder / "count").exists, "the program")
    assert root("ckpt-dump", job.pid, "-o", "one").returncode == 0
    for path in [user.folder / "one", *(user.folder / "one").rglob("*")]:
        os.chown(path, UID, UID)
    _, said = container("ckpt-restore one")
    assert "restore it outside of this container" in said, said


@pytest.mark.full
@pytest.mark.skipif(not (shutil.which("podman") and shutil.which("runc")), reason="no podman, or no runc")
def test_a_container_of_rootless_podman(user):
    """Its root folder is the machine's, except for /tmp. Without an entry for this uid in /etc/subuid one uid is mapped."""
    inside, files, store = (user.folder / name for name in ("root", "files", "store"))
    for folder in (inside, files, store):
        folder.mkdir()
    for name in ("usr", "lib", "lib64", "bin", "opt", "proc", "sys", "dev", "etc", "tmp", "run", "root", "files"):
        (inside / name).mkdir()
    (files / "program.py").write_text(PROGRAM)
    (files / "script").write_text(f"cd /files; exec </dev/null; export CKPT_HISTORY= CKPT_RUNTIME_DIR=/files\n{TWICE}")
    for folder, names, _ in os.walk(user.folder):
        for path in [folder, *(os.path.join(folder, n) for n in names)]:
            os.chown(path, UID, UID)
    readable = [f"-v={path}:{path}:ro" for path in ("/usr", "/lib", "/lib64", "/bin", "/opt", str(BUILD))]
    rights = [f"--cap-add={right.upper()}" for right in RIGHTS]
    # In a PID namespace, with which Podman's own process ends that holds the user namespace.
    words = ["unshare", *PIDS, *as_user(), "podman", "--root", str(store), "--runroot", str(user.folder / "run"), "--storage-driver=vfs",
             "--cgroup-manager=cgroupfs", "--events-backend=file", f"--runtime={shutil.which('runc')}", "run", "--rm",
             "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000", *readable, f"-v={files}:/files",
             *rights, "--security-opt=seccomp=unconfined", f"--env=PATH={BUILD}/tools:/usr/bin:/bin",
             "--env=PROGRAM=python3 program.py 400", "--rootfs", str(inside), "bash", "/files/script"]
    env = {**user.env, "XDG_RUNTIME_DIR": str(user.folder), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    r = subprocess.run(words, env=env, cwd=user.folder, capture_output=True, text=True, timeout=200)
    assert "end 399" in r.stdout, r.stdout + r.stderr
