# SPDX-License-Identifier: Apache-2.0
"""Users without root: they dump and restore their own programs by ckpt-helper, or with capabilities of
their own; root does it for them. Everything runs as a real other user."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from conftest import BUILD, Job, tree_of, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from test_opencl import OPENCL, devices  # noqa: F401 (devices is a fixture)

HELPER = BUILD / "helper" / "ckpt-helper"
UID, OTHER = 61234, 61235

pytestmark = pytest.mark.skipif(not HELPER.exists(), reason="ckpt-helper is not built")

# Counts in a file; answers over TCP and UDP with the count.
SERVER = """
import os, socket, sys, threading, time
tcp = socket.socket(); tcp.bind(("127.0.0.1", 0)); tcp.listen(5)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("127.0.0.1", 0))
count = 0
def serve_tcp():
    while True:
        c, _ = tcp.accept(); c.sendall(b"%d" % count); c.recv(1); c.close()  # the peer closes first
def serve_udp():
    while True:
        _, peer = udp.recvfrom(9); udp.sendto(b"%d" % count, peer)
for f in (serve_tcp, serve_udp):
    threading.Thread(target=f, daemon=True).start()
print(tcp.getsockname()[1], udp.getsockname()[1], os.getpid(), flush=True)
while True:
    count += 1; time.sleep(0.02)
"""


def as_user(uid=UID, capabilities=()):
    command = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    names = ",".join(["-all", *(f"+{c}" for c in capabilities)])
    return [*command, f"--inh-caps={names}", *([f"--ambient-caps={names}"] if capabilities else [])]


class User:
    """A user with a folder, and the tools as this user runs them."""

    def __init__(self, uid=UID):
        self.uid = uid
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-user-"))
        os.chown(self.folder, uid, uid)
        self.jobs, self.programs = [], []
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "CKPT_RUNTIME_DIR": str(self.folder),
                    "CKPT_HELPER": "/nonexistent"}

    def command(self, tool, *args, capabilities=()):
        return [*as_user(self.uid, capabilities), str(BUILD / "tools" / tool), *map(str, args)]

    def start(self, tool, *args, capabilities=(), **more):
        job = Job(self.command(tool, *args, capabilities=capabilities), env=self.env, cwd=self.folder, **more)
        self.jobs.append(job)
        return job

    def tool(self, tool, *args, capabilities=()):
        return subprocess.run(self.command(tool, *args, capabilities=capabilities), env=self.env, cwd=self.folder,
                              capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)

    def run(self, *program, options=(), **more):
        return self.start("ckpt-run", *options, "--", *program, **more)

    def server(self):
        """Returns the job, and the ports and the PID that the program sees."""
        script = self.folder / "server.py"
        script.write_text(SERVER)
        job = self.run("/usr/bin/python3", script)
        job.wait_lines(1)
        return job, [int(n) for n in job.lines[0].split()]

    def dump(self, pid, image, *options, **more):
        r = self.tool("ckpt-dump", pid, "-o", image, *options, **more)
        assert r.returncode == 0, r.stdout + r.stderr

    def restore(self, image, *options, **more):
        r = self.tool("ckpt-restore", "--detach", *options, image, **more)
        assert r.returncode == 0, r.stderr
        self.programs.append(int(r.stdout))
        return int(r.stdout)

    def close(self):
        for pid in self.programs:
            for p in [pid, *tree_of(pid)]:
                try:
                    os.kill(p, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for job in self.jobs:
            job.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def user():
    u = User()
    yield u
    u.close()


@pytest.fixture
def root(user):
    """Root's tools, in the same folder and environment."""

    def tool(name, *args):
        return subprocess.run([str(BUILD / "tools" / name), *map(str, args)], env=user.env, cwd=user.folder,
                              capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)

    return tool


