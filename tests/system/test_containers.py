# SPDX-License-Identifier: Apache-2.0
"""Programs in namespaces of their own, as in a container, dumped and suspended from outside."""
import os
import subprocess
import sys

import pytest

from conftest import BUILD, tree_of, wait_for
from test_opencl import HEAT, bed_environment

STEPS = 500
PID = ["--pid", "--fork", "--kill-child", "--mount-proc"]
EVERYTHING = [*PID, "--net", "--uts", "--ipc", "--cgroup"]
HIDE = 'mount -t tmpfs tmpfs "$CKPT_RUNTIME_DIR"'  # nothing outside sees the session's folder


def executable_name(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


class Container:
    """ckpt-run in new namespaces; `keeper` is its PID out here."""

    def __init__(self, ckpt, namespaces, script, *command, **streams):
        inner = f"{script}\nexec {ckpt.tool('ckpt-run')} -- {' '.join(map(str, command))}"
        self.job = ckpt.start("unshare", [*namespaces, "sh", "-ec", inner], **streams)
        below = [self.job.pid]
        self.keeper = wait_for(lambda: [p for p in below + tree_of(self.job.pid) if executable_name(p) == "ckpt-run"] or
                               (self.job.process.poll() is not None and [0]), "ckpt-run")[0]
        assert self.keeper, self.job.error_text

    def finish(self, ckpt):
        ckpt.finish()
        self.job.wait()


@pytest.fixture
def tools(ckpt, monkeypatch):
    """`ckpt`, which also starts programs that are not tools of ckpt."""
    monkeypatch.setattr(ckpt, "tool", lambda name: str(BUILD / "tools" / name) if name.startswith("ckpt") else name)
    return ckpt


def complete(lines, code=0):
    numbers = [int(line) for line in lines if line.isdigit()]
    assert numbers == list(range(STEPS)), lines


@pytest.mark.parametrize("namespaces, script", [(PID, "true"), (["--mount"], HIDE), (PID, HIDE),
                                                (EVERYTHING, HIDE + "; ip link set lo up")],
                         ids=["pid", "mount", "pid-mount", "everything"])
def test_a_program_in_namespaces_is_dumped_from_outside(tools, namespaces, script):
    inside = Container(tools, namespaces, script, tools.programs / "counter", STEPS)
    inside.job.wait_lines(5)
    tools.dump(inside.keeper, "one")
    assert inside.job.wait() == 85
    tools.finish()
    copy = tools.restore("one")
    assert copy.wait() == 0, copy.error_text
    complete(inside.job.lines + copy.lines)


def test_a_process_of_the_program_names_it_too(tools):
    """Its PID out here differs from the one that its keeper knows."""
    inside = Container(tools, PID, HIDE, tools.programs / "counter", STEPS)
    inside.job.wait_lines(5)
    program = tree_of(inside.keeper)[0]
    assert tools.dump(program, "one", "--leave-running")["pid"] == program
    inside.finish(tools)
    complete(inside.job.lines)


@pytest.mark.skipif(not HEAT.exists(), reason="the OpenCL parts are not built")
def test_a_program_in_namespaces_is_suspended_dumped_and_resumed(tools):
    tools.env.update(bed_environment())
    inside = Container(tools, PID, HIDE, HEAT, "--n", 64, "--steps", 10000000, "--report", 50)
    inside.job.wait_text("step")

    def tool(*command):
        return subprocess.run(command, env=tools.env, cwd=tools.folder, capture_output=True, text=True, timeout=100)

    suspended = tool(tools.tool("ckpt-dump"), "--suspend", str(inside.keeper))
    assert suspended.returncode == 0, suspended.stderr
    resumed = tool(tools.tool("ckpt-restore"), "--resume", str(inside.keeper))
    assert resumed.returncode == 0, resumed.stderr
    tools.dump(inside.keeper, "one", "--leave-running")
    inside.job.kill()
    copy = tools.restore("one")
    copy.wait_text("step")


def refused(tools, inside):
    said = tools.dump_refused(inside.keeper, "one")
    lines = len(inside.job.lines)
    inside.job.wait_lines(lines + 2)
    return said


def test_a_user_namespace_is_refused_by_name(tools):
    inside = Container(tools, [*PID, "--user", "--map-root-user"], "true", tools.programs / "counter", STEPS)
    inside.job.wait_lines(2)
    assert "runs in another user namespace than ckpt-dump" in refused(tools, inside)


OVERLAY = """mkdir -p "$CKPT_RUNTIME_DIR/o"; mount -t tmpfs tmpfs "$CKPT_RUNTIME_DIR/o"; cd "$CKPT_RUNTIME_DIR/o"
mkdir up work root; mount -t overlay overlay -o lowerdir=/,upperdir=up,workdir=work root
for at in proc dev sys; do mount --rbind /$at root/$at; done; cd root; exec chroot . sh -ec 'cd "$0"; exec "$@"' {folder} \\"""


def test_a_container_with_its_own_root_folder(tools):
    """CRIU of the container must not run with the rights of the tool outside. A suspend needs no CRIU."""
    tools.env.update(bed_environment())
    script = OVERLAY.format(folder=tools.folder)
    job = tools.start("unshare", [*PID, "sh", "-ec", f"{script}\n{tools.tool('ckpt-run')} -- {HEAT} --n 64 --steps 10000000 "
                                  "--report 50"])
    wait_for(lambda: "step" in job.text or job.process.poll() is not None, "steps")
    if "step" not in job.text:
        pytest.skip(f"no overlay here: {job.error_text[-200:]}")
    keeper = [p for p in tree_of(job.pid) if executable_name(p) == "ckpt-run"][0]
    said = tools.dump_refused(keeper, "one")
    assert "a container that has its own root folder" in said and "--suspend" in said
    for tool, option in (("ckpt-dump", "--suspend"), ("ckpt-restore", "--resume")):
        r = subprocess.run([tools.tool(tool), option, str(keeper)], env=tools.env, capture_output=True, text=True, timeout=100)
        assert r.returncode == 0, r.stderr


@pytest.mark.parametrize("dumped_inside", [False, True], ids=["outside", "inside"])
def test_a_file_that_was_opened_outside_is_named(tools, dumped_inside):
    """Also if ckpt-dump runs in the same mount namespace, and otherwise sees the program's files."""
    with open(tools.folder / "log", "w") as log:
        inside = Container(tools, ["--mount"], HIDE, tools.programs / "counter", STEPS, stdout=log)
        wait_for(lambda: (tools.folder / "log").stat().st_size > 20, "lines")
        enter = ["nsenter", f"--mount=/proc/{inside.keeper}/ns/mnt"] if dumped_inside else []
        r = subprocess.run([*enter, tools.tool("ckpt-dump"), str(inside.keeper), "-o", "one"], env=tools.env, cwd=tools.folder,
                           capture_output=True, text=True, timeout=100)
        assert r.returncode == 1
    assert "was opened outside of the program's mount namespace" in r.stderr and str(tools.folder / "log") in r.stderr


CHROOTED = """import ctypes, os, time
n = ctypes.c_uint()
if "device" in os.environ["CASE"]: assert ctypes.CDLL("libOpenCL.so.1").clGetPlatformIDs(0, None, ctypes.byref(n)) == 0
os.mkdir("root"); os.chroot("root"); os.chdir("/")
print("ready", flush=True)
time.sleep(2)
assert os.listdir("/") == []
print("done", flush=True)
"""


@pytest.mark.parametrize("namespaces", [[], ["--mount"]], ids=["here", "mount"])
def test_a_program_that_changes_its_root_folder(tools, namespaces):
    """It is in no container: CRIU does not run with files of the new root folder. Its copy is dumped again."""
    tools.env["CASE"] = "plain"
    (tools.folder / "chrooted.py").write_text(CHROOTED)
    inside = Container(tools, namespaces, "true", sys.executable, "-u", tools.folder / "chrooted.py")
    inside.job.wait_lines(1)
    tools.dump(inside.keeper, "one")
    assert inside.job.wait() == 85
    copy = tools.restore("one")
    wait_for(lambda: tree_of(copy.pid), "the copy")
    tools.dump(copy.pid, "two", "--leave-running")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines == ["done"]


def test_a_program_with_a_device_that_changes_its_root_folder_is_refused(tools):
    tools.env.update(bed_environment(), CASE="device")
    (tools.folder / "chrooted.py").write_text(CHROOTED)
    job = tools.run(sys.executable, "-u", tools.folder / "chrooted.py")
    job.wait_lines(1)
    assert "has changed its root folder (chroot)" in tools.dump_refused(job.pid, "one")
    assert job.wait() == 0, job.error_text


@pytest.mark.parametrize("right", ["net_admin", "sys_time"])
def test_root_without_a_right_that_a_restore_needs(ckpt, right):
    """As in a container: no program is ended for an image that could not be restored there, and the message names the
    engine's options."""
    def tool(name, *arguments):
        return subprocess.run(["setpriv", f"--bounding-set=-{right}", ckpt.tool(name), *map(str, arguments)], env=ckpt.env,
                              cwd=ckpt.folder, capture_output=True, text=True)

    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    refused = tool("ckpt-dump", job.pid, "-o", "image")
    assert refused.returncode == 1 and f"CAP_{right.upper()}" in refused.stderr, refused.stderr
    assert f"--cap-add={right.upper()}" in refused.stderr and "--security-opt=seccomp=unconfined" in refused.stderr
    job.wait_lines(len(job.lines) + 2)
    assert tool("ckpt-dump", job.pid, "-o", "image", "--leave-running").returncode == 0
    job.kill()
    refused = tool("ckpt-restore", "image")
    assert refused.returncode == 1 and f"--cap-add={right.upper()}" in refused.stderr, refused.stderr