class Helper:
    def __init__(self, folder, *command):
        self.socket = str(folder / "helper.sock")
        self.folder = folder
        self.log = folder / "helper.log"
        self.process = subprocess.Popen([*command, str(HELPER), "--socket", self.socket, "--folder", str(folder / "run"),
                                         "--per-user", "6"], stderr=self.log.open("w"), env={"CKPT_LOG": "info"})
        wait_for(lambda: os.path.exists(self.socket) or self.process.poll() is not None, "the helper's socket")

    def workers(self):
        return [p for p in tree_of(self.process.pid)]

    def close(self):
        for p in [self.process.pid, *tree_of(self.process.pid)]:
            try:
                os.kill(p, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


@pytest.fixture
def helper(user):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-helper-"))
    folder.chmod(0o755)
    h = Helper(folder)
    user.env["CKPT_HELPER"] = h.socket
    yield h
    h.close()
    shutil.rmtree(folder, ignore_errors=True)


def answers(ports):
    """The counts that the server says over TCP and UDP."""
    with socket.create_connection(("127.0.0.1", ports[0]), timeout=30) as c:
        tcp = int(c.recv(20))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(30)
        s.sendto(b"?", ("127.0.0.1", ports[1]))
        return tcp, int(s.recv(20))


def status(pid):
    """Of a process that may end meanwhile."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {"Name": [], "State": ["X"], "Uid": ["-1"] * 4}
    return {k: v.split() for k, _, v in (line.partition(":") for line in text.splitlines())}


def assert_is_users(pid, uid=UID):
    """It and its threads have the user's uid and nothing else."""
    for task in os.listdir(f"/proc/{pid}/task"):
        s = status(f"{pid}/task/{task}")
        assert set(s["Uid"] + s["Gid"]) == {str(uid)}
        assert all(int(s[c][0], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapAmb"))


def test_a_user_dumps_and_restores_by_the_helper(user, helper, blocker):
    """With the PID free, and again with it taken; a TCP listener, UDP and threads."""
    job, (*ports, pid) = user.server()
    before = answers(ports)
    user.dump(job.pid, "one.img")
    assert job.wait() == 85
    restored = user.restore("one.img")
    assert answers(ports) > before
    assert_is_users(restored)
    user.dump(restored, "two.img")
    blocker.take(pid)
    again = user.restore("two.img")
    assert min(answers(ports)) > max(before)
    assert_is_users(again)
    assert int(status(again)["NSpid"][-1]) == pid


def test_the_exit_code_and_the_output_of_a_program_restored_by_the_helper(user, helper):
    script = "import time; print('a', flush=True); time.sleep(1.5); print('b', flush=True); raise SystemExit(42)"
    job = user.run("/usr/bin/python3", "-c", script)
    job.wait_lines(1)
    user.dump(job.pid, "a.img")
    copy = user.start("ckpt-restore", "a.img")
    assert copy.wait() == 42, copy.error_text
    assert copy.lines == ["b"]
    wait_for(lambda: not helper.workers(), "the end of the helper's processes")


def test_a_signal_to_ckpt_restore_ends_what_the_helper_restored(user, helper):
    job, (*ports, pid) = user.server()
    user.dump(job.pid, "a.img")
    copy = user.start("ckpt-restore", "a.img")
    wait_for(lambda: any(p for p in helper.workers() if status(p)["Name"] == ["python3"]), "the program")
    answers(ports)
    copy.process.send_signal(signal.SIGTERM)
    assert copy.wait() == -signal.SIGTERM
    wait_for(lambda: not helper.workers(), "the end of the helper's processes")


def test_a_user_with_the_capability_needs_no_helper(user):
    job, (*ports, pid) = user.server()
    before = answers(ports)
    user.dump(job.pid, "a.img", capabilities=["checkpoint_restore"])
    assert job.wait() == 85
    restored = user.restore("a.img", capabilities=["checkpoint_restore"])
    assert restored == pid
    assert answers(ports) > before
    assert_is_users(restored)


def test_root_dumps_and_restores_a_users_program(user, root):
    job, (*ports, pid) = user.server()
    before = answers(ports)
    r = root("ckpt-dump", job.pid, "-o", "a.img")
    assert r.returncode == 0, r.stderr
    assert job.wait() == 85
    r = root("ckpt-restore", "--detach", "a.img")
    assert r.returncode == 0, r.stderr
    user.programs.append(int(r.stdout))
    assert answers(ports) > before
    assert_is_users(r.stdout.strip())
    r = root("ckpt-dump", r.stdout.strip(), "-o", "b.img")
    assert r.returncode == 0, r.stderr


def bed(user, env):
    for name in ("OCL_ICD_VENDORS", "RUSTICL_ENABLE", "POCL_DEVICES"):
        user.env[name] = env[name]


@pytest.mark.parametrize("by_root", [False, True], ids=["user", "root"])
def test_a_users_opencl_program_moves_to_another_device(user, helper, root, devices, by_root):  # noqa: F811
    env, here = devices
    bed(user, env)
    go = user.folder / "go"
    user.env["CKPT_TEST_GO"] = str(go)
    job = user.run(OPENCL / "ocl-objects", options=["--device", here["pocl"]])
    job.wait_text("READY")
    tool = root if by_root else user.tool
    r = tool("ckpt-dump", job.pid, "-o", "objects.img")
    assert r.returncode == 0, r.stderr
    assert job.wait() == 85
    go.touch()
    r = tool("ckpt-restore", "--device", here["rusticl"], "objects.img")
    assert r.returncode == 0, r.stderr
    assert r.stdout.splitlines()[-1] == "OK"


@pytest.mark.skipif(not NVCC or not RUN.exists(), reason="there is no CUDA toolkit or no software device")
@pytest.mark.parametrize("by_root", [False, True], ids=["user", "root"])
def test_a_users_cuda_program_moves_to_another_device(user, helper, root, make, by_root):  # noqa: F811
    program = user.folder / "steps"
    shutil.copy(make("steps.cu"), program)
    user.env.update(CKPT_SOFTCUDA="2x256M", CUDA_MODULE_LOADING="LAZY")
    plain = user.run(program)
    assert plain.wait() == 0, plain.error_text
    pause = user.folder / "pause"
    pause.touch()
    job = user.run(program)
    job.wait_lines(1)
    tool = root if by_root else user.tool
    r = tool("ckpt-dump", job.pid, "-o", "steps.img")
    assert r.returncode == 0, r.stderr
    pause.unlink()
    r = tool("ckpt-restore", "--device", "cuda:1", "steps.img")
    assert r.returncode == 0, r.stderr
    assert r.stdout.splitlines()[-2:] == plain.lines[-2:]


def test_images_at_intervals_by_the_helper(user, helper):
    script = "import time\nwhile True: time.sleep(0.1)"
    job = user.run("/usr/bin/python3", "-c", script, options=["--every", "1s", "--keep", "1"])
    wait_for(lambda: len(list(user.folder.glob("*-0002.img"))) == 1, "the second image")
    assert job.process.poll() is None
    image = wait_for(lambda: [i for i in user.folder.glob("*.img") if (i / "index.ckpt").exists()], "an image")[-1]
    assert image.stat().st_uid == UID


def test_a_program_checkpoints_itself_by_the_helper(user, helper):
    """Before a restore, and after it: the helper then enters the namespace that it has made."""
    library = BUILD / "libckpt" / "libckpt.so.1"
    if not library.exists():
        pytest.skip("libckpt is not built")
    script = f"""
import ctypes, sys
ckpt = ctypes.CDLL({str(library)!r})
for image in (b"one.img", b"two.img"):
    print(image.decode(), ckpt.ckpt_checkpoint(image, 0, None), flush=True)
print("end", flush=True)
"""
    job = user.run("/usr/bin/python3", "-c", script)
    assert job.wait() == 0, job.error_text
    assert job.lines[-1] == "end" and (user.folder / "two.img" / "index.ckpt").exists(), job.text
    copy = user.start("ckpt-restore", "one.img")
    copy.wait()
    assert copy.lines[-1:] == ["end"], copy.text + copy.error_text


# ---- refusals


def refused(r):
    assert r.returncode == 1, r.stdout + r.stderr
    return r.stderr


def test_without_a_helper_the_message_says_what_to_do(user):
    job, _ = user.server()
    said = refused(user.tool("ckpt-dump", job.pid))
    assert "CAP_CHECKPOINT_RESTORE" in said and "ckpt-helper.socket" in said
    assert job.process.poll() is None


def test_a_program_of_another_user_is_refused(user, helper):
    job, (*ports, _) = user.server()
    other = User(OTHER)
    other.env["CKPT_HELPER"] = helper.socket
    try:
        said = refused(other.tool("ckpt-dump", job.pid))
        assert "ckpt-dump: error" in said
        # The helper itself, too.
        program = next(p for p in tree_of(job.pid) if status(p)["Name"] == ["python3"])
        what, _ = ask(helper, dump_request(program), OTHER)
        assert f"belongs to uid {UID}" in what
        answers(ports)
    finally:
        other.close()


def test_an_image_of_another_user_is_refused(user, helper):
    job, _ = user.server()
    user.dump(job.pid, "a.img")
    other = User(OTHER)
    other.env["CKPT_HELPER"] = helper.socket
    try:
        image = user.folder / "a.img"
        assert "Permission denied" in refused(other.tool("ckpt-restore", image))
        shutil.copytree(image, other.folder / "a.img")
        subprocess.run(["chown", "-R", str(OTHER), other.folder / "a.img"], check=True)
        assert f"belongs to uid {UID}" in refused(other.tool("ckpt-restore", "a.img"))
    finally:
        other.close()


def test_a_folder_that_the_user_cannot_write_to_is_refused(user, helper):
    job, _ = user.server()
    assert "not writable" in refused(user.tool("ckpt-dump", job.pid, "-o", "/usr/a.img"))


def test_a_tree_with_a_setuid_program_is_refused(user, helper):
    sleeper = user.folder / "sleep"
    shutil.copy("/bin/sleep", sleeper)
    os.chown(sleeper, 0, 0)
    sleeper.chmod(0o4755)
    job = user.run("sh", "-c", f"{sleeper} 1000 & echo started; wait")
    job.wait_lines(1)
    try:
        root_owned = wait_for(lambda: [p for p in tree_of(job.pid) if status(p)["Uid"][1] == "0"], "a setuid program")
        assert "has the rights of uid 0" in refused(user.tool("ckpt-dump", job.pid))
        shell = int(status(root_owned[0])["PPid"][0])
        what, _ = ask(helper, dump_request(shell), UID)
        assert "belongs to uid 0" in what
    finally:
        for p in tree_of(job.pid):
            os.kill(p, signal.SIGKILL)


# ---- hostile callers


def frame(type_, body, fds=0):
    return len(body).to_bytes(4, "little") + type_.to_bytes(2, "little") + fds.to_bytes(2, "little") + body


def dump_request(pid):
    return frame(2, pid.to_bytes(4, "little") + b"\0", 1)


CALL = """
import json, os, socket, sys
data, fds = bytes.fromhex(sys.argv[2]), int(sys.argv[3])
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
null = os.open("/dev/null", os.O_RDWR)
try: socket.send_fds(s, [data], [null] * fds)
except BrokenPipeError: pass  # a helper with too many requests answers before it is asked, and closes
s.settimeout(60)
answer = b""
while True:
    try: piece = s.recv(4096)
    except ConnectionResetError: break
    if not piece: break
    answer += piece
print(answer.hex())
"""


def ask(helper, data, uid, fds=1, *prefix):
    """What the helper says to these bytes: its refusal's text and hint."""
    r = subprocess.run([*prefix, *as_user(uid), "/usr/bin/python3", "-c", CALL, helper.socket, data.hex(), str(fds)],
                       capture_output=True, text=True, timeout=90, cwd="/")
    assert r.returncode == 0, r.stderr
    answer = bytes.fromhex(r.stdout.strip())
    if answer[4:6] != b"\x41\0":  # Refused
        return answer, ""
    n = int.from_bytes(answer[8:12], "little")
    return answer[12:12 + n].decode(), answer[16 + n:].decode()


def test_garbage_is_refused_and_harms_nobody(user, helper):
    job, (*ports, pid) = user.server()
    restore = (7).to_bytes(4, "little") * 2
    for data, fds in [(os.urandom(200), 0), (b"\xff" * 64, 0), (frame(9, b""), 0), (frame(2, b""), 0),
                      (frame(2, b"\1\0\0\0\0", 1), 1), (frame(3, restore + b"\xff" + bytes(8), 1), 1),
                      (frame(3, restore + b"\0" + (5).to_bytes(4, "little") + b"a/../" + bytes(4), 1), 1),
                      (frame(2, b"x" * 5000, 0), 0)]:
        what, _ = ask(helper, data, UID, fds)
        assert isinstance(what, str) and what, data
    user.dump(job.pid, "a.img", "--leave-running")
    answers(ports)
    assert helper.process.poll() is None


def test_silent_callers_hold_up_nobody_else(user, helper):
    """More connections than one user may have: another user is served."""
    job, (*ports, _) = user.server()
    script = "import socket, sys, time\n" \
             "all = [socket.socket(socket.AF_UNIX) for _ in range(40)]\n" \
             "for s in all: s.connect(sys.argv[1])\n" \
             "print(flush=True); time.sleep(1000)"
    crowd = Job([*as_user(OTHER), "/usr/bin/python3", "-c", script, helper.socket])
    try:
        crowd.wait_text("\n")
        wait_for(lambda: len(helper.workers()) == 6, "as many workers as one user may have")
        assert "too many requests" in ask(helper, dump_request(2), OTHER)[0]
        user.dump(job.pid, "a.img", "--leave-running")
        answers(ports)
    finally:
        crowd.kill()
    wait_for(lambda: not helper.workers(), "the end of the workers")


@pytest.mark.parametrize("victim", ["ckpt-dump", "worker"])
def test_a_dump_whose_parts_are_killed_leaves_the_program_running(user, helper, victim):
    job, (*ports, _) = user.server()
    user.env["CKPT_TEST_HOLD_AT"] = "record"  # CRIU has ended: the tree is stopped
    dump = user.start("ckpt-dump", job.pid, "-o", "a.img")
    program = next(p for p in tree_of(job.pid) if status(p)["Name"] == ["python3"])
    if victim == "worker":
        # At any moment: the worker lives as long as CRIU.
        worker = wait_for(lambda: helper.workers() or dump.process.poll() is not None, "a worker")
        if worker is not True:
            try:
                os.kill(worker[0], signal.SIGKILL)
            except ProcessLookupError:
                pass
    wait_for(lambda: status(dump.pid)["State"][0] == "T" or dump.process.poll() is not None, "the step")
    dump.kill()
    user.env.pop("CKPT_TEST_HOLD_AT")
    wait_for(lambda: status(program)["State"][0] != "T", "the program to run on")
    assert answers(ports)
    assert not (user.folder / "a.img").exists()
    user.dump(job.pid, "b.img", "--leave-running")


def test_callers_in_a_sandbox_are_refused(user, helper):
    request = dump_request(os.getpid())
    assert "sandbox" in ask(helper, request, UID, 1, "setpriv", "--no-new-privs")[0]
    assert "another mnt namespace" in ask(helper, request, UID, 1, "unshare", "--mount")[0]
    assert "another ipc namespace" in ask(helper, request, UID, 1, "unshare", "--ipc")[0]


def test_a_program_in_a_foreign_namespace_is_refused(user, helper):
    """CRIU is not started among mounts that the helper has not made."""
    job = Job(["unshare", "--pid", "--fork", "--mount-proc", *as_user(), "sleep", "1000"])
    try:
        sleeper = wait_for(lambda: [p for p in tree_of(job.pid) if status(p)["Name"] == ["sleep"]], "sleep")[0]
        what, _ = ask(helper, dump_request(sleeper), UID)
        assert "has not made" in what
    finally:
        job.kill()


# ---- its own rights


@pytest.mark.parametrize("name", ["setuid", "setgid", "setpcap", "sys_admin", "sys_chroot", "sys_ptrace",
                                  "checkpoint_restore"])
def test_the_helper_names_the_capability_that_it_lacks(tmp_path, name):
    r = subprocess.run(["setpriv", f"--bounding-set=-{name}", str(HELPER), "--socket", str(tmp_path / "s"), "--folder",
                        str(tmp_path / "run")], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and f"CAP_{name.upper()}" in r.stderr


def test_the_helper_gives_up_what_it_does_not_need(helper):
    names = {3: "fowner", 6: "setgid", 7: "setuid", 8: "setpcap", 18: "sys_chroot", 19: "sys_ptrace", 21: "sys_admin",
             40: "checkpoint_restore"}
    permitted = int(status(helper.process.pid)["CapPrm"][0], 16)
    assert {b for b in range(64) if permitted >> b & 1} == set(names) - {3}


def test_a_criu_that_others_can_change_is_refused(tmp_path):
    shutil.copy("/bin/true", tmp_path / "criu")
    (tmp_path / "criu").chmod(0o777)
    r = subprocess.run([str(HELPER), "--criu", str(tmp_path / "criu"), "--socket", str(tmp_path / "s")],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "others than root can change" in r.stderr


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="there is no systemd")
def test_started_by_a_socket(user):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-helper-"))
    folder.chmod(0o755)
    path = folder / "s"
    activator = Job(["systemd-socket-activate", "-l", path, str(HELPER), "--folder", str(folder / "run")])
    try:
        wait_for(path.exists, "the socket")
        path.chmod(0o666)
        user.env["CKPT_HELPER"] = str(path)
        job, (*ports, _) = user.server()
        user.dump(job.pid, "a.img", "--leave-running")
        answers(ports)
    finally:
        activator.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_the_units_are_valid(tmp_path):
    for name in ("ckpt-helper.service", "ckpt-helper.socket"):
        text = (BUILD / "helper" / name).read_text()
        lines = [f"ExecStart={HELPER}" if line.startswith("ExecStart=") else line for line in text.splitlines()]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "ckpt-helper.service",
                        tmp_path / "ckpt-helper.socket"], capture_output=True, text=True, timeout=60)
    said = [line for line in (r.stdout + r.stderr).splitlines() if "ckpt-helper" in line]
    assert r.returncode == 0 and said == []
